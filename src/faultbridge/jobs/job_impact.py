"""Job impact: records a node's worst fault on every job that runs there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from faultbridge.domain.faults import Severity
from faultbridge.domain.nodes import NodeKey
from faultbridge.jobs.changes import Impact
from faultbridge.jobs.jobs import Jobs
from faultbridge.ledger.append import Append


@dataclass(frozen=True, slots=True)
class JobImpact:
    """Records the worst active condition of a node on its jobs, if it is `error` or `fatal`."""

    append: Append
    jobs: Jobs

    def __call__(self, key: NodeKey) -> tuple[str, ...]:
        """Return the ids of the affected jobs. The same condition is recorded once for each job."""
        state = self.append.read(key)
        worst = max(state.active(), key=lambda one: (one.severity.rank, one.last_at), default=None)
        if worst is None or worst.severity.rank < Severity.ERROR.rank:
            return ()
        case, instance = state.live_case, state.incarnation.instance_id if state.incarnation else None
        return self.jobs.record_impact(key.cluster, Impact(key.node, worst, case.id if case else None, instance))

    def busy_nodes(self, cluster: str, nodes: Sequence[str]) -> tuple[NodeKey, ...]:
        """Return those of the given nodes on which a job runs, with one query for all of them."""
        busy = self.jobs.busy_nodes(cluster) if nodes else frozenset()
        return tuple(NodeKey(cluster, node) for node in nodes if node in busy)
