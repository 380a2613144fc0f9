"""Webhook signatures: HMAC-SHA256 over `<timestamp>:<body>`, as Grafana signs."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from faultbridge.errors import Rejected

WINDOW = timedelta(minutes=5)
VERSION = "v1="
_MAX_DIGITS = 12


def sign(timestamp: str, body: bytes, secret: bytes) -> str:
    """Return the hexadecimal signature of a body; `timestamp` is a Unix time in whole seconds."""
    return hmac.new(secret, timestamp.encode() + b":" + body, "sha256").hexdigest()


def check(timestamp: str, body: bytes, signature: str, secrets: Sequence[bytes], now: datetime) -> datetime:
    """Return the time of a valid signature.

    Raises Rejected `unauthorised` when no secret made the signature, or when its time is more than 5 minutes from now.
    Several secrets are valid at once, so that a secret can be rotated without lost posts.
    """
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= _MAX_DIGITS):
        raise Rejected("unauthorised", "the timestamp is not a Unix time in seconds; send whole seconds")
    signed_at = datetime.fromtimestamp(int(timestamp), UTC)
    given = signature.removeprefix(VERSION).lower().encode()
    # Every secret is compared, so that the response time does not depend on which one matches.
    matches = [hmac.compare_digest(sign(timestamp, body, secret).encode(), given) for secret in secrets]
    if not any(matches):
        raise Rejected("unauthorised", "the signature does not match this body; sign `<timestamp>:<body>`")
    if abs(now - signed_at) > WINDOW:
        seconds = int(WINDOW.total_seconds())
        raise Rejected("unauthorised", f"the timestamp is more than {seconds} s from now; check the sender's clock")
    return signed_at
