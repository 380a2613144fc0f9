"""What the nodes of a job do to it: records harmful conditions on jobs, and which ended jobs may resume."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from msgspec import Struct

from faultbridge.model.cluster.jobs import LATE_FAULTS, RESUME_WITHIN, Job
from faultbridge.model.conditions import Condition
from faultbridge.model.enums import NodeStatus
from faultbridge.model.event_data import RankMove
from faultbridge.model.fault_enums import ComponentType, Severity
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.node_rows import UnhealthyNode
from faultbridge.model.times import to_text
from faultbridge.repair.jobs.changes import Impact, Resume, hit_since
from faultbridge.repair.jobs.checkpoints import JobCheckpoints
from faultbridge.repair.jobs.jobs import Jobs
from faultbridge.repair.jobs.progress import JobProgress

MISSED_WITHIN = timedelta(hours=1)
"""How long after the end of a job the sweep still checks for faults whose trigger was lost."""


class JobImpact(Struct, frozen=True):
    """Records the harmful conditions of a node on its followed jobs, which run or ended recently.

    These conditions are harmful:

    - a condition of severity `warning` or worse that a job's own log reports, such as a loss that is not a number
    - the worst of all other conditions of the node, if its severity is `error` or `fatal`
    """

    jobs: Jobs
    checkpoints: JobCheckpoints | None = None
    progress: JobProgress | None = None

    def record(self, key: NodeKey) -> tuple[str, ...]:
        """Record the harmful conditions of a node once on each followed job; return the jobs.

        If they put running work at risk, also ask its jobs for a checkpoint. If they all stop sending, it has stalled.
        """
        state = self.jobs.append.read(key)
        if self.checkpoints is not None:
            self.checkpoints.request(state)
        if self.progress is not None:
            self.progress.check_traffic(state)
        found = tuple(_harmful(state))
        affected = tuple(one.id for one in self.jobs.rows(key.cluster) if key.node in one.nodes) if found else ()
        case, instance = state.live_case, state.instance_id
        for condition in found:
            impact = Impact(key.node, condition, case.id if case else None, instance)
            self.jobs.record_impact(key.cluster, affected, impact)
        return affected

    def busy_nodes(self, cluster: str, nodes: Sequence[str]) -> tuple[NodeKey, ...]:
        """Return those of the given nodes on which a followed job runs, or ran before it ended."""
        busy = {node for one in self.jobs.rows(cluster) for node in one.nodes} if nodes else set()
        return tuple(NodeKey(cluster, node) for node in nodes if node in busy)

    def missed(self, cluster: str, unhealthy: Iterable[UnhealthyNode]) -> Iterator[NodeKey]:
        """Return the unhealthy nodes with a fault or a stop of work that is possibly not recorded on their jobs yet.

        - A node on which a job runs is returned if it has a fault of severity `warning` or worse.
        - A node whose job ended within the last hour is returned if no fault of the node is recorded on the job, and if
          it has a fault of severity `error` or worse.
        """
        now, busy, left = self.jobs.clock.now(), set[str](), set[str]()
        for one in self.jobs.rows(cluster):
            if one.ended_at is None:
                busy |= one.nodes
            elif now < one.ended_at + MISSED_WITHIN:
                left |= one.nodes - one.affected
        for row in unhealthy:
            rank = row.severity.rank if row.severity else -1
            wanted = row.node in busy and rank >= Severity.WARNING.rank
            if wanted or (row.node in left and rank >= Severity.ERROR.rank):
                yield NodeKey(cluster, row.node)


def _harmful(state: NodeState) -> Iterator[Condition]:
    of_node = []
    for one in state.active():
        if one.component.type is not ComponentType.JOB:
            of_node.append(one)
        elif one.severity.rank >= Severity.WARNING.rank:
            yield one
    worst = max(of_node, key=lambda one: (one.severity.rank, one.last_at), default=None)
    if worst is not None and worst.severity.rank >= Severity.ERROR.rank:
        yield worst


MAX_RANK_TEXT = 256
"""A longer list of the ranks of one node is left out of the event; `faultbridge job ranks` lists them."""


def record_resumable_jobs(jobs: Jobs, cluster: str) -> None:
    """Record which ended jobs of a cluster may resume, for up to seven days after the end of each job.

    A job may resume if it failed or its outcome is not reported, no verdict STOP is recorded on it, and it has affected
    nodes (nodes whose faults are recorded on the job), each of which `resume_of` finds usable or retired.

    - A job is checked from five minutes after its end on, because its faults may be recorded late. It is checked at
      once if each of its affected nodes was retired, or repaired and verified after its fault.
    - A checked job without affected nodes, or one that ended more than seven days ago, is removed from the list of
      jobs that the sweep reads.
    - A job with waiting callbacks is skipped, because it was already recorded as resumable.
    - If the update of the states of a job's nodes was interrupted, the update is completed, and the next run checks
      the job.
    """
    now, waiting = jobs.clock.now(), []
    for followed in jobs.rows(cluster):
        if not followed.is_marked:
            jobs.mark_nodes(cluster, followed.id)
            continue
        if followed.callbacks or followed.ended_at is None:
            continue
        if not followed.affected and now < followed.ended_at + LATE_FAULTS:
            continue
        if not followed.affected or now >= followed.ended_at + RESUME_WITHIN:
            jobs.stop_following(cluster, followed)
        else:
            waiting.append(followed)
    for job in jobs.read(cluster, waiting) if waiting else ():
        if job.must_stop or not job.may_resume:
            continue
        states = tuple(jobs.append.read_many(NodeKey(cluster, node) for node in job.affected))
        resume = resume_of(job, states)
        is_late = job.ended_at is not None and now < job.ended_at + LATE_FAULTS
        if resume is not None and (not is_late or all(_is_repaired(job, state) for state in states)):
            config = jobs.table.get(keys.cluster_config(cluster))
            callbacks = items.read_config(config).job_callbacks if config else ()
            jobs.record_resumable(job, resume, callbacks)


def resume_of(job: Job, states: Iterable[NodeState]) -> Resume | None:
    """Return why a job may resume, or None while an affected node is not usable."""
    found = {state.key.node: state for state in states}
    if not job.affected or any(_holds_back(found[node]) for node in job.affected):
        return None
    retired = {node for node in job.affected if found[node].status is NodeStatus.RETIRED}
    replaced = {node for node in job.affected.keys() - retired if found[node].instance_id != job.affected[node]}
    returned = job.affected.keys() - retired - replaced
    latest = max(found.values(), key=lambda state: (_closed_at(state), state.key.node))
    moves = tuple(_move(job, found[node]) for node in sorted(replaced | retired))
    return Resume(tuple(sorted(returned)), tuple(sorted(replaced)), tuple(sorted(retired)), latest.status_event, moves)


def _is_repaired(job: Job, state: NodeState) -> bool:
    """Return whether the node is gone, or was repaired and verified since its last fault that affected the job."""
    hits = [hit_since(key) for key in job.hits if key.startswith(f"{state.key.node} ")]
    repaired_at = state.repaired_at
    return state.status is NodeStatus.RETIRED or (repaired_at is not None and all(at <= repaired_at for at in hits))


def _move(job: Job, state: NodeState) -> RankMove:
    node = state.key.node
    instance = None if state.status is NodeStatus.RETIRED else state.instance_id
    ranks = job.ranks.get(node)
    fits = ranks and len(ranks) <= MAX_RANK_TEXT
    former = job.affected[node]
    return RankMove(node=node, ranks=ranks if fits else None, from_instance_id=former, to_instance_id=instance)


def _holds_back(state: NodeState) -> bool:
    if state.status is NodeStatus.RETIRED:
        return False
    if state.status is None or not state.status.in_service or state.live_case is not None:
        return True
    return any(one.severity.rank >= Severity.ERROR.rank for one in state.active())


def _closed_at(state: NodeState) -> str:
    closed_at = state.case.closed_at if state.case else None
    return to_text(closed_at) if closed_at else ""
