"""Strikes: a node's trouble told to the jobs that run on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from faultbridge.domain.faults import Severity
from faultbridge.domain.nodes import NodeKey
from faultbridge.jobs.jobs import Impact, Jobs
from faultbridge.ledger.append import Append


@dataclass(frozen=True, slots=True)
class JobImpact:
    """Looks at a node and tells its jobs of the worst that is wrong with it, if that is bad enough to harm them."""

    append: Append
    jobs: Jobs

    def __call__(self, key: NodeKey) -> tuple[str, ...]:
        """Return the jobs that were hit; telling them twice says it once."""
        state = self.append.read(key)
        worst = max(state.active(), key=lambda one: (one.severity.rank, one.last_at), default=None)
        if worst is None or worst.severity.rank < Severity.ERROR.rank:
            return ()
        case = state.live_case
        return self.jobs.strike(key.cluster, Impact(key.node, worst, case.id if case else None))

    def busy(self, cluster: str, nodes: Sequence[str]) -> tuple[NodeKey, ...]:
        """Return those of a cluster's nodes on which a job runs, with one query for all of them."""
        busy = self.jobs.busy(cluster) if nodes else frozenset()
        return tuple(NodeKey(cluster, node) for node in nodes if node in busy)
