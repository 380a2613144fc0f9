"""Signatures of webhooks: HMAC-SHA256 over `<timestamp>:<body>`, as Grafana signs, within a window of time."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from faultbridge.errors import Rejected

WINDOW = timedelta(minutes=5)
VERSION = "v1="
_MAX_DIGITS = 12


def sign(timestamp: str, body: bytes, secret: bytes) -> str:
    """Return the signature of a body at a Unix time in whole seconds, in hexadecimal digits."""
    return hmac.new(secret, timestamp.encode() + b":" + body, "sha256").hexdigest()


def check(timestamp: str, body: bytes, signature: str, secrets: Sequence[bytes], now: datetime) -> datetime:
    """Return when it was signed; Rejected as `unauthorised` when the time is not now or no secret made the signature.

    Several secrets are tried, so that a new one can be given out while the old one is still in use.
    """
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= _MAX_DIGITS):
        raise Rejected("unauthorised", "the timestamp is no Unix time in seconds")
    signed_at = datetime.fromtimestamp(int(timestamp), UTC)
    given = signature.removeprefix(VERSION).lower().encode()
    # Every secret is tried to its end, so that the time taken tells nothing.
    made = [hmac.compare_digest(sign(timestamp, body, secret).encode(), given) for secret in secrets]
    if not any(made):
        raise Rejected("unauthorised", "the signature is not that of this body")
    if abs(now - signed_at) > WINDOW:
        raise Rejected("unauthorised", f"it was signed more than {int(WINDOW.total_seconds())} s from now")
    return signed_at
