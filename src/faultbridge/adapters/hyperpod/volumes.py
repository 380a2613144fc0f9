"""Detach and attach EBS volumes of HyperPod nodes on EKS, by two calls of SageMaker.

The volumes belong to the AWS account of the cluster, so EC2 lists them. SageMaker selects the device name, and shows
the zone of a node only after its launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.ec2.instances import result_of
from faultbridge.adapters.ec2.volumes import FAILURES, Ec2Volumes
from faultbridge.adapters.hyperpod.cluster import HyperPodCluster, newest_operation
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import CallResult
from faultbridge.record.ports.orchestrator import Volume


class HyperPodVolumes(Ec2Volumes):
    """A Volumes adapter, which detaches and attaches the EBS volumes of one HyperPod cluster's nodes."""

    def __init__(self, clients: Clients, cluster: HyperPodCluster) -> None:
        super().__init__(clients)
        self._cluster, self._arn = cluster, ""

    def attached(self, instance_id: str, names: Sequence[str]) -> tuple[Volume, ...]:
        """Return a node's tagged volumes, without device names: SageMaker selects the device."""
        found = super().attached(instance_id, names)
        return tuple(
            replace(one, attachments=tuple(replace(at, device=None) for at in one.attachments)) for one in found
        )

    def zone_of(self, instance_id: str) -> str | None:
        """Return the zone of a node; None if the node is leaving, or if SageMaker reports no zone."""
        found = self._cluster.find_node(instance_id) or {}
        zone = (found.get("Placement") or {}).get("AvailabilityZone")
        return str(zone) if zone else None

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
        answer = result_of(action, lambda: call(ClusterArn=arn, NodeId=instance_id, VolumeId=volume_id), FAILURES)
        if not answer.ok:
            self._arn = ""
        return answer
