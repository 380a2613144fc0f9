"""Webhook signatures: HMAC-SHA256 over the time, method, path and body of a request.

Grafana signs only the time and the body. Such a signature is accepted only from a sender with a single source, so the
secret of the sender is valid for one path only.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from faultbridge.errors import Rejected

WINDOW = timedelta(minutes=5)
VERSION = "v1="
_MAX_DIGITS = 11
"""Digits of the latest accepted time, in the year 5138; `datetime` ends with the year 9999."""


def request_content(timestamp: str, method: str, path: str, body: bytes) -> bytes:
    """Return the bytes that a sender must sign: time, method and path on a line each, then the body."""
    return "".join(f"{line}\n" for line in (timestamp, method, path)).encode(errors="replace") + body


def body_content(timestamp: str, body: bytes) -> bytes:
    """Return the bytes that Grafana signs: `<timestamp>:<body>`."""
    return timestamp.encode(errors="replace") + b":" + body


def sign(content: bytes, secret: bytes) -> str:
    """Return the HMAC-SHA256 signature of the content, in hexadecimal digits."""
    return hmac.new(secret, content, "sha256").hexdigest()


def signed_time(timestamp: str, now: datetime) -> datetime:
    """Convert the timestamp of a request, a Unix time in whole seconds, to a datetime.

    Raises `Rejected` (`unauthorised`) for any other text, and for a time that is more than 5 minutes from `now`.
    """
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= _MAX_DIGITS):
        raise Rejected("unauthorised", "the timestamp is not a Unix time in seconds; send whole seconds")
    signed_at = datetime.fromtimestamp(int(timestamp), UTC)
    if abs(now - signed_at) > WINDOW:
        seconds = int(WINDOW.total_seconds())
        raise Rejected("unauthorised", f"the timestamp is more than {seconds} s from now; check the sender's clock")
    return signed_at


def check_signature(signature: str, content: bytes, secrets: Sequence[bytes]) -> None:
    """Raise `Rejected` (`unauthorised`) unless the signature was made with one of the secrets.

    Several secrets are valid at once, so that a secret can be rotated without lost posts.
    """
    given = signature.removeprefix(VERSION).lower().encode(errors="replace")
    # Every secret is compared, so that the response time does not depend on which one matches.
    matches = [hmac.compare_digest(sign(content, secret).encode(), given) for secret in secrets]
    if not any(matches):
        raise Rejected("unauthorised", "the signature does not match; sign the time, the method, the path and the body")
