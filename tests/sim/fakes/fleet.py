"""Fakes of EC2 instances in groups, and of the provider that releases and lists them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from faultbridge.model.cluster.config import CapacitySource
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.errors import Misconfigured
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import CallResult, Capacity, CapacityEvidence, LaunchedInstance
from faultbridge.record.ports.presence import InstanceChecks, Presence
from faultbridge.record.ports.table import Clock
from tests.sim.fakes.clock import ManualClock
from tests.sim.fakes.seam import Seam

INSTANCE_TYPE = "p5.48xlarge"


@dataclass(frozen=True)
class FakeInstance:
    """One instance of the fake fleet.

    The instance runs from `launched_at` on, which may be in the future. `alive` is False after its termination. `case`
    is the id of the case or spare for which the instance was launched or assigned last, or None.
    """

    instance_id: str
    group: str
    launched_at: datetime
    alive: bool = True
    instance_type: str = INSTANCE_TYPE
    case: str | None = None


class FakeFleet:
    """Fake groups of constant size: a terminated instance gets a successor after `launch_delay`.

    `capacity_left` limits how many successors can still launch; None means no limit. While there is no capacity,
    launches stay pending. Groups in `templates` use a launch template, so the group itself launches no successors.
    """

    instance_type = INSTANCE_TYPE

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        launch_delay: timedelta = timedelta(minutes=3),
        capacity_left: int | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.launch_delay = launch_delay
        self.capacity_left = capacity_left
        self.instances: dict[str, FakeInstance] = {}
        self.pending_groups: list[str] = []
        self.templates: set[str] = set()

    def launch(self, group: str, instance_id: str | None = None, at: datetime | None = None) -> str:
        """Add an instance that runs from `at` on (default: now) to a group, and return its id."""
        name = instance_id or f"i-{len(self.instances) + 1:017x}"
        self.instances[name] = FakeInstance(name, group, at or self.clock.now())
        return name

    def terminate(self, instance_id: str) -> None:
        """Terminate an instance; its group then launches a successor, unless the group is in `templates`."""
        instance = self.instances[instance_id]
        if not instance.alive:
            return
        self.remove(instance_id)
        if instance.group not in self.templates:
            self.pending_groups.append(instance.group)
            self._launch_pending()

    def remove(self, instance_id: str) -> None:
        """Terminate an instance without a successor, for example because an update has launched one."""
        self.instances[instance_id] = replace(self.instances[instance_id], alive=False)

    def is_alive(self, instance_id: str) -> bool:
        """Return whether the instance exists and is not terminated."""
        return instance_id in self.instances and self.instances[instance_id].alive

    def set_capacity(self, capacity_left: int | None) -> None:
        """Set how many successors can still launch (None for no limit), and launch pending successors."""
        self.capacity_left = capacity_left
        self._launch_pending()

    def instance_at(self, host: str) -> str | None:
        """Return the id of the last added instance with this host name, or None if there is none."""
        return next((one for one in reversed(self.instances) if host_name(one) == host.partition(".")[0]), None)

    def running(self, group: str) -> Iterator[FakeInstance]:
        """Yield the running instances of a group."""
        now = self.clock.now()
        for instance in self.instances.values():
            if instance.group == group and instance.alive and instance.launched_at <= now:
                yield instance

    def launching(self, group: str) -> int:
        """Return how many instances of a group do not run yet: they are launching or wait for capacity."""
        members = sum(one.group == group and one.alive for one in self.instances.values())
        return members - len([*self.running(group)]) + self.pending_groups.count(group)

    def _launch_pending(self) -> None:
        while self.pending_groups and self.capacity_left != 0:
            self.launch(self.pending_groups.pop(0), at=self.clock.now() + self.launch_delay)
            self.capacity_left = None if self.capacity_left is None else self.capacity_left - 1


def whole_seconds(at: datetime) -> datetime:
    """Round a time down to whole seconds, as EC2 reports launch times."""
    return at.replace(microsecond=0)


def host_name(instance_id: str) -> str:
    """Return the host name of an instance, which is derived from its id."""
    return f"ip-{instance_id[-4:]}"


def as_launched_instance(instance: FakeInstance, now: datetime) -> LaunchedInstance:
    """Convert an instance of the fake fleet to a `LaunchedInstance`, which the ports return."""
    return LaunchedInstance(
        instance.instance_id,
        whole_seconds(instance.launched_at),
        instance.instance_type,
        f"{host_name(instance.instance_id)}.internal",
        running=instance.launched_at <= now,
        case=instance.case,
    )


@dataclass(frozen=True)
class ScriptedFailure:
    """A failure that a test has set for one later call, and whether the call still takes effect."""

    failure: ProviderFailure
    effect: bool = False


class FailingFake:
    """Base class of fakes in which a test can make the next calls fail."""

    def __init__(self, fleet: FakeFleet, *, seam: Seam | None = None) -> None:
        self.fleet = fleet
        self.seam = seam or Seam()
        self.failures: deque[ScriptedFailure] = deque()

    def fail_next(self, failure: ProviderFailure, *, effect: bool = False) -> None:
        """Make the next call that changes something fail; with `effect`, the call still takes effect.

        Each call uses one failure, in the order in which the failures were added.
        """
        self.failures.append(ScriptedFailure(failure, effect))

    def _next_failure(self) -> ScriptedFailure | None:
        return self.failures.popleft() if self.failures else None


class FakeProvider(FailingFake):
    """Implements `Provider` (fake) on a `FakeFleet`, with the behavior of EC2 Auto Scaling.

    Replacing a terminated instance succeeds, launch times have whole seconds, and a group that does not exist raises
    `Misconfigured`. `replace` returns failures set with `fail_next` before real answers. With `probe_unknown` every
    probe returns `UNKNOWN`. `known_checks` are the results of the EC2 status checks of every live instance.

    A test sets the results of `capacity` for the sources of capacity:

    - `capacities` maps a source to its result, which takes precedence.
    - If `reserved` is False, one source has the result `known_capacity`: `on_demand` if the evidence of this result is
      `LAUNCH_FIRST`, else `own_reservation`.
    - If `reserved` is True, the result for `own_reservation` is a reservation with as many free instances as the fleet
      can still launch.

    `capacity_answers` lists the time, instance and result of each query whose result was not ABSENT.

    With `release_delay`, `replace` only starts the termination of an instance, as Karpenter does; the first call of the
    provider after this time finds the instance terminated.
    """

    def __init__(self, fleet: FakeFleet, *, seam: Seam | None = None) -> None:
        super().__init__(fleet, seam=seam)
        self.probe_unknown = False
        self.known_capacity = Capacity()
        self.capacities: dict[CapacitySource, Capacity] = {}
        self.reserved = False
        self.capacity_answers: list[tuple[datetime, str, Capacity]] = []
        self.known_checks = InstanceChecks()
        self.impaired_instances: set[str] = set()
        self.replaced: list[tuple[str, str]] = []
        self.release_delay = timedelta(0)
        self.releasing: dict[str, datetime] = {}

    def replace(self, instance_id: str, token: str) -> CallResult:
        """Terminate an instance, so that its group can launch a successor; return the result of the call."""
        with self.seam.around("provider", "replace", (instance_id, token)):
            self.replaced.append((instance_id, token))
            self._finish_releases()
            script = self._next_failure()
            if script is not None and not script.effect:
                return CallResult(script.failure, "scripted")
            if instance_id not in self.fleet.instances:
                return CallResult(reason="the instance is gone already")
            if self.release_delay and self.fleet.is_alive(instance_id):
                since = self.releasing.setdefault(instance_id, self.fleet.clock.now())
                return CallResult(script.failure if script else ProviderFailure.TIMEOUT, "draining", since=since)
            self.fleet.terminate(instance_id)
            return CallResult(script.failure, "scripted") if script else CallResult(operation=f"give-up-{instance_id}")

    def probe(self, instance_id: str) -> Presence:
        """Return whether an instance exists: ALIVE, GONE, UNKNOWN, or UNLISTED if the fleet never had it."""
        with self.seam.around("provider", "probe", instance_id):
            self._finish_releases()
            if self.probe_unknown:
                return Presence.UNKNOWN
            found = self.fleet.instances.get(instance_id)
            return Presence.UNLISTED if found is None else Presence.ALIVE if found.alive else Presence.GONE

    def _finish_releases(self) -> None:
        ended = [one for one, since in self.releasing.items() if self.fleet.clock.now() >= since + self.release_delay]
        for instance_id in ended:
            self.fleet.terminate(instance_id)
            del self.releasing[instance_id]

    def checks(self, instance_id: str) -> InstanceChecks:
        """Return the results of the EC2 status checks: `known_checks` for a live instance, else only UNKNOWN."""
        with self.seam.around("provider", "checks", instance_id):
            return self.known_checks if self.fleet.is_alive(instance_id) else InstanceChecks()

    def impaired(self) -> frozenset[str]:
        """Return the live instances whose status checks fail, as a test has set them in `impaired_instances`."""
        with self.seam.around("provider", "impaired"):
            return frozenset(one for one in self.impaired_instances if self.fleet.is_alive(one))

    def capacity(self, source: CapacitySource, instance_id: str, group: str) -> Capacity:
        """Return the result for a source of capacity, such as a reservation, as a test has set it.

        `capacities`, `reserved` and `known_capacity` set the results. A source without a result is ABSENT.
        """
        with self.seam.around("provider", "capacity", (source, instance_id, group)):
            known = self._reservation() if self.reserved else self.known_capacity
            launches_first = known.evidence is CapacityEvidence.LAUNCH_FIRST
            of_provider = CapacitySource.ON_DEMAND if launches_first else CapacitySource.OWN_RESERVATION
            absent = Capacity(CapacityEvidence.ABSENT)
            found = self.capacities.get(source) or (known if source is of_provider else absent)
            if found.evidence is not CapacityEvidence.ABSENT:
                self.capacity_answers.append((self.fleet.clock.now(), instance_id, found))
            return found

    def _reservation(self) -> Capacity:
        left = self.fleet.capacity_left
        text = f"the reservation has {'enough' if left is None else left} free"
        return Capacity(CapacityEvidence.RESERVATION, free=left != 0, reason=text, count=left)

    def candidates(self, group: str, launched_after: datetime) -> tuple[LaunchedInstance, ...]:
        """Return the running instances that a group launched at `launched_after` or later, oldest first."""
        with self.seam.around("provider", "candidates", group):
            if all(instance.group != group for instance in self.fleet.instances.values()):
                raise Misconfigured(f"no such group: {group!r}")
            found = [
                as_launched_instance(each, self.fleet.clock.now())
                for each in self.fleet.running(group)
                if whole_seconds(each.launched_at) >= whole_seconds(launched_after)
            ]
            return tuple(sorted(found, key=lambda candidate: (candidate.launched_at, candidate.instance_id)))
