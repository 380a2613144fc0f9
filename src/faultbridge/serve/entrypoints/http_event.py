"""The requests of API Gateway (payload version 2.0), their callers, and the responses to them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import NotRequired, TypedDict

from msgspec import Struct, field

from faultbridge.model.errors import Rejected
from faultbridge.serve.api.requests import OPERATOR_CLAIM, READER_CLAIM, Caller

MAX_RAW = 256 * 1024


class _Http(Struct, frozen=True):
    method: str = ""


class _Token(Struct, frozen=True):
    claims: Mapping[str, str] = field(default_factory=dict)


class _Signer(Struct, frozen=True, rename="camel"):
    user_arn: str = "iam"


class _Authorizer(Struct, frozen=True):
    jwt: _Token | None = None
    iam: _Signer | None = None


class _RequestContext(Struct, frozen=True):
    http: _Http = _Http()
    authorizer: _Authorizer | None = None


class HttpRequest(Struct, frozen=True, rename="camel"):
    """A request: its path, query, headers, body and caller."""

    raw_path: str = ""
    raw_query_string: str = ""
    headers: Mapping[str, str] | None = None
    body: str | None = None
    is_base64_encoded: bool = False
    path_parameters: Mapping[str, str] | None = None
    request_context: _RequestContext = _RequestContext()

    @property
    def lower_headers(self) -> Mapping[str, str]:
        """Return the headers, with names in lower case."""
        return {name.lower(): value for name, value in (self.headers or {}).items()}

    def text(self) -> str:
        """Return the body as text. Raises Rejected `bad_body` for invalid base64 or UTF-8."""
        try:
            return self.raw(None).decode()
        except ValueError:
            raise Rejected("bad_body", "the body is not valid base64 of UTF-8 text") from None

    def raw(self, limit: int | None = MAX_RAW) -> bytes:
        """Return the body as it was sent; raises Rejected `bad_body`, or `too_large` above the limit."""
        body = self.body or ""
        if limit is not None and len(body) > 2 * limit:
            raise Rejected("too_large", f"the body is too large; allowed: {limit} bytes")
        if not self.is_base64_encoded:
            return body.encode(errors="surrogatepass")
        try:
            return base64.b64decode(body, validate=limit is not None)
        except (binascii.Error, ValueError):
            raise Rejected("bad_body", "the body is not valid base64 of UTF-8 text") from None


def caller_of(request: HttpRequest) -> Caller:
    """Return the caller of a request, with the clusters that the caller may read and operate.

    With a token (JWT), two claims of the token list these clusters. A caller may also read the clusters that it may
    operate. With IAM authorization, the caller may read and operate all clusters, because API Gateway has already
    checked the route against the policy of the caller.
    """
    proven = request.request_context.authorizer or _Authorizer()
    if proven.jwt is None:
        return Caller(proven.iam.user_arn if proven.iam else "iam")
    claims = proven.jwt.claims
    operated = _clusters_of(claims, OPERATOR_CLAIM)
    return Caller(claims.get("sub") or "jwt", _clusters_of(claims, READER_CLAIM) | operated, operated)


def _clusters_of(claims: Mapping[str, str], claim: str) -> frozenset[str]:
    # API Gateway passes a list as the text `[a b]`.
    return frozenset((claims.get(claim) or "").removeprefix("[").removesuffix("]").replace(",", " ").split())


class HttpResponse(TypedDict):
    """The response of a function to API Gateway."""

    statusCode: int
    headers: Mapping[str, str]
    body: NotRequired[str]
    isBase64Encoded: NotRequired[bool]
