"""Detach EBS volumes from an instance, and attach them to its successor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from faultbridge.dataclass import dataclass
from faultbridge.ports.compute import CallResult
from faultbridge.ports.orchestrator import ClusterNode

ATTACHED, DETACHING = "attached", "detaching"


@dataclass(frozen=True, slots=True)
class Attachment:
    """The attachment of a volume to an instance; `state` is attaching, attached, busy or detaching."""

    instance_id: str
    state: str
    device: str | None = None


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume, its zone and attachments; only a `shared` one can be attached to several instances.

    `tagged` is False once the tag `faultbridge:volume` was removed: no role may move the volume then.
    """

    volume_id: str
    zone: str
    attachments: tuple[Attachment, ...] = ()
    shared: bool = False
    tagged: bool = True

    def on(self, instance_id: str) -> Attachment | None:
        """Return the attachment to an instance, or None."""
        return next((one for one in self.attachments if one.instance_id == instance_id), None)


class Volumes(Protocol):
    """Moves volumes between the instances of one provider. Every call may be repeated.

    Only a volume with the tag `faultbridge:volume` is listed. `read` also returns volumes without the tag, so that a
    volume that lost its tag does not look detached or deleted.
    """

    def attached(self, instance_id: str, names: Sequence[str]) -> tuple[Volume, ...]:
        """Return the volumes on an instance whose tag has one of these values, in the order of their ids."""

    def read(self, volume_ids: Iterable[str]) -> tuple[Volume, ...]:
        """Return the volumes with these ids that exist."""

    def zone_of(self, instance_id: str) -> str | None:
        """Return the availability zone of an instance, or None if it is unknown."""

    def successor_zones(self, group: str) -> frozenset[str]:
        """Return the zones in which the group may launch a successor; none if they cannot be known before a launch."""

    def detach(self, volume_id: str, instance_id: str) -> CallResult:
        """Start to detach a volume, never by force; succeeds when it is not on the instance."""

    def attach(self, volume_id: str, instance_id: str, device: str | None) -> CallResult:
        """Start to attach a free volume under a device name; the provider selects the name if `device` is None."""


class VolumeAttachments(Protocol):
    """Shows which volumes the storage driver of an orchestrator still has on a node."""

    def remaining(self, node: ClusterNode) -> tuple[str, ...]:
        """Return the names of the volumes that the driver has not detached from the node."""
