"""Trials of half-open breakers: the first failure of a trial ends it, and so no further instance is released."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from faultbridge.model.times import from_text
from tests.sim.laws.law import Law

if TYPE_CHECKING:
    from faultbridge.model.nodes import NodeState
    from faultbridge.model.storage.writes import Item
    from tests.sim.simulated_system import SimulatedSystem

REPEATED = "a half-open trial ends with its first failure"


class TrialLaw(Law):
    """Checks the repairs that begin while a breaker is half open.

    `_half_open` maps each half-open breaker to the time since when. `_begun` has the time of the intent of each
    attempt in progress. `_failed` has the times of the intent and of the failed verification of each node's last
    repair.
    """

    def __init__(self, system: SimulatedSystem) -> None:
        super().__init__(system)
        self._domains: dict[str, str | None] = {}
        self._half_open: dict[str, datetime] = {}
        self._begun: dict[str, datetime] = {}
        self._failed: dict[str, tuple[datetime, datetime]] = {}

    def node_changed(self, state: NodeState) -> None:
        """Keep the failure domain of the node."""
        self._domains[state.key.node] = state.placement.domain

    def control_changed(self, item: Item) -> None:
        """Follow which breakers are half open."""
        breakers = item.get("breakers") or {}
        stored = breakers.items() if isinstance(breakers, dict) else ()
        self._half_open = {
            name: self._half_open.get(name, self.now)
            for name, one in stored
            if isinstance(one, dict) and one.get("state") == "half_open"
        }

    def entry_added(self, body: dict[str, Any]) -> None:
        """Check a release that begins after a repair failed in the same trial."""
        meta, data = body["metadata"], body["data"]
        step, at = (data.get("step"), data.get("outcome")), from_text(meta["recorded_at"])
        node = str(meta["node"])
        if step == ("intent", "committed") and data["repair_action"] == "replace_node":
            for name, since in self._half_open.items():
                failed = self._failed_since(name, since)
                if failed and self._covers(name, node) and at > since:
                    self.broken(REPEATED, f"{name} {node}", f"half open since {since:%d %H:%M:%S}, failed: {failed}")
            self._begun[node] = at
        elif step == ("verify", "failed") and node in self._begun:
            self._failed[node] = self._begun[node], at
        elif meta["event_type"] == "Case Status Change" and data.get("from") == "in_progress":
            self._begun.pop(node, None)
            if "incident" in str(data.get("reason")):
                self._failed.pop(node, None)  # an incident explains the failure, so the instance may be good

    def _failed_since(self, name: str, since: datetime) -> list[str]:
        """Return the nodes of a breaker whose repair began and failed since a time."""
        return sorted(
            node
            for node, (begun, at) in self._failed.items()
            if self._covers(name, node) and at > begun > since and (self.now - at).total_seconds() > 0
        )

    def _covers(self, name: str, node: str) -> bool:
        return name == "cluster" or name == f"domain:{self._domains.get(node)}"
