"""The environment: performs every kind of external action of a plan."""

from __future__ import annotations

from faultbridge.simulation.environment.action_plan import ExternalAction
from faultbridge.simulation.environment.capacity import CapacityActions
from faultbridge.simulation.environment.owner_actions import OwnerActions
from faultbridge.simulation.environment.volumes import VolumeActions
from faultbridge.simulation.situations.changes import ChangeActions
from faultbridge.simulation.situations.claims import ClaimActions
from faultbridge.simulation.situations.settings import SettingActions
from faultbridge.simulation.situations.shortages import ShortageActions


class Environment(
    OwnerActions, CapacityActions, VolumeActions, ClaimActions, ShortageActions, ChangeActions, SettingActions
):
    """Performs the actions of sources, operators, the cloud and the group's owner in a simulated system.

    The base classes have one method for each kind of action.
    """

    def perform(self, action: ExternalAction) -> None:
        """Perform one action at the current simulated time."""
        getattr(self, f"_{action.kind}")(action)
