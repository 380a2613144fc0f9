"""Finds the ranks that other ranks wait for, from the dumps of a job that hangs or timed out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from faultbridge.explain.dumps.dump import Dump, Group, Operation, Progress
from faultbridge.model.errors import Rejected

_NOTHING = Progress(0, 0)


@dataclass(frozen=True, slots=True)
class Job:
    """The dumps of a job by rank, its groups, its pending operations and its progress by rank and group."""

    dumps: Mapping[int, Dump]
    groups: Mapping[str, Group]
    missing: frozenset[int]
    pending: Mapping[int, Sequence[Operation]]
    collectives: Mapping[tuple[int, str], Sequence[Operation]]
    progress: Mapping[tuple[int, str], Progress]


def job_of(dumps: Iterable[Dump]) -> Job:
    """Index the dumps of a job; two dumps of one rank may be of two runs and raise `Rejected`."""
    by_rank: dict[int, Dump] = {}
    groups: dict[str, Group] = {}
    for one in dumps:
        if one.rank in by_rank:
            raise Rejected("duplicate_rank", f"two dumps of rank {one.rank}: {by_rank[one.rank].file} and {one.file}")
        by_rank[one.rank] = one
        groups |= one.groups
    pending = {rank: [each for each in one.operations if each.is_pending] for rank, one in by_rank.items()}
    collectives: dict[tuple[int, str], list[Operation]] = defaultdict(list)
    for rank, operations in pending.items():
        for each in operations:
            if not each.is_p2p:
                collectives[rank, each.group].append(each)
    members = {rank for group in groups.values() for rank in group.ranks}
    return Job(by_rank, groups, frozenset(members - by_rank.keys()), pending, collectives, _progress(by_rank))


def _progress(dumps: Mapping[int, Dump]) -> dict[tuple[int, str], Progress]:
    """Return the progress of each rank by group; stated numbers that also count sends are ignored."""
    with_sends = {each.group for one in dumps.values() for each in one.operations if each.is_p2p}
    found: dict[tuple[int, str], Progress] = {}
    for rank, one in dumps.items():
        for group, stated in one.progress.items():
            if group not in with_sends:
                found[rank, group] = stated
        for each in one.operations:
            if not each.is_p2p:
                last = found.get((rank, each.group), _NOTHING)
                completed = last.completed if each.is_pending else max(last.completed, each.sequence)
                found[rank, each.group] = Progress(max(last.enqueued, each.sequence), completed)
    return found


Signature = tuple[str, ...]
_EQUAL_SHAPES = ("all_reduce", "allreduce", "_all_gather_base", "_reduce_scatter_base", "broadcast")


def mismatched(job: Job, group: Group) -> dict[int, Operation]:
    """Return the ranks whose pending collective differs from the one that `group` expects, with this collective.

    Only the first sequence number at which the pending collectives differ is examined. Expected is the collective that
    most ranks have pending; of several, the one that is the most frequent in other calls of groups with the description
    of `group`. If that selects none, each rank with a pending collective at this number is returned.
    """
    calls: dict[int, dict[int, Operation]] = defaultdict(dict)
    for rank in group.ranks:
        for one in job.collectives.get((rank, group.name), ()):
            calls[one.sequence][rank] = one
    for sequence in sorted(calls):
        signatures = {rank: _signature(one) for rank, one in calls[sequence].items()}
        if len(set(signatures.values())) > 1:
            votes = Counter(signatures.values())
            tied = {one for one, count in votes.items() if count == max(votes.values())}
            expected = _majority(votes) or _majority(_usual(job, group, sequence, tied))
            return {rank: calls[sequence][rank] for rank, one in signatures.items() if one != expected}
    return {}


def _signature(one: Operation) -> Signature:
    """Return the parts of a call that must be equal on all group members."""
    has_equal_shapes = any(name in one.name for name in _EQUAL_SHAPES)
    return (one.name, *one.shape) if has_equal_shapes else (one.name,)


def _majority(votes: Counter[Signature]) -> Signature | None:
    first, second = (*votes.most_common(2), (None, 0), (None, 0))[:2]
    return first[0] if first[1] > second[1] else None


def _usual(job: Job, group: Group, sequence: int, signatures: set[Signature]) -> Counter[Signature]:
    """Count the signatures in groups with the description of `group`, without the calls to judge."""
    alike = {name for name, one in job.groups.items() if one.description == group.description}
    others = (
        one
        for dump in job.dumps.values()
        for one in dump.operations
        if one.group in alike and (one.group, one.sequence) != (group.name, sequence) and not one.is_p2p
    )
    return Counter(signature for one in others if (signature := _signature(one)) in signatures)


# In a collective, a rank waits for the members that have not started it; in a send or receive, for its peer, if known.
# A rank without a dump, or that has not enqueued the operation, is `absent`; one behind another operation is `queued`.

_FULL_SYNC = (
    "all_reduce", "allreduce", "all_gather", "allgather", "reduce_scatter", "all_to_all", "alltoall", "barrier",
)  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Call:
    """One collective, or one send or receive with the waiting rank and, if it is known, the peer (`pair`)."""

    group: str
    sequence: int
    pair: tuple[int, ...] = ()


@dataclass(slots=True)
class Waiting:
    """The first pending call of each waiting rank; `absent` have not enqueued it, `queued` not started it."""

    calls: dict[int, Call] = field(default_factory=dict)
    operations: dict[Call, Operation] = field(default_factory=dict)
    absent: dict[Call, frozenset[int]] = field(default_factory=dict)
    queued: dict[Call, frozenset[int]] = field(default_factory=dict)


def unfinished(job: Job) -> dict[int, Operation]:
    """Return each rank's first pending collective that another rank, which had to wait for all, finished."""
    furthest: dict[str, int] = defaultdict(int)
    for (_, group), progress in job.progress.items():
        furthest[group] = max(furthest[group], progress.completed)
    found: dict[int, Operation] = {}
    for rank, pending in job.pending.items():
        for one in pending:
            if not one.is_p2p and one.sequence <= furthest[one.group] and any(name in one.name for name in _FULL_SYNC):
                found.setdefault(rank, one)
    return found


