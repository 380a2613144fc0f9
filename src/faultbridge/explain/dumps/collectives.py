"""Finds the ranks that other ranks wait for, from the dumps of a job that hangs or timed out."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from faultbridge.explain.dumps.dump import Dump, Operation
from faultbridge.explain.dumps.job_dumps import Job, job_of
from faultbridge.explain.dumps.mismatch import mismatched
from faultbridge.explain.dumps.terminal import terminal_components
from faultbridge.explain.dumps.waiting import Call, Waiting, unfinished, waiting


class State(StrEnum):
    """The reason why other ranks wait for a rank.

    - `NO_DUMP`: the rank has no dump.
    - `BEHIND`: the rank has not enqueued the operation in which the other ranks wait.
    - `UNFINISHED`: the rank has not finished an operation that another rank has finished.
    - `MISMATCHED`: the collective call of the rank differs from the calls of other members of its process group.
    - `ORDER`: the rank and other ranks wait for each other in a circle.
    """

    NO_DUMP = "no_dump"
    BEHIND = "behind"
    UNFINISHED = "unfinished"
    MISMATCHED = "mismatched"
    ORDER = "order"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A rank that other ranks wait for, and the operation that proves this.

    `group`, `description`, `sequence` and `operation` identify the operation: its process group, its number in this
    group, and its name. `waiting` lists other ranks that wait in this operation. If there are none, `waiting` lists the
    ranks that wait for `rank` in other operations. `file` is the dump file of `rank`, or None if `rank` has no dump.
    """

    rank: int
    state: State
    group: str
    description: str
    sequence: int
    operation: str
    waiting: tuple[int, ...]
    file: str | None


@dataclass(frozen=True, slots=True)
class Explained:
    """The ranks that a hanging job waits for, as its dumps show them.

    - `findings` has one finding for each of these ranks.
    - `joined` are pending operations that all ranks of the operation have started, as far as the dumps show. No finding
      is about such an operation.
    - `missing` are the ranks without a dump. `findings` contains such ranks only if `are_missing_blamed` is True.
    - `are_missing_blamed` is True if at most half of all ranks have no dump.
    - `waiting` are the ranks with a pending operation. A rank is left out if another rank has finished one of its
      pending collectives.
    """

    findings: tuple[Finding, ...]
    joined: tuple[Call, ...]
    missing: tuple[int, ...]
    waiting: tuple[int, ...]
    are_missing_blamed: bool

    @property
    def ranks(self) -> tuple[int, ...]:
        """Return the ranks in `findings`, in ascending order."""
        return tuple(sorted({one.rank for one in self.findings}))


def explain(dumps: Iterable[Dump]) -> Explained:
    """Find the ranks that other ranks of a job wait for, from the dumps of the job.

    Raises `Rejected` for two dumps of one rank.
    """
    job = job_of(dumps)
    differing: dict[int, Operation] = {}
    hanging = unfinished(job)
    for group in job.groups.values():
        differing |= mismatched(job, group)
    edges = waiting(job, hanging)
    states = {
        **dict.fromkeys(hanging, State.UNFINISHED),
        **_ends(job, edges, hanging),
        **dict.fromkeys(differing, State.MISMATCHED),
    }
    blames_missing = 2 * len(job.missing) <= len(job.missing) + len(job.dumps)
    proofs = {**hanging, **differing}
    found = [
        _finding(job, edges, rank, state, proofs.get(rank))
        for rank, state in states.items()
        if blames_missing or state is not State.NO_DUMP
    ]
    blamed = {_collective(one) for one in proofs.values()}
    joined = {one for one in edges.absent if one not in blamed and _is_joined(edges, one)}
    return Explained(
        tuple(sorted(found)), tuple(sorted(joined)), tuple(sorted(job.missing)), tuple(sorted(edges.calls)),
        blames_missing,
    )  # fmt: skip


def _is_joined(edges: Waiting, call: Call) -> bool:
    return not edges.absent[call] and not edges.queued[call]


def _collective(proof: Operation) -> Call:
    return Call(proof.group, proof.sequence)


def _ends(job: Job, edges: Waiting, hanging: Mapping[int, Operation]) -> dict[int, State]:
    """Return the end ranks of the wait-for graph, each with the reason why other ranks wait for it.

    - A rank that waits for no other rank is an end. A rank in `hanging` is not returned, because the caller already has
      its reason (`UNFINISHED`).
    - Ranks that wait for each other in a circle, and for no rank outside the circle, are an end. `_circle` selects the
      ranks to blame.
    """
    graph: dict[Hashable, list[Hashable]] = {rank: [call] for rank, call in edges.calls.items()}
    for call in edges.absent:
        graph[call] = [*edges.absent[call], *edges.queued[call]]
    waited_for = {rank for call in edges.absent for rank in (*edges.absent[call], *edges.queued[call])}
    ends: dict[int, State] = {}
    for component in terminal_components({**{rank: [] for rank in waited_for}, **graph}):
        ranks = {one for one in component if isinstance(one, int)}
        if len(component) > 1:
            ends |= dict.fromkeys(_circle(edges, ranks), State.ORDER)
        elif ranks and not ranks & hanging.keys():
            ends |= {rank: State.NO_DUMP if rank in job.missing else State.BEHIND for rank in ranks}
    return ends


def _circle(edges: Waiting, ranks: set[int]) -> set[int]:
    """Return the ranks to blame for a circle, in which all of `ranks` wait for each other.

    Each rank waits in its first pending call. A rank is absent from a call if it has not enqueued this call.

    - If no rank is absent from any of these calls, the result is all ranks.
    - Otherwise, the result is the absent ranks whose own call has no absent rank, if there are such ranks.
    - Otherwise, the ranks made their calls in different orders. The result is the ranks in the call with the fewest
      waiting ranks, or all ranks if several calls have the fewest.
    """
    absent = {rank for one in ranks for rank in edges.absent[edges.calls[one]] & ranks}
    first = {rank for rank in absent if not edges.absent[edges.calls[rank]]}
    if first or not absent:
        return first or ranks
    waiting_at: dict[Call, set[int]] = {}
    for rank in ranks:
        waiting_at.setdefault(edges.calls[rank], set()).add(rank)
    fewest, *others = sorted(waiting_at.values(), key=len)
    return fewest if not others or len(fewest) < len(others[0]) else ranks


def _finding(job: Job, edges: Waiting, rank: int, state: State, proof: Operation | None) -> Finding:
    waiters: dict[Call, list[int]] = {}
    for one, call in edges.calls.items():
        if rank in edges.absent[call] or rank in edges.queued[call]:
            waiters.setdefault(call, []).append(one)
    if proof is None:
        call = max(waiters, key=lambda one: (len(waiters[one]), one))
        proof = edges.operations[call]
        held = waiters[call]
    else:
        held = [one for one, call in edges.calls.items() if call == _collective(proof)]
        held = held or sorted({one for each in waiters.values() for one in each})
    group = job.groups.get(proof.group)
    file = job.dumps[rank].file if rank in job.dumps else None
    return Finding(
        rank, state, proof.group, group.description if group else "", proof.sequence, proof.name,
        tuple(sorted(set(held) - {rank})), file,
    )  # fmt: skip
