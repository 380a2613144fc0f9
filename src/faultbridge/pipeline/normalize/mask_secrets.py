"""Mask secrets: remove passwords, tokens and keys from a raw record before anything of it is stored.

The text around a secret stays, for example the name of a variable or the prefix of a token. The time is proportional to
the size of the record, whatever it contains.
"""

from __future__ import annotations

from collections.abc import Iterator

from faultbridge.data.secret_patterns import secret_hints, secret_patterns

MASKED = b"[masked]"


def mask(body: bytes) -> bytes:
    """Return a record with each secret replaced by `[masked]`; a record without secrets is unchanged."""
    spans = sorted(_secrets(body))
    if not spans:
        return body
    parts, end = [], 0
    for first, last in spans:
        if first >= end:
            parts += [body[end:first], MASKED]
        end = max(end, last)
    return b"".join((*parts, body[end:]))


def _secrets(body: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each secret; they can overlap."""
    lower = body.lower()
    present = {hint for hint in secret_hints() if hint in lower}
    for pattern in secret_patterns():
        if not pattern.hints or not present.isdisjoint(pattern.hints):
            yield from pattern.spans(lower if pattern.any_case else body)
