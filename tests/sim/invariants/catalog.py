"""Catalog: lists and checks the invariants of the end of a run, when the system is idle."""

from __future__ import annotations

from collections.abc import Iterator

from tests.sim.invariants import (
    capacity,
    cases,
    causation,
    coverage,
    domain_faults,
    findings,
    group_owner,
    incidents,
    node_clocks,
    nodes,
    pages,
    records,
    repairs,
    streams,
    volumes,
)
from tests.sim.invariants.view import Invariant, SystemView

INVARIANTS: tuple[Invariant, ...] = (
    *records.INVARIANTS,
    *streams.INVARIANTS,
    *nodes.INVARIANTS,
    *node_clocks.INVARIANTS,
    *cases.INVARIANTS,
    *causation.INVARIANTS,
    *coverage.INVARIANTS,
    *repairs.INVARIANTS,
    *volumes.INVARIANTS,
    *group_owner.INVARIANTS,
    *capacity.INVARIANTS,
    *incidents.INVARIANTS,
    *domain_faults.INVARIANTS,
    *findings.INVARIANTS,
    *nodes.CLUSTER_INVARIANTS,
    *pages.INVARIANTS,
    *records.REPLAY_INVARIANTS,
)


def check(view: SystemView) -> Iterator[str]:
    """Check all invariants, and yield one line of text for each violation: the invariant and the details.

    After a restore of the table, only the laws are checked: entries that were published before are missing in it.
    """
    yield from view.system.laws.ended()
    if view.system.restored:
        return
    for invariant in streams.INVARIANTS if view.system.only_laws else INVARIANTS:
        for details in invariant.violations(view):
            yield f"{invariant.name}: {details}"
