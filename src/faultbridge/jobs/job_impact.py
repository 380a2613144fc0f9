"""Job impact: records a node's worst fault on every job that runs there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.conditions import Condition
from faultbridge.domain.faults import ComponentType, Severity
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.jobs.changes import Impact
from faultbridge.jobs.jobs import Jobs
from faultbridge.ledger.append import Append

MISSED_WITHIN = timedelta(hours=1)
"""How long after the end of a job the sweep still looks for faults whose trigger was lost."""


@dataclass(frozen=True, slots=True)
class JobImpact:
    """Records on the jobs of a node its worst `error` or `fatal` condition, and the conditions of the job itself.

    Conditions of the job are what its log reports, such as a loss that is not a number.
    """

    append: Append
    jobs: Jobs

    def __call__(self, key: NodeKey) -> tuple[str, ...]:
        """Record the conditions of a node on its jobs, each once per job; returns the ids of these jobs."""
        state = self.append.read(key)
        found = tuple(_harmful(state))
        affected = tuple(one.id for one in self.jobs.rows(key.cluster) if key.node in one.nodes) if found else ()
        case, instance = state.live_case, state.incarnation.instance_id if state.incarnation else None
        for condition in found:
            impact = Impact(key.node, condition, case.id if case else None, instance)
            self.jobs.record_impact(key.cluster, affected, impact)
        return affected

    def busy_nodes(self, cluster: str, nodes: Sequence[str]) -> tuple[NodeKey, ...]:
        """Return those of the given nodes on which a job runs or has just ended, with one query for all of them."""
        busy = {node for one in self.jobs.rows(cluster) for node in one.nodes} if nodes else set()
        return tuple(NodeKey(cluster, node) for node in nodes if node in busy)

    def missed(self, cluster: str, unhealthy: Iterable[Mapping[str, Any]]) -> tuple[NodeKey, ...]:
        """Return those unhealthy nodes whose fault is perhaps not recorded yet on a job that runs there.

        A job that ended within the last hour also counts, but only for nodes whose faults it does not record yet.
        """
        now, busy = self.jobs.clock.now(), set[str]()
        for one in self.jobs.rows(cluster):
            if one.ended_at is None:
                busy |= one.nodes
            elif now < one.ended_at + MISSED_WITHIN:
                busy |= one.nodes - one.affected
        failed = (row for row in unhealthy if row["severity"] and Severity(row["severity"]).rank >= Severity.ERROR.rank)
        return tuple(NodeKey(cluster, str(row["node"])) for row in failed if row["node"] in busy)


def _harmful(state: NodeState) -> Iterator[Condition]:
    """Yield the job's own conditions from `warning` on, and the worst one of the rest if it is at least an `error`."""
    of_node = []
    for one in state.active():
        if one.component.type is not ComponentType.JOB:
            of_node.append(one)
        elif one.severity.rank >= Severity.WARNING.rank:
            yield one
    worst = max(of_node, key=lambda one: (one.severity.rank, one.last_at), default=None)
    if worst is not None and worst.severity.rank >= Severity.ERROR.rank:
        yield worst
