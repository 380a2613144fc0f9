"""The symptom of a failure: the first error that the job shows, and the ranks that it singles out."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from faultbridge.explain.signals.signal import LogSpan, Role, Signal, Trust
from faultbridge.explain.verdict.situation import HANG, TimeLine

_STATUS = "nccl.status"
_GROUP = re.compile(r"PG (?:ID|GUID) (\S{1,32})")
_ENQUEUED = re.compile(r"last enqueued(?: NCCL)?(?: work)?: (\d{1,12})")
_OF_DEVICE = "cuda.*"
_MAX_SHOWN = 16


@dataclass(frozen=True, slots=True)
class NamedRank:
    """A rank that the job's own logs single out, with the reason and the line that shows it, if there is one."""

    rank: int
    reason: str
    signal: Signal | None = None


def symptom_of(line: TimeLine, spans: Iterable[LogSpan] = ()) -> Signal | None:
    """Return the first failure of the job, or what comes nearest to it.

    That is the first line that looks like an error, the first fault of a node, or the last line of the job; None
    without any line.
    """
    faults = (one for one in line.signals if one.trust is Trust.NODE and one.role is not Role.CONTEXT)
    return (
        line.symptom
        or (line.attempts[-1].error if line.attempts else None)
        or next(faults, None)
        or next((one.last for one in spans if one.last), None)
    )


def named_ranks(line: TimeLine, nodes: Mapping[int, str]) -> tuple[NamedRank, ...]:
    """Return the ranks that differ from the others, at most 16.

    - `behind`: the rank enqueued fewer operations than another rank of its group.
    - `no_timeout`: most ranks report a timeout of a collective, and this one does not.
    - `failed`: the first failure is an error of this rank's GPU.
    """
    own = [one for one in line.signals if one.trust is Trust.JOB and one.rank is not None]
    found: dict[int, NamedRank] = {}
    first = symptom_of(line)
    if first is not None and first.rank is not None and first.matches(_OF_DEVICE):
        found[first.rank] = NamedRank(first.rank, "failed", first)
    for one in (*_behind(own), *_without_timeout(own, nodes)):
        found.setdefault(one.rank, one)
    return tuple(found.values()) if len(found) <= _MAX_SHOWN else ()


def _behind(signals: Sequence[Signal]) -> Iterator[NamedRank]:
    enqueued: dict[str, dict[int, tuple[int, Signal]]] = defaultdict(dict)
    for one in signals:
        if (found := _ENQUEUED.search(one.text)) and one.rank is not None:
            group = _GROUP.search(one.text)
            enqueued[group[1] if group else ""][one.rank] = int(found[1]), one
    for each in enqueued.values():
        most = max(number for number, _ in each.values())
        late = [(rank, number, one) for rank, (number, one) in each.items() if number < most]
        if 2 * len(late) < len(each):
            for rank, number, one in late:
                yield NamedRank(rank, f"behind: enqueued {number} operations, others {most}", one)


def _without_timeout(signals: Sequence[Signal], nodes: Mapping[int, str]) -> Iterator[NamedRank]:
    timed_out = {one.rank for one in signals if one.name == HANG}
    ranks = {one.rank for one in signals if one.rank is not None} | {one for one in nodes if one >= 0}
    missing = ranks - timed_out
    if 2 * len(missing) < len(ranks):
        shown = {one.rank: one for one in reversed(signals) if one.role is not Role.TEARDOWN}
        yield from (NamedRank(rank, "no_timeout: most ranks report one", shown.get(rank)) for rank in sorted(missing))
