"""Rows of patterns: what a line of a log means, the line from which each was made, and a line that it must not match.

`packaged_texts` loads the rows of kernel, service and device texts. The rows are their own tests: each row matches its
`line`, and not the text `near`. `bounded_pattern` rejects patterns whose matching time has no bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import prod
from typing import Any

from faultbridge.decode.data import packaged_json
from faultbridge.decode.frames.values import VIRTUAL_NAMES, lazy_pattern
from faultbridge.model.errors import Misconfigured
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component, normalize_pci

MAX_PATTERN = 512
# A repetition of a repetition makes the matching time exponential.
_NESTED = re.compile(r"[*+}?]\)[*+{]")
_UNBOUNDED = re.compile(r"(?<!\\)[*+]|\{\d*,\}")
_WIDE = re.compile(r"\{(?:\d*,)?(\d{2,9})\}")
# Wide repetitions multiply: three of 64 match within milliseconds, four do not.
_MAX_PLACES = 300_000


@lru_cache(maxsize=512)
def bounded_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern, or raise `Misconfigured` if it is invalid or could take too long to match.

    A pattern is refused if it is longer than 512 characters, or if it has an unlimited repetition, nested repetitions
    or too many wide repetitions.
    """
    if len(pattern) > MAX_PATTERN or _NESTED.search(pattern) or _UNBOUNDED.search(pattern):
        raise Misconfigured(f"pattern without a time bound: {pattern[:64]!r}; use {{0,n}} and no nested repetition")
    if prod(int(limit) for limit in _WIDE.findall(pattern) if int(limit) > _NARROW_LIMIT) > _MAX_PLACES:
        raise Misconfigured(f"too many wide repetitions in the pattern {pattern[:64]!r}; use smaller limits")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise Misconfigured(f"invalid pattern: {pattern[:64]!r}: {error}") from error


_NARROW_LIMIT = 15

_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})
_CHOICES = frozenset({"BRANCH", "GROUPREF_EXISTS"})


def check_repetitions(pattern: str) -> None:
    """Raise `Misconfigured` if a pattern repeats a group that contains alternatives or a repetition.

    A repetition within the group counts only if its length is variable. A text may match such a pattern in many ways,
    and a search may try all of them. The time of the search can then grow exponentially, even if each repetition has a
    small limit.
    """
    if _is_ambiguous(re._parser.parse(pattern)):  # type: ignore[attr-defined]  # noqa: SLF001 - no public parser
        text = "repeats a group that contains alternatives or a repetition"
        raise Misconfigured(f"the pattern {pattern[:64]!r} {text}; its matching time has no bound")


def _is_ambiguous(node: object, *, repeated: bool = False) -> bool:
    """Return True if a pattern repeats a part with alternatives or with a repetition of variable length."""
    name, *arguments = node if isinstance(node, tuple) and node else (None,)
    if str(name) in _REPEATS:
        least, most, body = arguments[0]
        return (repeated and least != most) or _is_ambiguous(body, repeated=repeated or most > 1)
    if str(name) in _CHOICES and repeated:
        return True
    parts = node if isinstance(node, (tuple, list)) else getattr(node, "data", ())
    return any(_is_ambiguous(one, repeated=repeated) for one in parts)


WINDOW = 1536
MAX_PLACES = 8
_IDENTIFIERS = ("pci", "uuid", "serial", "link", "index", "name")
_FRAGMENT = re.compile(r"\{([a-z]{2,16})\}")


@dataclass(frozen=True, slots=True)
class Pattern:
    """One row of patterns: the fixed text that a line must contain, the regular expression, and the row itself."""

    contains: str
    regex: re.Pattern[str]
    row: Mapping[str, Any]

    @property
    def code(self) -> str:
        """Return the fault code of the row."""
        return str(self.row["code"])

    def find(self, line: str) -> re.Match[str] | None:
        """Return the first match of the pattern that starts with its fixed text, or None.

        Only the first `MAX_PLACES` places of the fixed text are tried, with `WINDOW` characters each. The result is
        also None if the line lacks a phrase that the row `needs`, or has a phrase that it `lacks`.
        """
        position = -1
        for _ in range(MAX_PLACES):
            position = line.find(self.contains, position + 1)
            if position < 0:
                return None
            found = self.regex.match(line, position, position + WINDOW)
            if found and self._fits(line):
                return found
        return None

    def _fits(self, line: str) -> bool:
        row = self.row
        return not any(phrase in line for phrase in row.get("lacks", ())) and all(
            phrase in line for phrase in row.get("needs", ())
        )

    def component(self, details: dict[str, str]) -> Component:
        """Return the component of the row, and remove its identifiers from `details`."""
        names: dict[str, Any] = {name: value for name in _IDENTIFIERS if (value := details.pop(name, None))}
        if "pci" in names:
            names["pci"] = normalize_pci(names["pci"])
        names |= {name: int(names[name]) for name in ("index", "link") if name in names}
        kind = self.row.get("drivers", {}).get(details.get("driver"), self.row["component"])
        return Component(ComponentType(kind), **names)


def patterns_of(rows: Sequence[Mapping[str, Any]]) -> tuple[Pattern, ...]:
    """Return the compiled patterns of rows that a customer may have written."""
    if any(not row["contains"] for row in rows):
        raise Misconfigured("pattern without fixed text; set `contains`")
    return tuple(Pattern(str(row["contains"]), bounded_pattern(str(row["pattern"])), row) for row in rows)


@cache
def packaged_texts(name: str) -> tuple[Pattern, ...]:
    """Return the packaged rows of one log, such as `kernel`; each is compiled when it is first used."""
    return texts_of(packaged_json(f"texts/{name}.json"))


def texts_of(document: Mapping[str, Any]) -> tuple[Pattern, ...]:
    """Return the rows of a document of texts; each is compiled when it is first used."""
    rows = ((row["contains"], with_fragments(row["pattern"], document), row) for row in document["rows"])
    return tuple(Pattern(contains, lazy_pattern(pattern, re.DOTALL), row) for contains, pattern, row in rows)


def with_fragments(pattern: str, document: Mapping[str, Any]) -> str:
    """Return a pattern with each `{fragment}` replaced by the text that the document has for it."""
    fragments = {"virtual": VIRTUAL_NAMES, **document.get("fragments", {})}
    # A fragment may name another one.
    while (expanded := _FRAGMENT.sub(lambda found: fragments[found[1]], pattern)) != pattern:
        pattern = expanded
    return pattern


def first_match(rows: Iterable[Pattern], text: str) -> tuple[Pattern, dict[str, str]] | None:
    """Return the first row that matches at the start of a text, with the values of its groups; None without a match."""
    for row in rows:
        if row.contains in text and (found := row.regex.match(text)) is not None:
            return row, {name: value.strip() for name, value in found.groupdict().items() if value is not None}
    return None
