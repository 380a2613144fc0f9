"""The environment: performs every kind of external action of a plan."""

from __future__ import annotations

from faultbridge.simulation.environment.action_plan import ExternalAction
from faultbridge.simulation.environment.domain_faults import DomainFaultActions
from faultbridge.simulation.environment.operators import OperatorActions


class Environment(DomainFaultActions, OperatorActions):
    """Performs the actions of sources, operators and the cloud in a simulated system."""

    def perform(self, action: ExternalAction) -> None:
        """Perform one action now."""
        getattr(self, f"_{action.kind}")(action)
