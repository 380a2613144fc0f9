"""Page tokens: a position in a timeline or list as opaque, URL-safe text, signed or unsigned."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable

from faultbridge.dataclass import dataclass
from faultbridge.errors import Rejected

TAG_BYTES = 16
MAX_CHARACTERS = 1024


def make_token(position: str) -> str:
    """Return a position in a timeline as an unsigned token."""
    return _encode(position.encode())


def read_token(token: str) -> str:
    """Return the position in an unsigned token; text that cannot be decoded raises Rejected `bad_token`."""
    try:
        return _decode(token).decode()
    except ValueError:
        raise Rejected("bad_token", "the text is not a page token; pass the `next` value of a page") from None


@dataclass(frozen=True, slots=True)
class Tokens:
    """Signs page tokens and checks their signatures.

    `secret` is a function that returns the key of the signatures, called whenever a token is signed or read.
    """

    secret: Callable[[], bytes]

    def sign(self, scope: str, position: str) -> str:
        """Return a signed token for a position in a timeline or list.

        `scope` names the timeline or list, and its cluster. `read` accepts the token only with the same `scope`.
        """
        body = position.encode()
        return _encode(self._tag(scope, body) + body)

    def read(self, scope: str, token: str) -> str:
        """Return the position in a signed token.

        An invalid token, a token of another scope, or a token of more than `MAX_CHARACTERS` characters raises Rejected
        `bad_token`.
        """
        try:
            raw = _decode(token)
        except ValueError:
            raw = b""
        tag, body = raw[:TAG_BYTES], raw[TAG_BYTES:]
        if len(token) > MAX_CHARACTERS or not hmac.compare_digest(tag, self._tag(scope, body)):
            raise Rejected("bad_token", "the token does not belong to this request; pass the `next` value of its page")
        return body.decode()

    def _tag(self, scope: str, body: bytes) -> bytes:
        text = len(scope.encode()).to_bytes(4, "big") + scope.encode() + body
        return hmac.new(self.secret(), text, hashlib.sha256).digest()[:TAG_BYTES]


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _decode(token: str) -> bytes:
    return base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
