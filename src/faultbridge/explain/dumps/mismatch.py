"""Finds ranks whose collective call differs from the call of the other ranks of their process group.

Calls are compared if they have the same sequence number in the group.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from faultbridge.explain.dumps.dump import Group, Operation
from faultbridge.explain.dumps.job_dumps import Job

Signature = tuple[str, ...]
_EQUAL_SHAPES = ("all_reduce", "allreduce", "_all_gather_base", "_reduce_scatter_base", "broadcast")


def mismatched(job: Job, group: Group) -> dict[int, Operation]:
    """Return the ranks whose pending collective differs from the collective that `group` expects.

    The result maps each of these ranks to its collective. Only the first sequence number at which the pending
    collectives differ is examined. The result is empty if there is no such number. The expected collective is chosen as
    follows:

    - It is the collective that most ranks have pending at this number.
    - If several collectives share the highest number of ranks, it is the one of them that occurs most often in other
      calls of the groups with the description of `group`.
    - If that does not select one collective, no collective is expected. Every rank with a pending collective at this
      sequence number is returned.
    """
    calls = _calls(job, group)
    for sequence in sorted(calls):
        signatures = {rank: _signature(one) for rank, one in calls[sequence].items()}
        if len(set(signatures.values())) > 1:
            votes = Counter(signatures.values())
            tied = {one for one, count in votes.items() if count == max(votes.values())}
            expected = _majority(votes) or _majority(_usual(job, group, sequence, tied))
            return {rank: calls[sequence][rank] for rank, one in signatures.items() if one != expected}
    return {}


def _calls(job: Job, group: Group) -> dict[int, dict[int, Operation]]:
    calls: dict[int, dict[int, Operation]] = defaultdict(dict)
    for rank in group.ranks:
        for one in job.collectives.get((rank, group.name), ()):
            calls[one.sequence][rank] = one
    return calls


def _signature(one: Operation) -> Signature:
    """Return the parts of a call that must be equal on all group members."""
    has_equal_shapes = any(name in one.name for name in _EQUAL_SHAPES)
    return (one.name, *one.shape) if has_equal_shapes else (one.name,)


def _majority(votes: Counter[Signature]) -> Signature | None:
    first, second = (*votes.most_common(2), (None, 0), (None, 0))[:2]
    return first[0] if first[1] > second[1] else None


def _usual(job: Job, group: Group, sequence: int, signatures: set[Signature]) -> Counter[Signature]:
    """Count how often each signature in `signatures` occurs in groups with the description of `group`.

    The calls with the number `sequence` in `group` are not counted, because they are the calls to judge.
    """
    alike = {name for name, one in job.groups.items() if one.description == group.description}
    others = (
        one
        for dump in job.dumps.values()
        for one in dump.operations
        if one.group in alike and (one.group, one.sequence) != (group.name, sequence) and not one.is_p2p
    )
    return Counter(signature for one in others if (signature := _signature(one)) in signatures)
