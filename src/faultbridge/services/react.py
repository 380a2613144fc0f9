"""React: an entry is a doorbell. Whoever it names is read from the table and brought up to date."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from faultbridge.domain.nodes import NodeKey
from faultbridge.errors import Transient
from faultbridge.services.dispatch import Dispatch
from faultbridge.services.failures import Failures
from faultbridge.services.guard import Guard
from faultbridge.services.isolate import Isolate
from faultbridge.services.rollup import Rollup
from faultbridge.services.strikes import TellJobs


@dataclass(frozen=True, slots=True)
class React:
    """Judges breakers, isolates touched nodes and tells their jobs, recomputes clusters, then gives out slots."""

    guard: Guard
    isolate: Isolate
    rollup: Rollup
    dispatch: Dispatch
    tell_jobs: TellJobs

    def __call__(self, doorbells: Iterable[tuple[str, str | None]]) -> None:
        """Answer (cluster, node or None) pairs, each once; one that fails keeps no other from its turn.

        Raises Transient at the end when any failed: the stream rings again, and what is done stays done.
        """
        rung = frozenset(doorbells)
        failures = Failures()
        for cluster in sorted({cluster for cluster, _ in rung}):
            with failures.of(f"guarding {cluster}"):
                self.guard(cluster)
        for cluster, node in sorted((cluster, node) for cluster, node in rung if node is not None):
            with failures.of(f"isolating {node}"):
                self.isolate(NodeKey(cluster, node))
            with failures.of(f"telling the jobs of {node}"):
                self.tell_jobs(NodeKey(cluster, node))
        for cluster in sorted({cluster for cluster, _ in rung}):
            with failures.of(f"rolling up {cluster}"):
                self.rollup(cluster)
            with failures.of(f"dispatching {cluster}"):
                self.dispatch(cluster)
        if failures.all:
            raise Transient("; ".join(failures.all)) from failures.first
