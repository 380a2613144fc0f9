"""Detach and attach EBS volumes of HyperPod nodes on EKS, by two calls of SageMaker.

The volumes belong to the AWS account of the cluster, so EC2 lists them. SageMaker selects the device name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.ec2.volumes import UNKNOWN_ZONES, Ec2Volumes, result_of
from faultbridge.adapters.hyperpod.cluster import HyperPodCluster, newest_operation
from faultbridge.record.ports import CallResult, Volume


class HyperPodVolumes:
    """A Volumes adapter, which detaches and attaches the EBS volumes of one HyperPod cluster's nodes."""

    def __init__(self, clients: Clients, cluster: HyperPodCluster) -> None:
        self._clients, self._cluster, self._ec2 = clients, cluster, Ec2Volumes(clients)
        self._arn: str | None = None

    def attached(self, instance_id: str, names: Sequence[str]) -> tuple[Volume, ...]:
        """Return a node's tagged volumes, without device names: SageMaker selects the device."""
        return tuple(_without_devices(one) for one in self._ec2.attached(instance_id, names))

    def read(self, volume_ids: Iterable[str]) -> tuple[Volume, ...]:
        """Return the given volumes; volumes that do not exist are left out."""
        return self._ec2.read(volume_ids)

    def zone_of(self, instance_id: str) -> str | None:
        """Return the zone of a node; None if the node is leaving, or if SageMaker reports no zone."""
        found = self._cluster.find_node(instance_id) or {}
        zone = (found.get("Placement") or {}).get("AvailabilityZone")
        return str(zone) if zone else None

    def successor_zones(self, group: str) -> frozenset[str]:  # noqa: ARG002 - the port's signature
        """Return no zones, because SageMaker shows the zone of a node only after its launch."""
        return UNKNOWN_ZONES

    def detach(self, volume_id: str, instance_id: str) -> CallResult:
        """Start to detach a volume by one call without retries; succeeds also if it is already detached."""
        detach = newest_operation(self._clients.sagemaker_no_retry, "detach_cluster_node_volume")
        answer = self._call(f"detaching {volume_id}", detach, instance_id, volume_id)
        still = answer.ok or any(one.on(instance_id) for one in self.read([volume_id]))
        return answer if still else CallResult(reason="already detached")

    def attach(self, volume_id: str, instance_id: str, device: str | None) -> CallResult:  # noqa: ARG002 - SageMaker selects it
        """Start to attach a volume by one call without retries; SageMaker selects the device name."""
        attach = newest_operation(self._clients.sagemaker_no_retry, "attach_cluster_node_volume")
        return self._call(f"attaching {volume_id}", attach, instance_id, volume_id)

    def _call(self, action: str, call: Callable[..., Any], instance_id: str, volume_id: str) -> CallResult:
        """Make one call; after a failure the next one reads the ARN again, as the cluster may be a new one."""
        arn = self._arn = self._arn or self._cluster.arn()
        answer = result_of(action, lambda: call(ClusterArn=arn, NodeId=instance_id, VolumeId=volume_id))
        if not answer.ok:
            self._arn = None
        return answer


def _without_devices(volume: Volume) -> Volume:
    return replace(volume, attachments=tuple(replace(one, device=None) for one in volume.attachments))
