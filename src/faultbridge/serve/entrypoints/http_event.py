"""Read the caller and the body of an HTTP request from an API Gateway event (payload version 2.0)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from faultbridge.model.errors import Rejected
from faultbridge.serve.api.requests import OPERATOR_CLAIM, READER_CLAIM, Caller


def caller_of(event: Mapping[str, Any]) -> Caller:
    """Return the caller of a request, with the clusters that the caller may read and operate.

    With a token (JWT), two claims of the token list these clusters. A caller may also read the clusters that it may
    operate. With IAM authorization, the caller may read and operate all clusters, because API Gateway has already
    checked the route against the policy of the caller.
    """
    authorizer = event.get("requestContext", {}).get("authorizer") or {}
    token = authorizer.get("jwt")
    if token is None:
        return Caller(str((authorizer.get("iam") or {}).get("userArn") or "iam"))
    claims = token.get("claims") or {}
    operated = _clusters_of(claims, OPERATOR_CLAIM)
    return Caller(str(claims.get("sub") or "jwt"), _clusters_of(claims, READER_CLAIM) | operated, operated)


def _clusters_of(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    # API Gateway passes a list as the text `[a b]`.
    return frozenset(str(claims.get(claim) or "").strip("[]").replace(",", " ").split())


MAX_RAW = 256 * 1024


def body_of(event: Mapping[str, Any]) -> str:
    """Return the body of a request as text. Raises Rejected `bad_body` for invalid base64 or UTF-8."""
    try:
        return raw_body_of(event, None).decode()
    except ValueError:
        raise Rejected("bad_body", "the body is not valid base64 of UTF-8 text") from None


def raw_body_of(event: Mapping[str, Any], limit: int | None = MAX_RAW) -> bytes:
    """Return the body of a request as it was sent; raises Rejected `bad_body`, or `too_large` above the limit."""
    body = str(event.get("body") or "")
    if limit is not None and len(body) > 2 * limit:
        raise Rejected("too_large", f"the body is too large; allowed: {limit} bytes")
    if not event.get("isBase64Encoded"):
        return body.encode(errors="surrogatepass")
    try:
        return base64.b64decode(body, validate=limit is not None)
    except (binascii.Error, ValueError):
        raise Rejected("bad_body", "the body is not valid base64 of UTF-8 text") from None
