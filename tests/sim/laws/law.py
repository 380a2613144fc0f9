"""The base class of laws: it receives what happens in a run, and records each violation once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from faultbridge.model.nodes import NodeState

if TYPE_CHECKING:
    from faultbridge.model.storage.writes import Item
    from tests.sim.fakes.seam import Call
    from tests.sim.simulated_system import SimulatedSystem

CLUSTER = "train-a"
"""The cluster that Faultbridge repairs; the laws are about its nodes."""


class Law:
    """Receives the changes and calls of a run. A subclass overrides the methods that it needs."""

    def __init__(self, system: SimulatedSystem) -> None:
        self.system = system
        self._found: set[tuple[str, str]] = set()

    @property
    def now(self) -> datetime:
        """The current simulated time."""
        return self.system.clock.now()

    def node_changed(self, state: NodeState) -> None:
        """Check a new state of a node of the `REPAIRED` cluster."""

    def control_changed(self, item: Item) -> None:
        """Check a new control item of the `REPAIRED` cluster."""

    def entry_added(self, body: dict[str, Any]) -> None:
        """Check a new entry of the `REPAIRED` cluster."""

    def before_call(self, call: Call) -> None:
        """Check a call to a port before its effect."""

    def after_call(self) -> None:
        """Check the effects of the last scheduled call."""

    def swept(self) -> None:
        """Check what depends on the passage of time."""

    def restored(self) -> None:
        """Forget what the restored table does not know."""

    def ended(self) -> Iterator[tuple[str, str]]:
        """Yield the name of the law and a text for each violation that shows only at the end of a run."""
        yield from ()

    def broken(self, name: str, subject: str, text: str) -> None:
        """Record a violation, at most once for a name and a subject."""
        if (name, subject) not in self._found:
            self._found.add((name, subject))
            self.system.journal.add_violation(name, f"{subject}: {text}")
