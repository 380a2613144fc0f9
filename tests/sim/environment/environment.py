"""The environment: performs every kind of external action of a plan."""

from __future__ import annotations

from tests.sim.environment.action_plan import ExternalAction
from tests.sim.environment.capacity import CapacityActions
from tests.sim.environment.owner_actions import OwnerActions
from tests.sim.environment.volumes import VolumeActions
from tests.sim.situations.changes import ChangeActions
from tests.sim.situations.jobs import JobActions
from tests.sim.situations.settings import SettingActions
from tests.sim.situations.shortages import ShortageActions


class Environment(
    OwnerActions, CapacityActions, VolumeActions, JobActions, ShortageActions, ChangeActions, SettingActions
):
    """Performs the actions of sources, operators, the cloud and the group's owner in a simulated system.

    The base classes have one method for each kind of action.
    """

    def perform(self, action: ExternalAction) -> None:
        """Perform one action at the current simulated time."""
        getattr(self, f"_{action.kind}")(action)
