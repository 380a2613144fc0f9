"""Answer the calls of the SageMaker API for fake HyperPod clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from faultbridge.local.hyperpod.cluster import FakeHyperPod, Group, Node

MAX_NODES = 25
ZONE = "us-east-1a"


class ApiError(Exception):
    """An error of the SageMaker API, with its error code."""

    def __init__(self, code: str, message: str) -> None:
        """Store the error code separately from the message."""
        super().__init__(message)
        self.code = code


class FakeSageMaker:
    """A fake of SageMaker's HyperPod calls in one Region; `clusters` contains the fake clusters by name."""

    def __init__(self) -> None:
        self.clusters: dict[str, FakeHyperPod] = {}

    def answer(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a call; raises ApiError if SageMaker would reject the call."""
        if operation == "CreateCluster":
            return self._create(parameters)
        if operation == "DescribeTrainingPlan":
            return self._describe_plan(str(parameters["TrainingPlanName"]))
        cluster = self._cluster(str(parameters["ClusterName"]))
        if operation == "DeleteCluster":
            del self.clusters[cluster.name]
            return {"ClusterArn": cluster.arn}
        return OPERATIONS[operation](cluster, parameters)

    def _create(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        groups = {
            one["InstanceGroupName"]: Group(
                one["InstanceGroupName"], one["InstanceType"], one.get("TrainingPlanArn", "")
            )
            for one in parameters.get("InstanceGroups", ())
        }
        recovery = str(parameters.get("NodeRecovery", "Automatic"))
        continuous = parameters.get("NodeProvisioningMode") == "Continuous"
        cluster = FakeHyperPod(str(parameters["ClusterName"]), groups, recovery, continuous)
        for one in parameters.get("InstanceGroups", ()):
            for _ in range(int(one["InstanceCount"])):
                cluster.launch(one["InstanceGroupName"])
        self.clusters[cluster.name] = cluster
        return {"ClusterArn": cluster.arn}

    def _describe_plan(self, arn: str) -> dict[str, Any]:
        described = (cluster.describe_plan(arn) for cluster in self.clusters.values())
        found = next(filter(None, described), None)
        if found is None:
            raise ApiError("ResourceNotFound", f"training plan not found: {arn}")
        return found

    def _cluster(self, name: str) -> FakeHyperPod:
        for cluster in self.clusters.values():
            if name in {cluster.name, cluster.arn}:
                return cluster
        raise ApiError("ResourceNotFound", f"Cluster with name {name} does not exist")


def _list_nodes(cluster: FakeHyperPod, parameters: Mapping[str, Any]) -> dict[str, Any]:
    wanted = str(parameters.get("InstanceGroupNameContains", ""))
    nodes = [node for node in cluster.current() if wanted in node.group.name]
    start, size = int(parameters.get("NextToken") or 0), int(parameters.get("MaxResults") or 10)
    page: dict[str, Any] = {"ClusterNodeSummaries": [_summary(node) for node in nodes[start : start + size]]}
    return page | ({"NextToken": str(start + size)} if start + size < len(nodes) else {})


def _describe_node(cluster: FakeHyperPod, parameters: Mapping[str, Any]) -> dict[str, Any]:
    instance_id = str(parameters.get("NodeId", ""))
    node = cluster.find(instance_id)
    if node is None:
        raise ApiError("ResourceNotFound", f"Instance {instance_id} is not in cluster {cluster.name}")
    labels = cluster.labels.get(instance_id)
    placement = {"AvailabilityZone": ZONE}
    details = {**_summary(node), "Placement": placement, "ThreadsPerCore": 1}
    return {"NodeDetails": details | ({"KubernetesConfig": {"CurrentLabels": labels}} if labels else {})}


def _summary(node: Node) -> dict[str, Any]:
    return {
        "InstanceGroupName": node.group.name,
        "InstanceId": node.instance_id,
        "NodeLogicalId": node.slot,
        "InstanceType": node.group.instance_type,
        "LaunchTime": node.launched_at.replace(microsecond=0),
        "InstanceStatus": {"Status": node.status, "Message": node.message},
        "PrivateDnsHostname": _host(node.instance_id),
    }


def _host(instance_id: str) -> str:
    third, fourth = int(instance_id[-4:-2], 16), int(instance_id[-2:], 16)
    return f"ip-10-1-{third}-{fourth}.ec2.internal"


def _replace(cluster: FakeHyperPod, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return _batch(cluster.replace(_node_ids(parameters)))


def _reboot(cluster: FakeHyperPod, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return _batch(cluster.reboot(_node_ids(parameters)))


def _node_ids(parameters: Mapping[str, Any]) -> list[str]:
    node_ids = list(parameters.get("NodeIds", ()))
    if not 1 <= len(node_ids) <= MAX_NODES:
        raise ApiError("ValidationException", f"NodeIds must have 1 to {MAX_NODES} members")
    return node_ids


def _batch(results: Any) -> dict[str, Any]:  # noqa: ANN401 - pairs of instance id and error code
    done, failed = [], []
    for instance_id, code in results:
        if code:
            failed.append({"NodeId": instance_id, "ErrorCode": code, "Message": f"{instance_id}: {code}"})
        else:
            done.append(instance_id)
    return {"Failed": failed} | ({"Successful": done} if done else {})


def _start_check(cluster: FakeHyperPod, parameters: Mapping[str, Any]) -> dict[str, Any]:
    if any(node.status == "DeepHealthCheckInProgress" for node in cluster.current()):
        raise ApiError("ValidationException", "A deep health check is already in progress")
    for configuration in parameters["DeepHealthCheckConfigurations"]:
        cluster.check(configuration["InstanceIds"])
    return {"ClusterArn": cluster.arn}


def _list_events(cluster: FakeHyperPod, parameters: Mapping[str, Any]) -> dict[str, Any]:
    if not cluster.continuous:
        raise ApiError("ValidationException", "Events need the node provisioning mode Continuous")
    since, node_id = parameters.get("EventTimeAfter"), parameters.get("NodeId")
    found = [one for one in cluster.events if node_id in {None, one["InstanceId"]}]
    return {"Events": [one for one in found if since is None or one["EventTime"].timestamp() >= _seconds(since)]}


def _seconds(time: Any) -> float:  # noqa: ANN401 - a datetime, or seconds as JSON carries them
    return float(time.timestamp() if hasattr(time, "timestamp") else time)


OPERATIONS: Mapping[str, Callable[[FakeHyperPod, Mapping[str, Any]], dict[str, Any]]] = {
    "DescribeCluster": lambda cluster, _: cluster.describe(),
    "ListClusterNodes": _list_nodes,
    "DescribeClusterNode": _describe_node,
    "BatchReplaceClusterNodes": _replace,
    "BatchRebootClusterNodes": _reboot,
    "StartClusterHealthCheck": _start_check,
    "ListClusterEvents": _list_events,
}
