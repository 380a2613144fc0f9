"""Finds errors in a job's log that ended no process: handled errors, and errors in a thread."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from itertools import islice
from typing import Any

from faultbridge.data.mechanisms import handled_rows
from faultbridge.decoders.training.training_log import Pattern, patterns_of
from faultbridge.explain.signals.line_facts import rank_of

_TRACEBACK = "Traceback (most recent call last)"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_TAG = re.compile(r"(?:\[[^\]]{0,64}\]:? ?|\([^)]{0,64}\) ?){1,4}")
_NCCL_STATE = "NCCL INFO"
_LINE_END = re.compile(r"[\r\n]")
_MAX_CHAIN = 8
_INTRODUCTION_LINES = 2
_LINES_AFTER = 2


@dataclass(frozen=True, slots=True)
class Row:
    """A text pattern; a match near an error shows that the process handled the error and continued.

    `places` states where the text may be:

    - `introduction`: in the first line of the traceback, or in the two lines above it
    - `frame`: in a frame of the traceback
    - `start`: in the line of the error, before the error
    - `line`: in the line of the error
    - `after`: in one of the next two lines
    """

    name: str
    places: frozenset[str]
    pattern: Pattern
    signals: tuple[str, ...]
    cases: tuple[str, ...]
    not_cases: tuple[str, ...]


@dataclass(slots=True)
class _Block:
    """The traceback above an error, and the tracebacks above it that are chained to it.

    `first` has the lines of the uppermost of these tracebacks, and `introduction` has its header and the lines above
    the header. `frames` has the lines of all these tracebacks.
    """

    introduction: list[str] = field(default_factory=list)
    frames: list[str] = field(default_factory=list)
    first: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """An error in its log: its line, its position in the line, and the text before and after the line."""

    line: str
    position: int
    before: bytes
    after: bytes


@cache
def handled() -> tuple[Row, ...]:
    """Return the packaged patterns which show that a process handled an error and continued."""
    return tuple(_row(one) for one in handled_rows())


def how_handled(name: str, error: Surroundings) -> str:
    """Return how a process handled an error: the name of the packaged pattern that shows it.

    The result is empty if no pattern shows this. `name` is the name of the error's signal. The text around the line is
    searched only if the line itself matches no pattern. This saves time if a log repeats an error very often.
    """
    rows = [row for row in handled() if any(fnmatchcase(name, glob) for glob in row.signals)]
    own = {"start": [error.line[: error.position]], "line": [error.line]}
    return _first(rows, own) or _first(rows, _around(error))


def frames_of(error: Surroundings) -> list[str]:
    """Return the lines of an error's traceback; of chained tracebacks, those of the uppermost one.

    The result is empty if the error has no traceback.
    """
    return _block_above(error).first


def is_chained(error: Surroundings) -> bool:
    """Return whether the process raised an error while it handled an earlier error."""
    if not any(one.encode() in error.before for one in _CHAINED):
        return False
    lines = list(_of_rank(_LINE_END.split(_text(error.before)), rank_of(error.line)))
    above = (one for one in reversed(lines) if not _is_of_traceback(_TAG.sub("", one, count=1)))
    return any(one in next(above, "") for one in _CHAINED)


def _is_of_traceback(line: str) -> bool:
    return not line.strip() or line[0] in " \t" or _TRACEBACK in line


def _first(rows: Iterable[Row], texts: Mapping[str, Sequence[str]]) -> str:
    for row in rows:
        if any(row.pattern.find(text) for place in row.places for text in texts.get(place, ())):
            return row.name
    return ""


def _around(error: Surroundings) -> Mapping[str, Sequence[str]]:
    block = _block_above(error)
    following = (one for one in _of_rank(_LINE_END.split(_text(error.after)), rank_of(error.line)) if one.strip())
    return {
        "introduction": block.introduction,
        "frame": block.frames,
        "after": list(islice(following, _LINES_AFTER)),
    }


def _block_above(error: Surroundings) -> _Block:
    before = _LINE_END.split(_text(error.before)) if _TRACEBACK.encode() in error.before else []
    return _block(list(_of_rank(before, rank_of(error.line))))


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")


def _of_rank(lines: Sequence[str], rank: int | None) -> Iterator[str]:
    return (one for one in lines if rank_of(one) == rank and _NCCL_STATE not in one)


def _block(lines: list[str]) -> _Block:
    """Return the traceback to which the last of these lines belongs, and the tracebacks chained to it.

    The result is empty if the last line belongs to no traceback.
    """
    found, end = _Block(), len(lines)
    for number in range(_MAX_CHAIN):
        start = next((at for at in range(end - 1, -1, -1) if _TRACEBACK in lines[at]), None)
        if start is None or (number == 0 and not _is_open(lines[start], lines[start + 1 : end])):
            return found
        above = [one for one in lines[:start] if one.strip()][-_INTRODUCTION_LINES:]
        found.introduction = [*above, lines[start]]
        found.first = lines[start + 1 : end]
        found.frames.extend(found.first)
        if not above or not any(one in above[-1] for one in _CHAINED):
            return found
        end = start
    return found


def _is_open(header: str, lines: Sequence[str]) -> bool:
    """Return whether a traceback has not ended yet: all lines below its header are indented."""
    column = header.index(_TRACEBACK)
    return all(one[column : column + 1] in {"", " ", "\t"} for one in lines)


def _row(row: Mapping[str, Any]) -> Row:
    (pattern,) = patterns_of([{"pattern": re.escape(row["contains"]), **row}])
    return Row(
        row["name"],
        frozenset(row["at"]),
        pattern,
        tuple(row.get("signals", ("*",))),
        tuple(row["cases"]),
        tuple(row.get("not_cases", ())),
    )
