"""Mask secrets: remove passwords, tokens and keys from a raw record before any part of it is stored.

The text around a secret stays, for example the name of a variable or the prefix of a token. Masking any record takes a
time that is proportional to the size of the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby

import msgspec
from msgspec import Struct

from faultbridge.decode.data import FOLDER
from faultbridge.model.values import replace

MASKED = b"[masked]"
_TOKEN, _PLAIN_TOKEN = r"[\w.+/=-]{16,}+", r"[A-Za-z0-9]{20,}+"


def mask(body: bytes) -> bytes:
    """Return a record in which the secrets that the patterns find are replaced by `[masked]`."""
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
    present = {hint for hint, text in secret_hints().items() if text in lower}
    for pattern in secret_patterns():
        if not pattern.hints or not present.isdisjoint(pattern.hints):
            yield from pattern.spans(lower if pattern.any_case else body)


class SecretPattern(Struct, frozen=True):
    """One kind of secret. The group `secret` of the regular expression is the text to mask.

    The pattern is compiled and searched only if one of its hints occurs in the lower-case text. A pattern without hints
    is always searched. The pattern is searched in the original text, or with `any_case` in the lower-case text.
    """

    name: str
    pattern: str
    hints: frozenset[str] = frozenset()
    any_case: bool = False

    def spans(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each secret; with `any_case`, the text must be in lower case."""
        return (match.span("secret") for match in _compiled(self.pattern).finditer(text))


class _Secrets(Struct, frozen=True):
    """The content of `secrets.json`."""

    token_prefixes: Mapping[str, Sequence[str]]
    plain_token_prefixes: Mapping[str, Sequence[str]]
    parts: Mapping[str, str]
    patterns: Sequence[SecretPattern]


@cache
def secret_patterns() -> Sequence[SecretPattern]:
    """Return the packaged patterns of secrets, which are parsed once."""
    data = msgspec.json.decode((FOLDER / "secrets.json").read_bytes(), type=_Secrets)
    return (_tokens(data), *(replace(one, pattern=_expanded(one.pattern, data.parts)) for one in data.patterns))


@cache
def secret_hints() -> Mapping[str, bytes]:
    """Return the hints of all patterns as bytes; a pattern with hints needs one of them in the text."""
    return {hint: hint.encode() for pattern in secret_patterns() for hint in pattern.hints}


def _tokens(data: _Secrets) -> SecretPattern:
    """Return one pattern for the tokens of all vendors; its group `secret` leaves the prefix out."""
    token = rf"(?:{_after(data.token_prefixes)}){_TOKEN}"
    plain = rf"(?:{_after(data.plain_token_prefixes)}){_PLAIN_TOKEN}"
    return SecretPattern("token", rf"[_.-](?<=[A-Za-z0-9].)(?=[\w.+/=-]{{16}})(?P<secret>{token}|{plain})")


def _after(prefixes: Mapping[str, Iterable[str]]) -> str:
    """Return a lookbehind after any of the prefixes, one for each length, which must be fixed."""
    by_length = sorted((prefix for vendor in prefixes.values() for prefix in vendor), key=len)
    groups = (map(re.escape, same) for _, same in groupby(by_length, key=len))
    return "|".join(rf"(?<=(?<![A-Za-z0-9])(?:{'|'.join(group)}))" for group in groups)


def _expanded(pattern: str, parts: Mapping[str, str]) -> str:
    for name, part in parts.items():
        pattern = pattern.replace(f"<<{name}>>", part)
    return pattern


@cache
def _compiled(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode(), re.DOTALL)
