"""Places as text that is opaque and safe in an address; signing it is left to whoever hands it out."""

from __future__ import annotations

import base64
import binascii

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
