"""Large bursts: when `react` reads all unhealthy nodes of a cluster again.

The steps for a whole cluster read the rows of all its unhealthy nodes. If each batch of a burst ran them, the reads
would grow with the square of the number of failed nodes. In a cluster with many unhealthy nodes they therefore run
again when enough further nodes have new entries. The sweep runs the same steps each minute, whatever this module
decides.
"""

from __future__ import annotations

from dataclasses import field

from faultbridge.dataclass import dataclass

MANY = 1_600
SHARE = 16


@dataclass(slots=True)
class LargeBursts:
    """Decides for each cluster whether a batch runs the steps that read all unhealthy nodes.

    With up to `many` unhealthy nodes, each batch runs them. With more, a batch runs them if the nodes with new entries
    since the last run are at least 1/`share` of the nodes that were unhealthy then. The circuit breakers therefore
    follow at most that share of nodes late, and all reads of a burst stay proportional to its nodes.

    The counts are kept in the memory of one process. A new process runs the steps in its first batch.
    """

    many: int = MANY
    share: int = SHARE
    _unhealthy: dict[str, int] = field(default_factory=dict)
    _since: dict[str, int] = field(default_factory=dict)

    def are_steps_due(self, cluster: str, nodes: int) -> bool:
        """Count the nodes of a batch, and return whether this batch runs the steps for the whole cluster."""
        self._since[cluster] = self._since.get(cluster, 0) + nodes
        unhealthy = self._unhealthy.get(cluster, 0)
        return unhealthy <= self.many or self._since[cluster] * self.share >= unhealthy

    def steps_ran(self, cluster: str, unhealthy: int) -> None:
        """Record that the steps ran, and how many nodes of the cluster are unhealthy."""
        self._unhealthy[cluster], self._since[cluster] = unhealthy, 0
