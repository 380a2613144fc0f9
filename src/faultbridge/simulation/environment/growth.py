"""Growth: a group of the cluster that Faultbridge repairs gains instances, some of them bad, during other actions."""

from __future__ import annotations

from faultbridge.simulation.environment.action_plan import ExternalAction
from faultbridge.simulation.environment.domain_faults import DomainFaultActions
from faultbridge.simulation.environment.operators import OperatorActions
from faultbridge.simulation.simulated_system import GROUPS, REPAIRED

MAX_ADDED = 4
"""How many instances one run adds at most: each new node takes run time until the end."""

BAD_SHARE = 0.4
"""The share of growths with one bad instance."""


class GrowthActions(DomainFaultActions, OperatorActions):
    """Carries out the growth of the group, alone, during a pause, during an import, or during an incident."""

    _added = 0

    def _growth(self, action: ExternalAction) -> None:
        """Add one to three instances to the group, one of them bad two times in five."""
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
        """Let the group grow right after an operator paused the repairs."""
        self._pause_repairs(action)
        self._growth(action)

    def _growth_during_import(self, action: ExternalAction) -> None:
        """Let the group grow while an operator registers another new instance of the group as a serving node."""
        self._growth(action)
        self._register_node(action)

    def _growth_during_incident(self, action: ExternalAction) -> None:
        """Let the group grow while the links of its nodes are down, which is an incident if there are enough nodes."""
        self._links_lost(action)
        self._growth(action)
