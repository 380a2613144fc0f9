"""Orders of operators: an order to replace a node changes only the instance that the operator saw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.sim.laws.facts import OPERATOR, instance_of
from tests.sim.laws.law import Law

if TYPE_CHECKING:
    from faultbridge.model.nodes import NodeState
    from tests.sim.fakes.seam import Call
    from tests.sim.simulated_system import SimulatedSystem

UNSEEN = "an order to replace releases only the instance that the operator saw"


class OrderLaw(Law):
    """Checks the releases of nodes about which an operator gave an order."""

    def __init__(self, system: SimulatedSystem) -> None:
        super().__init__(system)
        self._states: dict[str, NodeState] = {}
        self._failed: set[str | None] = set()

    def entry_added(self, body: dict[str, Any]) -> None:
        """Keep the instances that failed their verification; a repair may release them."""
        data, state = body["data"], self._states.get(str(body["metadata"]["node"]))
        if (data.get("step"), data.get("outcome")) == ("verify", "failed") and state is not None:
            self._failed.add(instance_of(state))

    def node_changed(self, state: NodeState) -> None:
        """Keep the state of the node."""
        self._states[state.key.node] = state

    def before_call(self, call: Call) -> None:
        """Check that a release that only an order requires releases an instance that operators saw."""
        if call.name != "provider.replace" or not self.system.truth.seen:
            return
        instance = call.argument[0]
        for name, seen in self.system.truth.seen.items():
            state = self._states.get(name)
            if state is None or instance_of(state) != instance or instance in seen or instance in self._failed:
                continue
            active = [one.code for one in state.active() if one.action.opens_case]
            good = instance not in self.system.health.bad and instance not in self.system.ports.verifier.results
            if active and good and all(code.startswith(OPERATOR) for code in active):
                self.broken(UNSEEN, f"{state.key.stream} {instance}", f"the operators saw {sorted(seen)}")
