"""A fake of EBS volumes, and of the storage driver of an orchestrator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from faultbridge.model.enums import ProviderFailure
from faultbridge.record.ports.compute import CallResult
from faultbridge.record.ports.orchestrator import ATTACHED, DETACHING, Attachment, ClusterNode, Volume
from tests.sim.fakes.fleet import FailingFake, FakeFleet
from tests.sim.fakes.seam import Seam

ZONE = "us-east-1a"


@dataclass
class FakeVolume:
    """One volume: its tag value (`name`), the instance on which it was created, and its attachment.

    `until` is the time at which a started attach or detach is complete, or None. `deleted_with` is the instance with
    which the volume was deleted, or None. If `tagged` is False, the volume has lost its tag: `read` returns the volume,
    but it cannot be listed or moved. `lost_tag` is True if the volume ever lost its tag, even if it has the tag again.
    """

    volume_id: str
    name: str
    zone: str = ZONE
    instance_id: str | None = None
    device: str | None = None
    state: str = ATTACHED
    until: datetime | None = None
    created_on: str = ""
    deleted_with: str | None = None
    tagged: bool = True
    lost_tag: bool = False


class FakeVolumes(FailingFake):
    """Implements `Volumes` (fake) on a `FakeFleet`.

    - If an instance is terminated, the volumes that are attached to it are deleted.
    - An attach or a detach takes `delay`. The detach of a volume in `stuck` does not end.
    - `zones` maps instances to their zones. The default zone is `us-east-1a`.
    - `detached` lists the volume, the instance and the start of each detach, and `given` those of each attach.
    - `stolen` describes each call that tried to attach a volume while another instance had the volume.
    """

    def __init__(self, fleet: FakeFleet, *, seam: Seam | None = None, delay: timedelta = timedelta(seconds=20)) -> None:
        super().__init__(fleet, seam=seam)
        self.delay = delay
        self.volumes: dict[str, FakeVolume] = {}
        self.stuck: set[str] = set()
        self.zones: dict[str, str] = {}
        self.group_zones: frozenset[str] = frozenset()
        self.detached: list[tuple[str, str, datetime]] = []
        self.given: list[tuple[str, str, datetime]] = []
        self.stolen: list[str] = []

    def add(self, instance_id: str, name: str = "data", zone: str = ZONE, device: str = "/dev/sdf") -> str:
        """Create a volume on an instance; returns its id."""
        volume_id = f"vol-{len(self.volumes) + 1:017x}"
        self.volumes[volume_id] = FakeVolume(volume_id, name, zone, instance_id, device, created_on=instance_id)
        return volume_id

    def remove_tag(self, volume_id: str) -> None:
        """Remove the tag that permits the Lambda functions of Faultbridge to move a volume."""
        self.volumes[volume_id].tagged, self.volumes[volume_id].lost_tag = False, True

    def attached(self, instance_id: str, names: Sequence[str]) -> tuple[Volume, ...]:
        """Return the volumes of an instance whose tag has one of the values in `names`."""
        with self.seam.around("volumes", "attached", instance_id):
            self.settle()
            found = (one for one in self.volumes.values() if one.instance_id == instance_id and one.name in names)
            return tuple(_as_volume(one) for one in found if one.tagged and not one.deleted_with)

    def read(self, volume_ids: Iterable[str]) -> tuple[Volume, ...]:
        """Return those of the given volumes that exist."""
        wanted = tuple(volume_ids)
        with self.seam.around("volumes", "read", wanted):
            self.settle()
            found = (self.volumes[one] for one in wanted if one in self.volumes)
            return tuple(_as_volume(one) for one in found if not one.deleted_with)

    def zone_of(self, instance_id: str) -> str | None:
        """Return the availability zone of an instance; None if the fleet never had the instance."""
        with self.seam.around("volumes", "zone_of", instance_id):
            return self.zones.get(instance_id, ZONE) if instance_id in self.fleet.instances else None

    def successor_zones(self, group: str) -> frozenset[str]:
        """Return the zones in which a successor may be launched; a test sets them in `group_zones`."""
        with self.seam.around("volumes", "successor_zones", group):
            return self.group_zones

    def detach(self, volume_id: str, instance_id: str) -> CallResult:
        """Start to detach a volume from an instance; the detach takes `delay`.

        The detach of a volume in `stuck` does not end. A volume without the tag is not detached.
        """
        with self.seam.around("volumes", "detach", (volume_id, instance_id)):
            self.settle()
            script, volume = self._next_failure(), self.volumes[volume_id]
            if volume.instance_id == instance_id and not volume.tagged:
                return _untagged(volume)
            if volume.instance_id == instance_id and (script is None or script.effect) and volume.state == ATTACHED:
                volume.state, volume.until = DETACHING, self.fleet.clock.now() + self.delay
                self.detached.append((volume_id, instance_id, self.fleet.clock.now()))
            return CallResult(script.failure, "scripted") if script else CallResult()

    def attach(self, volume_id: str, instance_id: str, device: str | None) -> CallResult:
        """Start to attach a volume to an instance; it is attached after `delay`.

        The call fails if the volume is in use, is deleted, has no tag, or is in another zone than the instance.
        """
        with self.seam.around("volumes", "attach", (volume_id, instance_id)):
            self.settle()
            script, volume = self._next_failure(), self.volumes[volume_id]
            if script is not None and not script.effect:
                return CallResult(script.failure, "scripted")
            if not volume.tagged:
                return _untagged(volume)
            if volume.instance_id is not None:
                if volume.instance_id != instance_id:
                    self.stolen.append(f"{volume_id} on {volume.instance_id}, for {instance_id}")
                return CallResult(ProviderFailure.CONFLICT, f"{volume_id} is in use")
            if volume.deleted_with or self.zones.get(instance_id, ZONE) != volume.zone:
                return CallResult(ProviderFailure.PROVIDER_ERROR, f"{volume_id} is not in the zone of {instance_id}")
            volume.instance_id, volume.device, volume.state = instance_id, device, "attaching"
            volume.until = self.fleet.clock.now() + self.delay
            self.given.append((volume_id, instance_id, self.fleet.clock.now()))
            return CallResult(script.failure, "scripted") if script else CallResult()

    def settle(self) -> None:
        """Complete the attach and detach calls that are due, and delete the volumes of terminated instances."""
        now = self.fleet.clock.now()
        for one in self.volumes.values():
            if one.instance_id is None:
                continue
            if not self.fleet.is_alive(one.instance_id):
                one.deleted_with, one.instance_id = one.instance_id, None
            elif one.until is not None and one.until <= now:
                self._end_change(one)

    def _end_change(self, one: FakeVolume) -> None:
        if one.state == DETACHING and one.volume_id in self.stuck:
            return
        one.instance_id = None if one.state == DETACHING else one.instance_id
        one.state, one.until = ATTACHED, None


class FakeVolumeAttachments:
    """Implements `VolumeAttachments` (fake): returns the attachments of a Kubernetes storage driver.

    A test sets in `held` which volumes the driver has attached to each instance.
    """

    def __init__(self, *, seam: Seam | None = None) -> None:
        self.seam = seam or Seam()
        self.held: dict[str, tuple[str, ...]] = {}

    def remaining(self, node: ClusterNode) -> tuple[str, ...]:
        """Return the volumes that the driver has attached to the node's instance, from `held`."""
        with self.seam.around("volume_attachments", "remaining", node.node):
            return self.held.get(node.instance_id or "", ())


def _as_volume(one: FakeVolume) -> Volume:
    found = Attachment(one.instance_id, one.state, one.device) if one.instance_id else None
    return Volume(one.volume_id, one.zone, (found,) if found else (), tagged=one.tagged)


def _untagged(one: FakeVolume) -> CallResult:
    """Return PERMISSION_DENIED, because IAM roles of Faultbridge permit no change of an untagged volume."""
    return CallResult(ProviderFailure.PERMISSION_DENIED, f"{one.volume_id} has no tag")
