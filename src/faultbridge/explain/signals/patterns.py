"""Log patterns: each recognizes one kind of signal in the lines of a job log.

Most lines with a signal contain one of the short texts in `FRAGMENTS`. To save time, a piece of a log without any of
these texts is not searched, so any signal in this piece is missed. The end of the log is always searched.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

from faultbridge.decode.data.patterns import Pattern, patterns_of
from faultbridge.explain.signals.signal import Role

FRAGMENTS = (
    b"rror", b"NCCL WARN", b"imeout", b"imed out", b"xitcode: -", b"illed", b"xception", b"(SIG", b": nan", b"=nan",
    b"NaN", b"Xid (", b"DUE TO", b"orker group", b"heckpoint from",
)  # fmt: skip
"""Parts of most pattern texts: only a piece with one of them, or at the end of the log, is searched."""

_EXCEPTION = re.compile(r"(?<![\w.])(?:[A-Za-z_]\w{0,63}\.){0,8}([A-Z]\w{2,63})(?=:(?: |\Z)|\): |\s{0,8}\Z)")
_SOURCE_CODE = re.compile(r"\b(?:raise|except|import|class|from|return|catch) \(?[\w., ]{0,64}\Z")
_MAX_NAMES = 16
_MAX_BEFORE = 80
_INNERMOST = 6
HEDGES = re.compile(
    r"[Pp]otential root causes|[Pp]ossible (?:reasons|causes)|[Tt]his can happen if|[Tt]his (?:indicates|can mean) that"
    r"|[Ee]ither (?:the|a) |[Pp]revious (?:attempt|run) |[Rr]estart count \d(?:\S{0,16} last |(?!.{0,512}Error: ))"
)
"""Matches the start of a list of possible causes in a line. The rest of the line is no evidence."""


@dataclass(frozen=True, slots=True)
class LogPattern:
    """One pattern of a signal, with example lines that match (`cases`) or do not match (`not_cases`).

    - If `classes` is not empty, the line must also name an exception whose class matches one of these globs. A glob
      with a dot is compared with the full name, which includes the module.
    - If `frames` is not empty, the file or function of one of the six innermost frames of the traceback must contain
      one of these texts. Of several chained tracebacks, the first in the log is examined.
    - If `is_fallback` is True, the pattern counts only in a line that no pattern with `is_fallback` False matches.
    """

    name: str
    role: Role
    pattern: Pattern
    cases: tuple[str, ...]
    not_cases: tuple[str, ...]
    classes: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    is_fallback: bool = False

    def find(self, line: str) -> re.Match[str] | None:
        """Return the first match in a line, or None; with `classes`, the match is the name of the exception."""
        found = self.pattern.find(line)
        return self._exception(line) if found and self.classes else found

    def _exception(self, line: str) -> re.Match[str] | None:
        """Return the match of an exception of one of `classes`, not in a line of source code, or None."""
        for found in islice(_EXCEPTION.finditer(line), _MAX_NAMES):
            has_text = bool(line[found.end() :].strip())
            fits = any(fnmatchcase(found[0] if "." in one else found[1], one) for one in self.classes)
            before = line[max(0, found.start() - _MAX_BEFORE) : found.start()]
            if fits and (has_text or "." in found[0]) and not _SOURCE_CODE.search(before):
                return found
        return None


def matches_of(
    patterns: Iterable[LogPattern], line: str, frames: Callable[[], Sequence[str]] = list
) -> list[tuple[LogPattern, re.Match[str]]]:
    """Return the patterns that match a line before its `HEDGES`, or else the first fallback pattern."""
    patterns, hedge = tuple(patterns), HEDGES.search(line)
    line = line[: hedge.start()] if hedge else line
    found = [
        (one, match)
        for one in patterns
        if not one.is_fallback and (match := one.find(line)) and (not one.frames or _is_in(one.frames, frames()))
    ]
    fallbacks = ((one, match) for one in patterns if one.is_fallback and (match := one.find(line)))
    return found or list(islice(fallbacks, 1))


def _is_in(parts: Sequence[str], frames: Sequence[str]) -> bool:
    files = [one for one in frames if 'File "' in one][-_INNERMOST:]
    return any(part in one for one in files for part in parts)


def read_patterns(rows: Iterable[Mapping[str, Any]]) -> tuple[LogPattern, ...]:
    """Return the patterns of `signals` rows; raises `Misconfigured` for an invalid or unbounded one."""
    return tuple(_read(row) for row in rows)


def _read(row: Mapping[str, Any]) -> LogPattern:
    (pattern,) = patterns_of([{"pattern": re.escape(row["contains"]), **row}])
    return LogPattern(
        row["name"],
        Role(row["role"]),
        pattern,
        tuple(row["cases"]),
        tuple(row.get("not_cases", ())),
        tuple(row.get("classes", ())),
        tuple(row.get("frames", ())),
        row.get("fallback", False),
    )


def group_by_text(patterns: Iterable[LogPattern]) -> dict[bytes, tuple[LogPattern, ...]]:
    """Return the patterns by fixed text; a pattern is tried only on lines that contain its fixed text."""
    groups: dict[bytes, list[LogPattern]] = defaultdict(list)
    for one in patterns:
        groups[one.pattern.contains.encode()].append(one)
    return {text: tuple(found) for text, found in groups.items()}
