"""Replace a node of a HyperPod cluster: HyperPod terminates the instance and launches its successor.

The root volume and all other volumes of the instance are destroyed. The logical id of the node stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from faultbridge.adapters.compute.failures import failure_of
from faultbridge.adapters.compute.hyperpod_cluster import LEAVING, RUNNING, HyperPodCluster, status_of
from faultbridge.adapters.compute.instances import launch_order
from faultbridge.domain.cluster.capacity_sources import CapacitySource
from faultbridge.errors import Misconfigured, Transient
from faultbridge.ports import (
    CallResult,
    Capacity,
    CapacityEvidence,
    InstanceChecks,
    LaunchedInstance,
    Presence,
    ProviderFailure,
)

ACTIVE_PLAN = "Active"


class HyperPodProvider:
    """A Provider, which replaces instances, for the nodes of a HyperPod cluster."""

    def __init__(self, cluster: HyperPodCluster) -> None:
        self._cluster = cluster

    def replace(self, instance_id: str, token: str) -> CallResult:  # noqa: ARG002 - the call names one instance, so it needs no token
        """Request the replacement of a node; returns CONFLICT if HyperPod is set to recover nodes itself.

        If HyperPod does not find the instance, `probe` decides: the call succeeds if the instance is gone, else it
        returns AMBIGUOUS.
        """
        if self._cluster.recovers_nodes():
            return CallResult(ProviderFailure.CONFLICT, f"HyperPod recovers the nodes of {self._cluster.name} itself")
        answer = self._cluster.replace(instance_id)
        if answer.failure is not ProviderFailure.NOT_FOUND:
            return answer
        if self.probe(instance_id) is Presence.GONE:
            return CallResult(reason="the instance is already gone")
        return CallResult(ProviderFailure.AMBIGUOUS, answer.reason)

    def probe(self, instance_id: str) -> Presence:
        """Return whether the cluster still has the instance, as ALIVE, GONE or UNKNOWN.

        GONE includes an instance that is shutting down. UNKNOWN means that SageMaker gave no conclusive response.
        """
        try:
            return Presence.GONE if self._cluster.find_node(instance_id) is None else Presence.ALIVE
        except Transient:
            return Presence.UNKNOWN

    def checks(self, instance_id: str) -> InstanceChecks:  # noqa: ARG002 - HyperPod shows no checks of a node
        """Return UNKNOWN for every instance check.

        HyperPod's instances run in an account that AWS owns, so EC2 shows no status checks for them.
        """
        return InstanceChecks()

    def capacity(self, source: CapacitySource, instance_id: str, group: str) -> Capacity:  # noqa: ARG002 - the group has the plan
        """Return the capacity that the training plan of the instance group has for a successor.

        For on-demand capacity, the evidence is `NONE`, because only a launch can show whether capacity exists. For
        every source other than on-demand capacity and a training plan, the evidence is `ABSENT`.
        """
        if source is CapacitySource.ON_DEMAND:
            return Capacity(reason="SageMaker shows on-demand capacity only by a launch")
        if source is not CapacitySource.TRAINING_PLAN:
            return Capacity(CapacityEvidence.ABSENT)
        return self._planned(self._cluster.instance_group(group))

    def _planned(self, group: Mapping[str, Any]) -> Capacity:
        """Return the capacity of the training plan of an instance group.

        - If the group has no plan, the evidence is `ABSENT`.
        - If the plan is active, the evidence is `OWN_RESERVATION`, with the number of free instances.
        - If the plan is not active, the evidence is `OWN_RESERVATION`, but a launch cannot use the capacity.
        - If the description of the group shows an active plan, but the permission to read the plan is missing, the plan
          counts as available, with an unknown number of free instances.
        - If SageMaker refuses to describe the plan for another reason, the evidence is `NONE`.
        """
        arn, state = group.get("TrainingPlanArn"), group.get("TrainingPlanStatus")
        if not arn:
            return Capacity(CapacityEvidence.ABSENT, reason="the instance group has no training plan")
        evidence = CapacityEvidence.OWN_RESERVATION
        if state != ACTIVE_PLAN:
            return Capacity(evidence, free=False, reason=f"training plan {arn} is {state}", count=0)
        try:
            plan = self._cluster.training_plan(str(arn))
        except Misconfigured as error:
            denied = failure_of(error.__cause__) is ProviderFailure.PERMISSION_DENIED
            return Capacity(evidence if denied else CapacityEvidence.NONE, reason=f"{arn}; {error}")
        if plan["Status"] != ACTIVE_PLAN:
            return Capacity(evidence, free=False, reason=f"training plan {arn} is {plan['Status']}", count=0)
        free, total = plan.get("AvailableInstanceCount"), plan.get("TotalInstanceCount")
        counted = "" if free is None else f": {free} of {total} instances free"
        return Capacity(evidence, reason=f"{arn}{counted}", count=free, ends_at=plan.get("EndTime"))

    def candidates(self, group: str, launched_after: datetime) -> tuple[LaunchedInstance, ...]:
        """Return possible successors: the group's running instances launched since `launched_after`.

        The instances are sorted by launch time, oldest first. Times are compared in whole seconds. An instance is
        running only if its node has the status `Running`. Raises Misconfigured if the group does not exist.
        """
        earliest = launched_after.replace(microsecond=0)
        members = [one for one in self._cluster.nodes() if one.get("InstanceGroupName") == group]
        if not members:
            self._cluster.instance_group(group)
        found = (_launched(one) for one in members if one.get("InstanceId") and status_of(one) not in LEAVING)
        return tuple(sorted((one for one in found if one.running and one.launched_at >= earliest), key=launch_order))


def _launched(one: Mapping[str, Any]) -> LaunchedInstance:
    return LaunchedInstance(
        instance_id=one["InstanceId"],
        launched_at=one["LaunchTime"].astimezone(UTC),
        instance_type=one.get("InstanceType"),
        private_dns=one.get("PrivateDnsHostname"),
        running=status_of(one) == RUNNING,
        slot=one.get("NodeLogicalId"),
    )
