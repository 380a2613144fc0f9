"""What must hold when all is quiet, as a list: an invariant is a sentence and a function that finds what breaks it."""

from __future__ import annotations

from collections.abc import Iterator

from faultbridge.simulation.invariants import cases, clusters, conditions, nodes, pages, records, repairs, streams
from faultbridge.simulation.invariants.base import Invariant
from faultbridge.simulation.view import View

INVARIANTS: tuple[Invariant, ...] = (
    *records.INVARIANTS,
    *streams.INVARIANTS,
    *nodes.INVARIANTS,
    *cases.INVARIANTS,
    *repairs.INVARIANTS,
    *clusters.INVARIANTS,
    *pages.INVARIANTS,
    *conditions.INVARIANTS,
)


def check(view: View) -> Iterator[str]:
    """Yield a line for each thing that breaks an invariant."""
    for invariant in INVARIANTS:
        for what in invariant.broken(view):
            yield f"{invariant.name}: {what}"
