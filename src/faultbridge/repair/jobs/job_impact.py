"""Job impact: records the harmful conditions of a node on the jobs that run there or ended recently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from msgspec import Struct

from faultbridge.model.conditions import Condition
from faultbridge.model.fault_enums import ComponentType, Severity
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage.node_rows import UnhealthyNode
from faultbridge.repair.jobs.changes import Impact
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
        case, instance = state.live_case, state.incarnation.instance_id if state.incarnation else None
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
