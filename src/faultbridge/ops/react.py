"""React: an entry is a doorbell. Whoever it names is read from the table and brought up to date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from faultbridge.domain.clusters import Control
from faultbridge.errors import Transient
from faultbridge.jobs.job_impact import JobImpact
from faultbridge.ops.failures import Failures
from faultbridge.repair.breakers import Breakers
from faultbridge.repair.cluster_status import ClusterRollup
from faultbridge.repair.dispatch import Dispatch
from faultbridge.repair.isolate import Isolate


@dataclass(frozen=True, slots=True)
class React:
    """Judges breakers, isolates touched nodes and tells their jobs, recomputes clusters, then gives out slots."""

    guard: Breakers
    isolate: Isolate
    rollup: ClusterRollup
    dispatch: Dispatch
    job_impact: JobImpact

    def __call__(self, doorbells: Iterable[tuple[str, str | None]]) -> None:
        """Answer (cluster, node or None) pairs, each once; one that fails keeps no other from its turn.

        Raises Transient at the end when any failed: the stream rings again, and what is done stays done.
        """
        repair_action, failures = _by_cluster(doorbells), Failures()
        controls: dict[str, Control | None] = {}
        for cluster in repair_action:
            with failures.of(f"guarding {cluster}"):
                controls[cluster] = self.guard(cluster)
        for cluster, nodes in repair_action.items():
            with failures.of(f"isolating in {cluster}"):
                self._isolate(cluster, nodes, controls.get(cluster), failures)
            with failures.of(f"telling the jobs of {cluster}"):
                self._job_impact(cluster, nodes, failures)
        for cluster in repair_action:
            with failures.of(f"rolling up {cluster}"):
                self.rollup(cluster)
            with failures.of(f"dispatching {cluster}"):
                self.dispatch(cluster)
        if failures.all:
            raise Transient("; ".join(failures.all)) from failures.first

    def _isolate(self, cluster: str, nodes: Sequence[str], control: Control | None, failures: Failures) -> None:
        for node, isolate in self.isolate.for_nodes(cluster, nodes, control).items():
            with failures.of(f"isolating {node}"):
                isolate()

    def _job_impact(self, cluster: str, nodes: Sequence[str], failures: Failures) -> None:
        for key in self.job_impact.busy_nodes(cluster, nodes):
            with failures.of(f"telling the jobs of {key.node}"):
                self.job_impact(key)


def _by_cluster(doorbells: Iterable[tuple[str, str | None]]) -> dict[str, list[str]]:
    repair_action: dict[str, list[str]] = {}
    for cluster, node in sorted(set(doorbells), key=lambda bell: (bell[0], bell[1] or "")):
        nodes = repair_action.setdefault(cluster, [])
        if node is not None:
            nodes.append(node)
    return repair_action
