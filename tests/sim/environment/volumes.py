"""Actions on EBS volumes: calls about volumes fail or hang, and volumes lose their tags.

Each node that the `REPAIRED` cluster has at the start gets two volumes. The policy moves one of them to the successor
in a replacement.
"""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.enums import ProviderFailure
from faultbridge.model.values import replace
from faultbridge.record.policies import PolicyStore
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.environment.cloud_actions import HOUR, CloudActions, pick
from tests.sim.fault_injection import Outage
from tests.sim.policies import hashed
from tests.sim.simulated_system import GROUPS, REPAIRED, SimulatedSystem

NAMED, UNNAMED = "data", "scratch"
FAILURES = (
    ProviderFailure.THROTTLED,
    ProviderFailure.CONFLICT,
    ProviderFailure.TIMEOUT,
    ProviderFailure.AMBIGUOUS,
    ProviderFailure.PROVIDER_ERROR,
)


def give_volumes(system: SimulatedSystem) -> None:
    """Give each node of the `REPAIRED` cluster two volumes, and set a policy that moves one of them."""
    mover = system.ports.volume_mover
    for instance in system.fleet.running(GROUPS[REPAIRED]):
        for name in (NAMED, UNNAMED):
            mover.add(instance.instance_id, name)
    document = hashed(replace(system.policy, volumes=(NAMED,)))
    system.policy = replace(system.policy, version=document["version"], volumes=(NAMED,))
    system.workers.operate(lambda app: PolicyStore(app.ports.table, app.ports.clock).put(document))


class VolumeActions(CloudActions):
    """Carries out failures of volumes, and of calls about volumes, in a simulated system."""

    def _volume_failure(self, action: ExternalAction) -> None:
        failure = pick(FAILURES, action.selector)
        effect = failure in {ProviderFailure.TIMEOUT, ProviderFailure.AMBIGUOUS} and action.selector % 2 == 0
        self._log(f"the next call about a volume fails: {failure.value}{', with effect' if effect else ''}")
        self.system.ports.volume_mover.fail_next(failure, effect=effect)

    def _volume_stuck(self, action: ExternalAction) -> None:
        mover = self.system.ports.volume_mover
        if not mover.volumes:
            return
        volume = pick(sorted(mover.volumes), action.selector)
        self._log(f"{volume} cannot be detached")
        mover.stuck.add(volume)
        self.system.schedule.after(2 * HOUR * action.fraction, "cloud", lambda: mover.stuck.discard(volume))

    def _volume_tag_lost(self, action: ExternalAction) -> None:
        mover = self.system.ports.volume_mover
        if not mover.volumes:
            return
        volume = pick(sorted(mover.volumes), action.selector)
        self._log(f"{volume} loses its tag")
        mover.remove_tag(volume)
        if action.selector % 2:
            self.system.schedule.after(2 * HOUR * action.fraction, "cloud", lambda: self._tag(volume))

    def _tag(self, volume: str) -> None:
        self._log(f"{volume} is tagged again")
        self.system.ports.volume_mover.volumes[volume].tagged = True

    def _volume_outage(self, action: ExternalAction) -> None:
        start = self.system.clock.now()
        end = start + timedelta(seconds=60 + action.fraction * HOUR)
        self._log(f"volumes do not answer until {end:%H:%M:%S}")
        self.system.injector.outages.append(Outage("volumes", start, end))
