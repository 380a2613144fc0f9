"""Indexes the dumps of one job by rank and by process group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from faultbridge.errors import Rejected
from faultbridge.explain.dumps.dump import Dump, Group, Operation, Progress

_NOTHING = Progress(0, 0)


@dataclass(frozen=True, slots=True)
class Job:
    """The dumps of a job by rank, its process groups by name, and the ranks without a dump.

    `pending` has the pending operations of each rank in program order. `collectives` has the pending collectives of
    each rank and group. `progress` has the sequence numbers of the last enqueued and the last completed collective of a
    rank in a group, if the dump of the rank shows them.
    """

    dumps: Mapping[int, Dump]
    groups: Mapping[str, Group]
    missing: frozenset[int]
    pending: Mapping[int, Sequence[Operation]]
    collectives: Mapping[tuple[int, str], Sequence[Operation]]
    progress: Mapping[tuple[int, str], Progress]

    def progress_of(self, rank: int, group: str) -> Progress:
        """Return the sequence numbers of a rank's last enqueued and last completed collective in a group.

        Both numbers are 0 if `progress` has none for this rank and group.
        """
        return self.progress.get((rank, group), _NOTHING)


def job_of(dumps: Iterable[Dump]) -> Job:
    """Index the dumps of a job.

    Raises `Rejected` for two dumps of one rank, because they may come from two runs of the job.
    """
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
    """Return the numbers of the last enqueued and last completed collective of each rank in each group.

    The numbers that a dump states also count sends and receives. They are therefore ignored for a group in which a rank
    sent or received.
    """
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
