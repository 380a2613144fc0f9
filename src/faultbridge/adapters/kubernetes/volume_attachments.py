"""The volumes that the storage driver of an EKS cluster has not detached from a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faultbridge.adapters.kubernetes.connection import connections
from faultbridge.ports import ClusterNode

if TYPE_CHECKING:
    from faultbridge.adapters.aws.clients import Clients


class EksVolumeAttachments:
    """Lists the VolumeAttachment objects of an EKS cluster.

    The storage driver deletes one after it detached the volume.
    """

    def __init__(self, clients: Clients) -> None:
        self._connect = connections(clients)

    def remaining(self, node: ClusterNode) -> tuple[str, ...]:
        """Return the persistent volumes with an attachment to the node; none for a node that the cluster lacks."""
        from faultbridge.adapters.kubernetes.node_client import NodeClient, name_of

        api = self._connect(node.cluster)
        found = NodeClient(api).find(node)
        return tuple(api.attached_volumes(name_of(found))) if found else ()
