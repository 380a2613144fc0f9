"""Call SageMaker for one HyperPod cluster: read its nodes, and request a repair or check of one node.

A request names one instance id, never a logical id. A logical id also names the successor, so a late or repeated call
could change a healthy instance. SageMaker offers no client token for these requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, cast

import botocore
from botocore.exceptions import ClientError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import AWS_ERRORS, code_of, translate, translated
from faultbridge.adapters.ec2.instances import failure_of
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.log import log_cause
from faultbridge.record.ports.compute import Bundle, BundleState, CallResult, HostOutput

# Faultbridge's Lambda layer contains no boto3 of its own, so each function uses the version of its runtime.

MINIMUM = "1.42.88"
"""The first version of boto3 and botocore with every operation that the product calls."""


@cache
def report_old_version(version: str = botocore.__version__) -> bool:
    """Log once, and return True, if the installed boto3 is too old to repair HyperPod nodes."""
    is_old = _parts(version) < _parts(MINIMUM)
    if is_old:
        reason = f"repairs of HyperPod nodes require boto3 {MINIMUM} or newer: add it to the layer (docs/deploy.md)"
        log_cause("boto3_too_old", reason=reason, level=logging.WARNING, version=version)
    return is_old


def newest_operation(client: object, name: str) -> Any:  # noqa: ANN401 - a method of a client, made at run time
    """Return a client's method that older versions of boto3 lack; raises Misconfigured with the minimum."""
    operation = getattr(client, name, None)
    if operation is None:
        raise Misconfigured(
            f"boto3 {botocore.__version__} of this runtime lacks {name}; "
            f"repairs of HyperPod nodes require boto3 {MINIMUM} or newer: add it to the layer (docs/deploy.md)"
        )
    return operation


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3])


PAGE = 100
RUNNING, FAILURE, CHECKING = "Running", "Failure", "DeepHealthCheckInProgress"
LEAVING = frozenset({"ShuttingDown", "NotFound"})
# SageMaker documents the first code; the second one is used for an instance id that the cluster does not have.
NO_SUCH_NODE = frozenset({"ResourceNotFound", "ValidationException"})
# ListClusterEvents is refused for a cluster without continuous provisioning.
NO_EVENTS = frozenset({"ValidationException"})

FAILURES: Mapping[str, ProviderFailure] = {
    "InstanceIdNotFound": ProviderFailure.NOT_FOUND,
    "InvalidInstanceStatus": ProviderFailure.CONFLICT,
    "InstanceIdInUse": ProviderFailure.CONFLICT,
    "InternalServerError": ProviderFailure.AMBIGUOUS,
}
IN_USE = "InstanceIdInUse"


