"""Growth: the group of the `REPAIRED` cluster gains instances, some of them bad."""

from __future__ import annotations

from tests.sim.environment.action_plan import ExternalAction
from tests.sim.environment.domain_faults import DomainFaultActions
from tests.sim.environment.operators import OperatorActions
from tests.sim.simulated_system import GROUPS, REPAIRED

MAX_ADDED = 4
"""Maximum number of instances that one run adds, because each further node makes the run longer."""

BAD_SHARE = 0.4
"""The share of growths with one bad instance."""


class GrowthActions(DomainFaultActions, OperatorActions):
    """Adds instances to the group of the `REPAIRED` cluster, alone or together with another action."""

    _added = 0

    def _growth(self, action: ExternalAction) -> None:
        number = min(1 + action.selector % 3, MAX_ADDED - self._added)
        self._added += number
        added = [self.system.fleet.launch(GROUPS[REPAIRED]) for _ in range(number)]
        for instance in added:
            self.system.node_names[instance] = self.system.ports.repaired_inventory.host_name(instance)
        bad = added[:1] if action.fraction < BAD_SHARE else []
        for instance in bad:
            self.system.health.mark_bad(instance)
        self._log(f"the group grows by {', '.join(added) or 'nothing'}; bad: {', '.join(bad) or 'none'}")

    def _growth_during_pause(self, action: ExternalAction) -> None:
        self._pause_repairs(action)
        self._growth(action)

    def _growth_during_import(self, action: ExternalAction) -> None:
        self._growth(action)
        self._register_node(action)

    def _growth_during_incident(self, action: ExternalAction) -> None:
        """Take down the links of many nodes, which may open an incident, then add instances to the group."""
        self._links_lost(action)
        self._growth(action)
