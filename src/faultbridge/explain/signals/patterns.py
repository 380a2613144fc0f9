"""The log patterns: which text of a line is which signal, and the few fragments that find these lines quickly."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from faultbridge.decoders.training.training_log import Pattern, patterns_of
from faultbridge.explain.signals.signal import Role

FRAGMENTS = (
    b"rror", b"NCCL WARN", b"imeout", b"imed out", b"xitcode: -", b"illed", b"xception", b"(SIG", b": nan", b"=nan",
    b"NaN", b"Xid (", b"DUE TO",
)  # fmt: skip
"""Parts of most fixed texts. Every fixed text is searched for in a piece of a log with one of them, and at its end."""


@dataclass(frozen=True, slots=True)
class LogPattern:
    """One pattern of a signal, with the lines that must and must not match it."""

    name: str
    role: Role
    pattern: Pattern
    cases: tuple[str, ...]
    not_cases: tuple[str, ...]

    def find(self, line: str) -> re.Match[str] | None:
        """Return the first match in a line."""
        return self.pattern.find(line)


def read_patterns(rows: Iterable[Mapping[str, Any]]) -> tuple[LogPattern, ...]:
    """Return compiled patterns. One whose matching time has no bound is `Misconfigured`."""
    return tuple(_read(row) for row in rows)


def _read(row: Mapping[str, Any]) -> LogPattern:
    (pattern,) = patterns_of([{"pattern": re.escape(row["contains"]), **row}])
    return LogPattern(row["name"], Role(row["role"]), pattern, tuple(row["cases"]), tuple(row.get("not_cases", ())))


def group_by_text(patterns: Iterable[LogPattern]) -> dict[bytes, tuple[LogPattern, ...]]:
    """Return the patterns by their fixed text."""
    groups: dict[bytes, list[LogPattern]] = defaultdict(list)
    for one in patterns:
        groups[one.pattern.contains.encode()].append(one)
    return {text: tuple(found) for text, found in groups.items()}