class HyperPodCluster:
    """One HyperPod cluster, by name or ARN; without a name, every call raises Misconfigured."""

    def __init__(self, clients: Clients, name: str | None) -> None:
        self._clients, self._name = clients, name

    @property
    def name(self) -> str:
        """Return the name or ARN of the HyperPod cluster; raises Misconfigured if none is registered."""
        if not self._name:
            raise Misconfigured("no HyperPod cluster is registered; run cluster set --hyperpod-cluster NAME")
        return self._name

    def nodes(self) -> Iterator[Mapping[str, Any]]:
        """Yield the summary of every node of the cluster; one call per 100 nodes."""
        with translated(f"listing the nodes of {self.name}"):
            pages = self._clients.sagemaker.get_paginator("list_cluster_nodes")
            request: Any = {
                "ClusterName": self.name,
                "IncludeNodeLogicalIds": True,
                "PaginationConfig": {"PageSize": PAGE},
            }
            for page in pages.paginate(**request):
                yield from page["ClusterNodeSummaries"]

    def describe_node(self, instance_id: str) -> Mapping[str, Any]:
        """Return the details of a node; raises Misconfigured if the cluster does not have the node."""
        with translated(f"reading node {instance_id} of {self.name}"):
            return self._details(instance_id)

    def find_node(self, instance_id: str) -> Mapping[str, Any] | None:
        """Return the details of a node; None if the node is shutting down or no longer exists.

        A node no longer exists if SageMaker neither describes nor lists it. Raises Transient while SageMaker lists the
        node but does not describe it.
        """
        action = f"reading node {instance_id} of {self.name}"
        try:
            details = self._details(instance_id)
        except AWS_ERRORS as error:
            if not _is_unknown_node(error):
                raise translate(error, action) from error
            if self._lists(instance_id):
                raise Transient(f"{action}: the cluster lists the node, but does not describe it") from error
            return None
        return None if status_of(details) in LEAVING else details

    def describes(self, instance_id: str) -> bool:
        """Return whether SageMaker describes the node and the node is not shutting down."""
        try:
            return status_of(self._details(instance_id)) not in LEAVING
        except AWS_ERRORS as error:
            if _is_unknown_node(error):
                return False
            raise translate(error, f"reading node {instance_id} of {self.name}") from error

    def events(self, instance_id: str, since: datetime) -> tuple[Mapping[str, Any], ...]:
        """Return the events of an instance; without continuous provisioning SageMaker keeps none."""
        try:
            with translated(f"listing the events of {instance_id}"):
                pages = self._clients.sagemaker.get_paginator("list_cluster_events").paginate(
                    ClusterName=self.name, NodeId=instance_id, EventTimeAfter=since
                )
                return tuple(event for page in pages for event in page["Events"])
        except Misconfigured as error:
            if isinstance(error.__cause__, ClientError) and code_of(error.__cause__) in NO_EVENTS:
                return ()
            raise

    def recovers_nodes(self) -> bool:
        """Return whether the cluster is set so that HyperPod itself reboots and replaces faulty nodes."""
        return recovers_nodes(self.describe())

    def instance_group(self, group: str) -> Mapping[str, Any]:
        """Return the description of an instance group; raises Misconfigured if the cluster lacks the group."""
        groups = self.describe().get("InstanceGroups", [])
        found: Mapping[str, Any] | None = next((one for one in groups if one.get("InstanceGroupName") == group), None)
        if found is None:
            raise Misconfigured(f"instance group not found: {group!r} in {self.name}")
        return found

    def training_plan(self, arn: str) -> Mapping[str, Any]:
        """Return the description of a training plan: its status, its end, and its instance counts."""
        with translated(f"reading training plan {arn}"):
            return cast("Mapping[str, Any]", self._clients.sagemaker.describe_training_plan(TrainingPlanName=arn))

    def arn(self) -> str:
        """Return the ARN of the cluster, which SageMaker requires to attach and detach volumes."""
        return str(self.describe()["ClusterArn"])

    def replace(self, instance_id: str) -> CallResult:
        """Request the replacement of one node; the client sends the call once, without retries.

        The error `InstanceIdInUse` becomes AMBIGUOUS: the operation in progress may be an earlier request whose
        response was lost.
        """
        call = newest_operation(self._clients.sagemaker_no_retry, "batch_replace_cluster_nodes")
        answer = self._request(call, "replacing", instance_id)
        in_use = answer.failure is ProviderFailure.CONFLICT and answer.reason.startswith(IN_USE)
        return CallResult(ProviderFailure.AMBIGUOUS, answer.reason) if in_use else answer

    def reboot(self, instance_id: str) -> CallResult:
        """Request the reboot of one node; the client sends the call once, without retries."""
        call = newest_operation(self._clients.sagemaker_no_retry, "batch_reboot_cluster_nodes")
        return self._request(call, "rebooting", instance_id)

    def start_health_check(self, instance_id: str, group: str, checks: Sequence[str]) -> None:
        """Start deep checks of one node by one call; its caller reads the texts of botocore's errors."""
        configuration: Any = {
            "InstanceGroupName": group,
            "InstanceIds": [instance_id],
            "DeepHealthChecks": list(checks),
        }
        start = newest_operation(self._clients.sagemaker_no_retry, "start_cluster_health_check")
        start(ClusterName=self.name, DeepHealthCheckConfigurations=[configuration])

    def _details(self, instance_id: str) -> Mapping[str, Any]:
        answer: Any = self._clients.sagemaker.describe_cluster_node(ClusterName=self.name, NodeId=instance_id)
        return cast("Mapping[str, Any]", answer["NodeDetails"])

    def describe(self) -> Mapping[str, Any]:
        """Return the description of the cluster: its status, its groups and its recovery setting."""
        with translated(f"reading HyperPod cluster {self.name}"):
            return cast("Mapping[str, Any]", self._clients.sagemaker.describe_cluster(ClusterName=self.name))

    def _lists(self, instance_id: str) -> bool:
        listed = (one for one in self.nodes() if one.get("InstanceId") == instance_id)
        return any(status_of(one) not in LEAVING for one in listed)

    def _request(self, call: Callable[..., Any], action: str, instance_id: str) -> CallResult:
        try:
            answer = call(ClusterName=self.name, NodeIds=[instance_id])
        except AWS_ERRORS as error:
            return CallResult(failure_of(error), str(translate(error, f"{action} {instance_id}")))
        return result_for(answer, instance_id, f"{action} {instance_id}")


def _is_unknown_node(error: Exception) -> bool:
    return isinstance(error, ClientError) and code_of(error) in NO_SUCH_NODE


def result_for(answer: Mapping[str, Any], instance_id: str, operation: str) -> CallResult:
    """Return the result for one instance from the response to a batch request.

    A batch request can fail for some instances only. If the response does not name the instance, the outcome is
    unknown, so the result is AMBIGUOUS. `operation` is copied to a successful result.
    """
    for failed in answer.get("Failed") or ():
        if failed["NodeId"] == instance_id:
            code = str(failed["ErrorCode"])
            failure = FAILURES.get(code, ProviderFailure.PROVIDER_ERROR)
            return CallResult(failure, f"{code}: {failed.get('Message', '')}")
    if instance_id in (answer.get("Successful") or ()):
        return CallResult(operation=operation)
    return CallResult(ProviderFailure.AMBIGUOUS, f"the answer of SageMaker does not name {instance_id}")


def status_of(node: Mapping[str, Any]) -> str:
    """Return SageMaker's status of a node, such as `Running` or `Failure`; empty if it has none."""
    return str((node.get("InstanceStatus") or {}).get("Status", ""))


def message_of(node: Mapping[str, Any]) -> str:
    """Return SageMaker's message about the status of a node; empty if there is none."""
    return str((node.get("InstanceStatus") or {}).get("Message", ""))


def recovers_nodes(cluster: Mapping[str, Any]) -> bool:
    """Return whether HyperPod itself repairs faulty nodes; also if DescribeCluster lacks the setting."""
    return str(cluster.get("NodeRecovery", "")) != "None"


REASON = (
    "SSM Run Command does not reach HyperPod nodes; the logs of the health monitoring agent and of deep health checks "
    "are in the log group /aws/sagemaker/Clusters/NAME/ID"
)


class HyperPodLogs:
    """A Collector that collects no logs, and returns where HyperPod keeps them."""

    def collect(self, instance_id: str, token: str) -> Bundle:  # noqa: ARG002 - no instance is reached
        """Return a failed bundle, whose reason names where HyperPod keeps the logs; the repair continues."""
        return Bundle(BundleState.FAILED, reason=REASON)

    def read(self, instance_id: str, token: str) -> HostOutput:  # noqa: ARG002 - no instance is reached
        """Return an empty result: SSM Run Command does not reach the nodes."""
        return HostOutput()
