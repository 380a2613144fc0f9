"""Port that cordons and drains nodes through the orchestrator of their cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.nodes import NodeState
from faultbridge.record.ports.compute import CallResult, LaunchedInstance
from faultbridge.record.ports.presence import CheckResult


class ClusterNode(Struct, frozen=True):
    """Identifies a node for its orchestrator by cluster, node name, instance id and other names.

    Another instance may reuse a host name, so an orchestrator that has instance ids matches by instance id.

    - `host_names` are the names of the current instance. A successor has other host names.
    - `aliases` are permanent names of the node. They stay when a successor replaces the instance.
    - `keeps_name` is True if the name `node` also stays when a successor replaces the instance. If it is False, `node`
      is the host name or id of an instance, which may be a former one.
    - `case` is the id of the node's live case, or None.
    """

    cluster: ClusterConfig
    node: str
    instance_id: str | None = None
    aliases: tuple[str, ...] = ()
    case: str | None = None
    host_names: tuple[str, ...] = ()
    keeps_name: bool = True

    @classmethod
    def of(cls, state: NodeState, cluster: ClusterConfig) -> ClusterNode:
        """Return the identity of a node for its orchestrator, from its current state."""
        placement, node = state.placement, state.key.node
        instance = state.instance_id
        case = state.live_case.id if state.live_case else None
        named_after, hosts = placement.named_after, placement.host_names
        if named_after is not None and named_after == instance:
            hosts = (node, *hosts)
        return cls(cluster, node, instance, placement.aliases, case, hosts, named_after is None)

    @classmethod
    def of_spare(cls, candidate: LaunchedInstance, cluster: ClusterConfig) -> ClusterNode:
        """Return the identity, for an orchestrator, of a spare instance that backs no node yet."""
        instance = candidate.instance_id
        return cls(cluster, instance, instance, host_names=candidate.host_names, keeps_name=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Return every name under which an orchestrator may list the node or its instance."""
        return (self.node, *self.aliases, *self.host_names)


class Orchestrator(Protocol):
    """Cordons and drains the nodes of a cluster.

    For a node that the orchestrator does not have, cordon and uncordon return `NOT_FOUND`. Drain succeeds, because no
    work runs there.
    """

    @property
    def applicable(self) -> bool:
        """Return whether the cluster has an orchestrator that can cordon its nodes."""

    def cordon(self, node: ClusterNode) -> CallResult:
        """Prevent new work on the node. A repeated call is harmless."""

    def discourage(self, node: ClusterNode) -> CallResult:
        """Make the scheduler prefer other nodes, without preventing new work. A repeated call is harmless.

        `cordon` replaces this state, and `uncordon` ends it. A cordoned node does not change. An orchestrator without
        such a preference does nothing, and the result is ok.
        """

    def uncordon(self, node: ClusterNode) -> CallResult:
        """Remove what `cordon` or `discourage` set. An earlier cordon by another party stays.

        A repeated call is harmless.
        """

    def drain(self, node: ClusterNode, deadline: datetime) -> CallResult:
        """Start to evict the work of a node, without waiting; the result is ok only if no work runs there.

        While work runs, the result is TIMEOUT, and the caller repeats the call. No eviction starts after the deadline.
        """

    def idle(self, node: ClusterNode) -> CallResult:
        """Return whether no work runs on a node that would lose progress; the call changes nothing.

        The result is ok only if the orchestrator lists no such work, or does not have the node; a drain may still have
        to move other programs, such as pods without a device. While work runs, the result is TIMEOUT with a response.
        If the orchestrator cannot answer, the result is inconclusive.
        """

    def readiness(self, node: ClusterNode) -> CheckResult:
        """Return PASSED if the orchestrator reports the node as ready, FAILED if it reports it as not ready.

        The result is UNKNOWN if the orchestrator does not have the node or reports neither. The call changes nothing.
        Raises Transient if the orchestrator does not respond, and Misconfigured if the permission is missing.
        """


ATTACHED, DETACHING = "attached", "detaching"


class Attachment(Struct, frozen=True):
    """The attachment of an EBS volume to an instance.

    `state` is attaching, attached, busy or detaching.
    """

    instance_id: str
    state: str
    device: str | None = None


class Volume(Struct, frozen=True):
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
