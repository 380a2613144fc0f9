"""Resumable jobs: records which ended jobs may resume.

A job may resume only when each node with a fault that is recorded on the job is usable again or retired.
"""

from __future__ import annotations

from collections.abc import Iterable

from faultbridge.model.cluster.jobs import LATE_FAULTS, RESUME_WITHIN, Job
from faultbridge.model.dataclass import dataclass
from faultbridge.model.edges import NodeStatus
from faultbridge.model.faults import Severity
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.times import to_text
from faultbridge.record.append import Append
from faultbridge.repair.jobs.changes import RankMove, Resume
from faultbridge.repair.jobs.jobs import Jobs

MAX_RANK_TEXT = 256
"""A longer list of the ranks of one node is left out of the event; `faultbridge job ranks` lists them."""


@dataclass(frozen=True, slots=True)
class ResumeJobs:
    """Records which ended jobs of a cluster may resume, for up to seven days after the end of each job.

    A job may resume under these conditions:

    - It failed, or its outcome is not reported.
    - It has affected nodes, which are nodes whose faults are recorded on the job.
    - Each affected node is retired, or is in service without a case and without a fault of severity `error` or worse.
    - No verdict STOP is recorded on the job.
    """

    append: Append
    jobs: Jobs

    def __call__(self, cluster: str) -> None:
        """Check the ended jobs of one cluster, and record those that may resume.

        - A job is checked from five minutes after its end on, because its faults may be recorded late.
        - A checked job without affected nodes, or one that ended more than seven days ago, is removed from the list of
          jobs that the sweep reads.
        - A job with waiting callbacks is skipped, because it was already recorded as resumable.
        - If the update of the states of a job's nodes was interrupted, the update is completed, and the next run checks
          the job.
        """
        now, waiting = self.append.clock.now(), []
        for one in self.jobs.rows(cluster):
            if not one.is_marked:
                self.jobs.mark_nodes(cluster, one.id)
                continue
            if one.callbacks or one.ended_at is None or now < one.ended_at + LATE_FAULTS:
                continue
            if not one.affected or now >= one.ended_at + RESUME_WITHIN:
                self.jobs.stop_following(cluster, one)
            else:
                waiting.append(one)
        for job in self.jobs.read(cluster, waiting) if waiting else ():
            resume = None if job.must_stop or not job.may_resume else self._resume_of(job)
            if resume is not None:
                self.jobs.record_resumable(job, resume, self._callbacks(cluster))

    def _callbacks(self, cluster: str) -> tuple[str, ...]:
        found = self.append.table.get(keys.cluster_config(cluster))
        return items.read_config(found).job_callbacks if found else ()

    def _resume_of(self, job: Job) -> Resume | None:
        states = self.append.read_many(NodeKey(job.cluster, node) for node in job.affected)
        return resume_of(job, states)


def resume_of(job: Job, states: Iterable[NodeState]) -> Resume | None:
    """Return why a job may resume: which affected nodes returned, were replaced or were retired.

    Returns None if the job has no affected nodes, or if one of them is not usable yet.
    """
    found = {state.key.node: state for state in states}
    if not job.affected or any(_holds_back(found[node]) for node in job.affected):
        return None
    retired = {node for node in job.affected if found[node].status is NodeStatus.RETIRED}
    replaced = {node for node in job.affected.keys() - retired if _instance(found[node]) != job.affected[node]}
    returned = job.affected.keys() - retired - replaced
    latest = max(found.values(), key=lambda state: (_closed_at(state), state.key.node))
    moves = tuple(_move(job, found[node]) for node in sorted(replaced | retired))
    return Resume(tuple(sorted(returned)), tuple(sorted(replaced)), tuple(sorted(retired)), latest.status_event, moves)


def _move(job: Job, state: NodeState) -> RankMove:
    node = state.key.node
    instance = None if state.status is NodeStatus.RETIRED else _instance(state)
    ranks = job.ranks.get(node)
    return RankMove(node, ranks if ranks and len(ranks) <= MAX_RANK_TEXT else None, job.affected[node], instance)


def _holds_back(state: NodeState) -> bool:
    if state.status is NodeStatus.RETIRED:
        return False
    if state.status is None or not state.status.in_service or state.live_case is not None:
        return True
    return any(one.severity.rank >= Severity.ERROR.rank for one in state.active())


def _closed_at(state: NodeState) -> str:
    closed_at = state.case.closed_at if state.case else None
    return to_text(closed_at) if closed_at else ""


def _instance(state: NodeState) -> str | None:
    return state.incarnation.instance_id if state.incarnation else None
