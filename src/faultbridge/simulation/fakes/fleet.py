"""Instances and their groups in memory, and the provider that gives them up."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from faultbridge.errors import Misconfigured
from faultbridge.ports import CallResult, Candidate, Capacity, Clock, Presence, ProviderFailure
from faultbridge.simulation.fakes.clock import ManualClock
from faultbridge.simulation.fakes.seams import Seam

INSTANCE_TYPE = "p5.48xlarge"


@dataclass(frozen=True)
class Instance:
    """One instance: in which group, since when; `launched_at` may lie ahead, then it is on its way.

    `case` is the one that it was launched for.
    """

    instance_id: str
    group: str
    launched_at: datetime
    alive: bool = True
    instance_type: str = INSTANCE_TYPE
    case: str | None = None


class FakeFleet:
    """Groups that keep their size (fake): each instance that is given up gets a successor after `launch_delay`.

    `spare` bounds how many successors may still be launched (None: any number); a successor that is owed while there
    is none comes `launch_delay` after `restock`. Groups in `templates` launch nothing by themselves.
    """

    instance_type = INSTANCE_TYPE

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        launch_delay: timedelta = timedelta(minutes=3),
        spare: int | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.launch_delay = launch_delay
        self.spare = spare
        self.instances: dict[str, Instance] = {}
        self.owed: list[str] = []
        self.templates: set[str] = set()

    def launch(self, group: str, instance_id: str | None = None, at: datetime | None = None) -> str:
        """Put an instance into a group, now unless said otherwise."""
        name = instance_id or f"i-{len(self.instances) + 1:017x}"
        self.instances[name] = Instance(name, group, at or self.clock.now())
        return name

    def terminate(self, instance_id: str) -> None:
        """Let an instance go for good; its group owes a successor, unless it is a launch template."""
        instance = self.instances[instance_id]
        if not instance.alive:
            return
        self.instances[instance_id] = replace(instance, alive=False)
        if instance.group not in self.templates:
            self.owed.append(instance.group)
            self._launch_owed()

    def is_alive(self, instance_id: str) -> bool:
        """Tell whether a machine is there and was not terminated."""
        found = self.instances.get(instance_id)
        return found is not None and found.alive

    def restock(self, spare: int | None) -> None:
        """Change how many successors may still be launched."""
        self.spare = spare
        self._launch_owed()

    def running(self, group: str) -> Iterator[Instance]:
        """Yield the instances of a group that are up by now."""
        now = self.clock.now()
        for instance in self.instances.values():
            if instance.group == group and instance.alive and instance.launched_at <= now:
                yield instance

    def _launch_owed(self) -> None:
        while self.owed and self.spare != 0:
            self.launch(self.owed.pop(0), at=self.clock.now() + self.launch_delay)
            self.spare = None if self.spare is None else self.spare - 1


def told(at: datetime) -> datetime:
    """Tell an instant as EC2 tells it: in whole seconds."""
    return at.replace(microsecond=0)


def as_candidate(instance: Instance, now: datetime) -> Candidate:
    """Tell an instance as a provider does."""
    return Candidate(
        instance.instance_id,
        told(instance.launched_at),
        instance.instance_type,
        f"{instance.instance_id}.internal",
        running=instance.launched_at <= now,
    )


@dataclass(frozen=True)
class Failure:
    """One scripted failure: what is answered, and whether the call had its effect all the same."""

    failure: ProviderFailure
    effect: bool = False


class FakeProvider:
    """A Provider (fake) over a fleet; scripted failures are answered first, `blind` makes probes find nothing out."""

    def __init__(self, fleet: FakeFleet, *, seam: Seam | None = None) -> None:
        self.fleet = fleet
        self.seam = seam or Seam()
        self.failures: deque[Failure] = deque()
        self.blind = False
        self.known_capacity = Capacity()
        self.replaced: list[tuple[str, str]] = []

    def fail_next(self, failure: ProviderFailure, *, effect: bool = False) -> None:
        """Let the next call to replace fail in this way."""
        self.failures.append(Failure(failure, effect))

    def replace(self, instance_id: str, token: str) -> CallResult:
        """Give an instance up."""
        with self.seam.around("provider", "replace", (instance_id, token)):
            self.replaced.append((instance_id, token))
            script = self.failures.popleft() if self.failures else None
            if script is not None and not script.effect:
                return CallResult(script.failure, "scripted")
            if instance_id not in self.fleet.instances:
                return CallResult(reason="the instance is gone already")
            self.fleet.terminate(instance_id)
            return CallResult(script.failure, "scripted") if script else CallResult(operation=f"give-up-{instance_id}")

    def probe(self, instance_id: str) -> Presence:
        """Tell whether an instance is there."""
        with self.seam.around("provider", "probe", instance_id):
            if self.blind:
                return Presence.UNKNOWN
            instance = self.fleet.instances.get(instance_id)
            return Presence.ALIVE if instance is not None and instance.alive else Presence.GONE

    def capacity(self, instance_id: str, group: str) -> Capacity:
        """Tell what a test says is known of capacity."""
        with self.seam.around("provider", "capacity", (instance_id, group)):
            return self.known_capacity

    def candidates(self, group: str, launched_after: datetime) -> tuple[Candidate, ...]:
        """List what may take a node."""
        with self.seam.around("provider", "candidates", group):
            if all(instance.group != group for instance in self.fleet.instances.values()):
                raise Misconfigured(f"there is no group {group!r}")
            found = [
                as_candidate(each, self.fleet.clock.now())
                for each in self.fleet.running(group)
                if told(each.launched_at) >= told(launched_after)
            ]
            return tuple(sorted(found, key=lambda candidate: (candidate.launched_at, candidate.instance_id)))
