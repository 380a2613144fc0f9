"""List the volumes that the storage driver of an EKS cluster has not detached from a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faultbridge.adapters.kubernetes.connection import connections
from faultbridge.ports import ClusterNode

if TYPE_CHECKING:
    from faultbridge.adapters.aws.clients import Clients


class EksVolumeAttachments:
    """Lists the volumes of a node that still have a VolumeAttachment object in its EKS cluster.

    The storage driver deletes the object after it has detached the volume.
    """

    def __init__(self, clients: Clients) -> None:
        self._connect = connections(clients)

    def remaining(self, node: ClusterNode) -> tuple[str, ...]:
        """Return the names of the volumes that are still attached to the node.

        The result is empty if the Kubernetes cluster does not have the node.
        """
        from faultbridge.adapters.kubernetes.node_client import NodeClient, name_of

        api = self._connect(node.cluster)
        found = NodeClient(api).find(node)
        return tuple(api.attached_volumes(name_of(found))) if found else ()