def waiting(job: Job, sinks: Mapping[int, Operation]) -> Waiting:
    """Return the first pending call of each waiting rank; a rank in `sinks` waits for no other rank."""
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
    absent = {rank for rank in dumped if job.progress.get((rank, call.group), _NOTHING).enqueued < call.sequence}
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
    return ("send" in other.name) != ("send" in one.name)


Graph = Mapping[Hashable, Sequence[Hashable]]


def terminal_components(graph: Graph) -> list[frozenset[Hashable]]:
    """Return the strongly connected components without an edge to another component."""
    components = _components(graph)
    return [one for one in components if all(target in one for node in one for target in graph[node])]


def _components(graph: Graph) -> Iterator[frozenset[Hashable]]:
    """Yield the strongly connected components, by Kosaraju's algorithm without recursion."""
    reverse: dict[Hashable, list[Hashable]] = defaultdict(list)
    for node, targets in graph.items():
        for target in targets:
            reverse[target].append(node)
    finished: list[Hashable] = []
    seen: set[Hashable] = set()
    for root in graph:
        finished.extend(_finished(graph, root, seen))
    seen = set()
    for root in reversed(finished):
        if component := frozenset(_finished(reverse, root, seen)):
            yield component


def _finished(graph: Graph, root: Hashable, seen: set[Hashable]) -> Iterator[Hashable]:
    """Yield the nodes reachable from `root` that are not in `seen`, in postorder, and add them to `seen`."""
    if root in seen:
        return
    seen.add(root)
    path = [(root, iter(graph.get(root, ())))]
    while path:
        node, targets = path[-1]
        following = next((one for one in targets if one not in seen), None)
        if following is None:
            path.pop()
            yield node
        else:
            seen.add(following)
            path.append((following, iter(graph.get(following, ()))))


class State(StrEnum):
    """The reason why other ranks wait for a rank.

    It has no dump, has not enqueued the operation in which they wait (`BEHIND`), has not finished one that another rank
    has, called another collective than its group (`MISMATCHED`), or waits with others in a circle (`ORDER`).
    """

    NO_DUMP = "no_dump"
    BEHIND = "behind"
    UNFINISHED = "unfinished"
    MISMATCHED = "mismatched"
    ORDER = "order"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A rank that other ranks (`waiting`) wait for, the operation that proves it, and its dump, if any."""

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
    """The ranks that a hanging job waits for; ranks without a dump are blamed if at most half have none.

    The wait began at `since`, and PyTorch ended it at `until`; both are None in dumps without times.
    """

    findings: tuple[Finding, ...]
    joined: tuple[Call, ...]
    missing: tuple[int, ...]
    waiting: tuple[int, ...]
    are_missing_blamed: bool
    since: datetime | None = None
    until: datetime | None = None

    @property
    def ranks(self) -> tuple[int, ...]:
        """Return the ranks in `findings`, in ascending order."""
        return tuple(sorted({one.rank for one in self.findings}))


def explain(dumps: Iterable[Dump]) -> Explained:
    """Find the ranks that other ranks of a job wait for, from the dumps of the job."""
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
    blamed = {Call(one.group, one.sequence) for one in proofs.values()}
    joined = {one for one in edges.absent if one not in blamed and not edges.absent[one] and not edges.queued[one]}
    heads = [job.pending[rank][0] for rank in edges.calls] or list(hanging.values())
    since = min((one.since for one in heads if one.since), default=None)
    until = min((one.until for one in heads if one.until), default=None)
    return Explained(
        tuple(sorted(found)), tuple(sorted(joined)), tuple(sorted(job.missing)), tuple(sorted(edges.calls)),
        blames_missing, since, until,
    )  # fmt: skip


def _ends(job: Job, edges: Waiting, hanging: Mapping[int, Operation]) -> dict[int, State]:
    """Return the end ranks of the wait-for graph, each with the reason why other ranks wait for it.

    An end waits for no other rank, and has no reason yet (`hanging`), or is one of a circle of ranks that wait for each
    other and for no rank outside (`_circle`).
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
    """Return the ranks to blame for a circle, in which all of `ranks` wait for each other in their first pending calls.

    These are the ranks that have not enqueued one of these calls while no rank is absent from their own. Without them,
    the ranks made their calls in different orders: those in the call with the fewest waiting ranks, if it is one call.
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
        held = [one for one, call in edges.calls.items() if call == Call(proof.group, proof.sequence)]
        held = held or sorted({one for each in waiters.values() for one in each})
    group = job.groups.get(proof.group)
    file = job.dumps[rank].file if rank in job.dumps else None
    return Finding(
        rank, state, proof.group, group.description if group else "", proof.sequence, proof.name,
        tuple(sorted(set(held) - {rank})), file,
    )  # fmt: skip
