"""Mask secrets: remove passwords, tokens and keys from a raw record before anything of it is stored.

The text around a secret stays, for example the name of a variable. A pattern runs only if one of its hints occurs in
the record, so that a record without secrets costs only a few substring searches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MASKED = b"[masked]"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of secret: if a hint (lower case) occurs, the expression's group `secret` is masked."""

    name: str
    hints: tuple[bytes, ...]
    expression: re.Pattern[bytes]


def _pattern(name: str, hints: tuple[str, ...], expression: str) -> Pattern:
    compiled = re.compile(expression.encode(), re.IGNORECASE | re.DOTALL)
    return Pattern(name, tuple(hint.encode() for hint in hints), compiled)


_SEPARATOR = r"""(?:\\?["']?\s{0,3}(?:=>|[:=])\s{0,3}\\?["']?|["']?\s{1,3}["']?)"""
_VALUE = r"""(?!\[masked\])(?P<secret>[^\s"'\\,;&<>)\]}]{4,4096})"""
_VARIABLE = (
    r"(?:password|passwd|passphrase|api[_-]?key|secret[_-]?(?:access[_-]?)?key|client[_-]?secret"
    r"|access[_-]?token|auth[_-]?token|refresh[_-]?token|session[_-]?token|private[_-]?key)"
)
PATTERNS: tuple[Pattern, ...] = (
    _pattern(
        "private key",
        ("private key",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?P<secret>(?:[^-]|-(?!----)){1,65536})",
    ),
    _pattern("AWS access key", ("akia", "asia"), r"(?<![A-Z0-9])(?P<secret>(?:AKIA|ASIA)[A-Z0-9]{16})(?![A-Z0-9])"),
    _pattern(
        "GitHub token",
        ("ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_"),
        r"(?P<secret>(?:gh[pousr]_|github_pat_)\w{20,255})",
    ),
    _pattern("Slack token", ("xox",), r"(?P<secret>xox[abeoprs]-[A-Za-z0-9-]{10,255})"),
    _pattern("Hugging Face token", ("hf_",), r"(?<![A-Za-z0-9])(?P<secret>hf_[A-Za-z0-9]{20,255})"),
    _pattern("JSON web token", ("eyj",), r"(?P<secret>eyJ[\w-]{8,4096}\.eyJ[\w-]{4,8192}\.[\w-]{8,4096})"),
    _pattern(
        "authorization",
        ("authorization", "bearer"),
        r"(?:\bauthorization\\?[\"']?\s{0,3}[:=]\s{0,3}\\?[\"']?(?:basic|bearer|token)?|\bbearer)"
        r"\s{1,3}(?P<secret>[\w.~+/=-]{8,8192})",
    ),
    _pattern("address with a password", ("://",), r"://[^\s/:@]{1,256}:(?P<secret>[^\s/@]{1,256})@"),
    _pattern(
        "named secret",
        ("password", "passwd", "passphrase", "key", "token", "secret"),
        _VARIABLE + _SEPARATOR + _VALUE,
    ),
)  # fmt: skip


def mask(body: bytes) -> bytes:
    """Return a record with each secret replaced by `[masked]`; a record without secrets is unchanged."""
    lower = body.lower()
    for pattern in PATTERNS:
        if any(hint in lower for hint in pattern.hints):
            body = pattern.expression.sub(_masked, body)
    return body


def _masked(match: re.Match[bytes]) -> bytes:
    text, start = match[0], match.start()
    first, last = match.start("secret") - start, match.end("secret") - start
    return text[:first] + MASKED + text[last:]
