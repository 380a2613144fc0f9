"""Places as text that is opaque and safe in an address; signing it is left to whoever hands it out."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass

from faultbridge.errors import Rejected


def make_token(place: str) -> str:
    """Make a token of a place: opaque, and safe in an address."""
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def read_token(token: str) -> str:
    """Read a token back; `bad_token` for what never was one."""
    try:
        return base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise Rejected("bad_token", "this is no token of a page") from None


TAG_BYTES = 16
MAX_CHARACTERS = 1024


@dataclass(frozen=True, slots=True)
class Tokens:
    """Signs and reads tokens; `secret` is asked for when the first one is needed."""

    secret: Callable[[], bytes]

    def sign(self, scope: str, place: str) -> str:
        """Make a token of a place within a question."""
        body = place.encode()
        return base64.urlsafe_b64encode(self._tag(scope, body) + body).decode().rstrip("=")

    def read(self, scope: str, token: str) -> str:
        """Read the place back; `bad_token` for one that is forged, cut, or of another question."""
        try:
            raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        tag, body = raw[:TAG_BYTES], raw[TAG_BYTES:]
        if len(token) > MAX_CHARACTERS or not hmac.compare_digest(tag, self._tag(scope, body)):
            raise Rejected("bad_token", "this is no token of this question")
        return body.decode()

    def _tag(self, scope: str, body: bytes) -> bytes:
        text = len(scope.encode()).to_bytes(4, "big") + scope.encode() + body
        return hmac.new(self.secret(), text, hashlib.sha256).digest()[:TAG_BYTES]
