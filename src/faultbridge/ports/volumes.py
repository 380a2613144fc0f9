"""Ports that detach EBS volumes from an instance and attach them to its successor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from faultbridge.dataclass import dataclass
from faultbridge.ports.compute import CallResult
from faultbridge.ports.orchestrator import ClusterNode

ATTACHED, DETACHING = "attached", "detaching"


@dataclass(frozen=True, slots=True)
class Attachment:
    """The attachment of an EBS volume to an instance.

    `state` is attaching, attached, busy or detaching.
    """

    instance_id: str
    state: str
    device: str | None = None


@dataclass(frozen=True, slots=True)
class Volume:
    """An EBS volume, its zone and its attachments.

    Only a `shared` volume can be attached to several instances. `tagged` is False if the tag `faultbridge:volume` was
    removed. The IAM roles of Faultbridge can attach and detach only volumes with this tag.
    """

    volume_id: str
    zone: str
    attachments: tuple[Attachment, ...] = ()
    shared: bool = False
    tagged: bool = True

    def on(self, instance_id: str) -> Attachment | None:
        """Return the attachment of the volume to an instance, or None if it is not attached there."""
        return next((one for one in self.attachments if one.instance_id == instance_id), None)


class Volumes(Protocol):
    """Moves EBS volumes between the instances of one provider. Every call may be repeated.

    `attached` lists only volumes with the tag `faultbridge:volume`. `read` also returns volumes without the tag, so
    that a volume that lost its tag is not taken for a detached or deleted volume.
    """

    def attached(self, instance_id: str, names: Sequence[str]) -> tuple[Volume, ...]:
        """Return volumes on an instance with one of `names` in the tag `faultbridge:volume`, sorted by id."""

    def read(self, volume_ids: Iterable[str]) -> tuple[Volume, ...]:
        """Return the volumes with these ids. Volumes that do not exist are not included."""

    def zone_of(self, instance_id: str) -> str | None:
        """Return the availability zone of an instance, or None if it is unknown."""

    def successor_zones(self, group: str) -> frozenset[str]:
        """Return the zones in which the group may launch a successor.

        The result is empty if the zone is not known before a launch.
        """

    def detach(self, volume_id: str, instance_id: str) -> CallResult:
        """Start to detach a volume, never by force. The call succeeds if the volume is not on the instance."""

    def attach(self, volume_id: str, instance_id: str, device: str | None) -> CallResult:
        """Start to attach a free volume under a device name.

        `device` is None if the provider selects the name. A provider that needs a name then returns a failure.
        """


class VolumeAttachments(Protocol):
    """Shows which volumes an orchestrator's storage driver still has attached to a node."""

    def remaining(self, node: ClusterNode) -> tuple[str, ...]:
        """Return the names of the volumes that the storage driver has not detached from a node."""
