"""Finds which rank waits for which, from the first pending operation of each rank.

In a collective, a rank waits for the group members that have not started it. In a send or receive, a rank waits for its
peer, if the peer is known. A rank that has not enqueued the operation, or that has no dump, is `absent`. A rank that
has enqueued the operation behind another pending operation is `queued`. In an operation that all its ranks have
started, no rank waits for another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from faultbridge.explain.dumps.dump import Operation
from faultbridge.explain.dumps.job_dumps import Job

_FULL_SYNC = (
    "all_reduce",
    "allreduce",
    "all_gather",
    "allgather",
    "reduce_scatter",
    "all_to_all",
    "alltoall",
    "barrier",
)


@dataclass(frozen=True, slots=True, order=True)
class Call:
    """One collective of a group, or one send or receive of a rank.

    `pair` is empty for a collective. For a send or receive, `pair` has the waiting rank and, if it is known, the peer.
    """

    group: str
    sequence: int
    pair: tuple[int, ...] = ()


@dataclass(slots=True)
class Waiting:
    """The first pending call of each waiting rank, and the ranks that have not started this call.

    `absent` has the ranks that have not enqueued the call or have no dump. `queued` has the ranks that have enqueued
    the call behind another pending operation.
    """

    calls: dict[int, Call] = field(default_factory=dict)
    operations: dict[Call, Operation] = field(default_factory=dict)
    absent: dict[Call, frozenset[int]] = field(default_factory=dict)
    queued: dict[Call, frozenset[int]] = field(default_factory=dict)


def unfinished(job: Job) -> dict[int, Operation]:
    """Return, for each rank, its first pending collective that another rank has already finished.

    A rank without such a collective is not included.

    Only collectives such as `all_reduce` are considered, which no rank can finish before all ranks have joined. The
    root of a broadcast can finish before the other ranks join.
    """
    furthest: dict[str, int] = defaultdict(int)
    for (_, group), progress in job.progress.items():
        furthest[group] = max(furthest[group], progress.completed)
    late = {rank: next((one for one in each if _is_late(one, furthest)), None) for rank, each in job.pending.items()}
    return {rank: one for rank, one in late.items() if one is not None}


def _is_late(one: Operation, furthest: Mapping[str, int]) -> bool:
    return not one.is_p2p and one.sequence <= furthest[one.group] and any(name in one.name for name in _FULL_SYNC)


def waiting(job: Job, sinks: Mapping[int, Operation]) -> Waiting:
    """Return the first pending call of each waiting rank, and the ranks that have not started this call.

    A rank in `sinks` gets no call: it has not finished an operation that another rank has finished, so it waits for no
    other rank.
    """
    result = Waiting()
    heads = {rank: pending[0] for rank in job.dumps if rank not in sinks and (pending := job.pending[rank])}
    for rank, head in heads.items():
        call = Call(head.group, head.sequence, (rank, head.peer) if head.peer is not None else (rank,) * head.is_p2p)
        result.calls[rank] = call
        if call in result.operations:
            continue
        result.operations[call] = head
        absent, queued = _peer(job, rank, heads) if head.is_p2p else _members(job, call, heads)
        result.absent[call], result.queued[call] = absent, queued
    return result


def _members(job: Job, call: Call, heads: Mapping[int, Operation]) -> tuple[frozenset[int], frozenset[int]]:
    group = job.groups.get(call.group)
    members = group.ranks if group else ()
    dumped = [rank for rank in members if rank in job.dumps]
    absent = {rank for rank in dumped if job.progress_of(rank, call.group).enqueued < call.sequence}
    queued = {rank for rank in dumped if rank not in absent and _is_queued(job, rank, call, heads.get(rank))}
    return frozenset(absent | (set(members) & job.missing)), frozenset(queued)


def _is_queued(job: Job, rank: int, call: Call, head: Operation | None) -> bool:
    if head is not None and (head.group, head.sequence, head.is_p2p) == (call.group, call.sequence, False):
        return False
    return any(one.sequence == call.sequence for one in job.collectives.get((rank, call.group), ()))


def _peer(job: Job, rank: int, heads: Mapping[int, Operation]) -> tuple[frozenset[int], frozenset[int]]:
    head = heads[rank]
    if head.peer is None or head.peer == rank:
        return frozenset(), frozenset()
    if _is_counterpart(heads.get(head.peer), head, rank):
        return frozenset(), frozenset()
    peer = frozenset({head.peer})
    has_one = any(_is_counterpart(one, head, rank) for one in job.pending.get(head.peer, ()))
    return (frozenset(), peer) if has_one else (peer, frozenset())


def _is_counterpart(other: Operation | None, one: Operation, rank: int) -> bool:
    if other is None or not other.is_p2p or other.group != one.group or other.peer != rank:
        return False
    return other.is_send != one.is_send
