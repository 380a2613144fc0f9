"""A fake of SageMaker HyperPod: clusters, their nodes, and calls that replace, reboot and check nodes.

The fake follows AWS's documentation: at most 25 nodes per call, a result for each node, and events in clusters with
continuous provisioning. The duration of each transition is a setting of the fake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from faultbridge.model.values import replace

RUNNING, PENDING, FAILURE = "Running", "Pending", "Failure"
SHUTTING_DOWN, CHECKING = "ShuttingDown", "DeepHealthCheckInProgress"
NO_CAPACITY = "We currently do not have sufficient capacity to launch new instances of this type."


@dataclass(frozen=True)
class Durations:
    """The time that each transition of a node takes: shutdown, start, reboot and health check."""

    shut_down: timedelta = timedelta(seconds=1)
    start: timedelta = timedelta(seconds=2)
    reboot: timedelta = timedelta(seconds=2)
    check: timedelta = timedelta(seconds=2)


@dataclass(frozen=True)
class Group:
    """An instance group of a fake HyperPod cluster; `training_plan` is an ARN, or empty without a plan."""

    name: str
    instance_type: str
    training_plan: str = ""


@dataclass(frozen=True)
class Node:
    """A node with its permanent logical id (`slot`); at the time `until`, its status becomes `then`."""

    slot: str
    group: Group
    instance_id: str
    launched_at: datetime
    status: str = RUNNING
    message: str = ""
    until: datetime | None = None
    then: str = RUNNING


@dataclass
class FakeHyperPod:
    """A fake HyperPod cluster; `now` is its clock, and `publish` receives each event.

    - Instances in `faulty` fail their next deep health check and are replaced.
    - If `capacity` is False, a replacement fails with the message in `launch_failure`.
    - `desired` maps a group to its target size, by default its current size.
    - A training plan has `plan_total` instances, by default as many as use the plan, and ends at `plan_end`, if set.
    """

    name: str
    groups: dict[str, Group]
    node_recovery: str = "Automatic"
    continuous: bool = True
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    publish: Callable[[dict[str, Any]], None] = lambda _: None
    durations: Durations = Durations()
    capacity: bool = True
    launch_failure: str = NO_CAPACITY
    status: str = "InService"
    failure_message: str = ""
    group_status: dict[str, str] = field(default_factory=dict)
    desired: dict[str, int] = field(default_factory=dict)
    plan_total: int | None = None
    plan_status: str = "Active"
    plan_end: datetime | None = None
    faulty: set[str] = field(default_factory=set)
    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Store the node recovery setting with which the cluster was created, so that `reset` restores it."""
        self._created_recovery = self.node_recovery

    def reset(self) -> None:
        """Remove the injected faults, and restore capacity and node recovery; the nodes stay as they are."""
        self.faulty.clear()
        self.capacity, self.node_recovery = True, self._created_recovery

    def launch(self, group: str) -> Node:
        """Add a running node to an instance group, and return the node."""
        node = Node(str(uuid4()), self.groups[group], _instance_id(), self.now())
        self.nodes[node.slot] = node
        return node

    def current(self) -> list[Node]:
        """Return all nodes, after applying every transition that is due."""
        for slot in list(self.nodes):
            while (node := self.nodes[slot]).until is not None and node.until <= self.now():
                self.nodes[slot] = self._after(node)
        return list(self.nodes.values())

    def find(self, instance_id: str) -> Node | None:
        """Return the node that an instance backs, or None if the instance backs no node."""
        return next((node for node in self.current() if node.instance_id == instance_id), None)

    def replace(self, instance_ids: list[str]) -> Iterator[tuple[str, str]]:
        """Start to replace nodes; yield each instance id and an error code, which is '' if there is no error."""
        yield from self._act(instance_ids, "replace", {RUNNING, FAILURE}, self._shut_down)

    def reboot(self, instance_ids: list[str]) -> Iterator[tuple[str, str]]:
        """Start to reboot nodes; yield each instance id and an error code, which is '' if there is no error."""
        yield from self._act(instance_ids, "reboot", {RUNNING}, self._reboot)

    def check(self, instance_ids: list[str]) -> None:
        """Start deep health checks on the given instances; ignore an instance that backs no running node."""
        list(self._act(instance_ids, "check", {RUNNING}, self._check))

    def describe(self) -> dict[str, Any]:
        """Return the fields of a DescribeCluster response that Faultbridge reads."""
        return {
            "ClusterArn": self.arn,
            "ClusterName": self.name,
            "ClusterStatus": self.status,
            "FailureMessage": self.failure_message,
            "InstanceGroups": [self._described(group) for group in self.groups.values()],
            "NodeRecovery": self.node_recovery,
            **({"NodeProvisioningMode": "Continuous"} if self.continuous else {}),
        }

    @property
    def arn(self) -> str:
        """Return the ARN of the cluster; its last part is an id, not the cluster name."""
        return f"arn:aws:sagemaker:us-east-1:000000000000:cluster/{cluster_id(self.name)}"

    def _described(self, group: Group) -> dict[str, Any]:
        count = sum(node.group == group for node in self.nodes.values())
        arn = group.training_plan
        plan = {"TrainingPlanArn": arn, "TrainingPlanStatus": self.plan_status} if arn else {}
        counts = {"CurrentCount": count, "TargetCount": self.desired.get(group.name, count)}
        status = self.group_status.get(group.name, "InService")
        named = {"InstanceGroupName": group.name, "InstanceType": group.instance_type, "Status": status}
        return {**named, **counts, **plan}

    def describe_plan(self, arn: str) -> dict[str, Any] | None:
        """Return the DescribeTrainingPlan response for a plan, or None if no group uses the plan."""
        used = sum(node.group.training_plan == arn for node in self.nodes.values())
        if all(group.training_plan != arn for group in self.groups.values()):
            return None
        total = used if self.plan_total is None else self.plan_total
        counts = {"TotalInstanceCount": total, "InUseInstanceCount": used, "AvailableInstanceCount": total - used}
        ends = {"EndTime": self.plan_end} if self.plan_end else {}
        name = arn.rpartition("/")[2]
        return {"TrainingPlanArn": arn, "TrainingPlanName": name, "Status": self.plan_status, **counts, **ends}

    def _act(
        self, instance_ids: list[str], action: str, allowed: set[str], change: Callable[[Node], Node]
    ) -> Iterator[tuple[str, str]]:
        for instance_id in instance_ids:
            node = self.find(instance_id)
            if node is None:
                yield instance_id, "InstanceIdNotFound"
            elif node.until is not None:
                yield instance_id, "InstanceIdInUse"
            elif node.status not in allowed:
                yield instance_id, "InvalidInstanceStatus"
            else:
                self.requests.append((action, instance_id))
                self.nodes[node.slot] = change(node)
                yield instance_id, ""

    def _shut_down(self, node: Node) -> Node:
        self._emit(node, "Info", f"Starting replacement of instance {node.instance_id}")
        return replace(node, status=SHUTTING_DOWN, until=self.now() + self.durations.shut_down, then=PENDING)

    def _reboot(self, node: Node) -> Node:
        self._emit(node, "Info", f"Reboot of instance {node.instance_id} is in progress")
        return replace(node, status=PENDING, until=self.now() + self.durations.reboot, then=RUNNING)

    def _check(self, node: Node) -> Node:
        return replace(node, status=CHECKING, until=self.now() + self.durations.check, then=RUNNING)

    def _after(self, node: Node) -> Node:
        settled = replace(node, status=node.then, until=None)
        if node.status == CHECKING and node.instance_id in self.faulty:
            self._emit(node, "Error", f"Deep health check of instance {node.instance_id} failed")
            return self._shut_down(settled)
        if node.status != SHUTTING_DOWN:
            return settled
        if not self.capacity:
            failed = replace(settled, instance_id=_instance_id(), status=FAILURE, message=self.launch_failure)
            description = f"Instance creation in InstanceGroup {node.group.name} failed"
            self._emit(failed, "Error", description, self.launch_failure)
            return failed
        new = replace(settled, instance_id=_instance_id(), launched_at=self.now(), status=PENDING)
        self._emit(new, "Info", f"Instance {node.instance_id} was replaced by {new.instance_id}")
        return replace(new, until=self.now() + self.durations.start, then=RUNNING)

    def _emit(self, node: Node, level: str, description: str, failure: str = "") -> None:
        event = {
            "EventId": str(uuid4()),
            "ClusterArn": self.arn,
            "ClusterName": self.name,
            "InstanceGroupName": node.group.name,
            "InstanceId": node.instance_id,
            "ResourceType": "Instance",
            "EventTime": self.now(),
            "EventLevel": level,
            "Description": description,
        }
        self.events.append(event)
        instance = {"NodeLogicalId": node.slot, **({"FailureMessage": failure} if failure else {})}
        self.publish({**event, "EventDetails": {"EventMetadata": {"Instance": instance}}})


def _instance_id() -> str:
    return f"i-{uuid4().hex[:17]}"


def cluster_id(name: str) -> str:
    """Return the cluster id for a cluster name: twelve characters that depend only on the name."""
    return "".join(one for one in name.lower() if one.isalnum())[:12].ljust(12, "0")


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
        recovery = str(parameters.get("NodeRecovery", "Automatic"))
        continuous = parameters.get("NodeProvisioningMode") == "Continuous"
        cluster = FakeHyperPod(str(parameters["ClusterName"]), {}, recovery, continuous)
        for one in parameters.get("InstanceGroups", ()):
            name = one["InstanceGroupName"]
            cluster.groups[name] = Group(name, one["InstanceType"], one.get("TrainingPlanArn", ""))
            for _ in range(int(one["InstanceCount"])):
                cluster.launch(name)
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
    third, fourth = bytes.fromhex(node.instance_id[-4:])
    return {
        "InstanceGroupName": node.group.name,
        "InstanceId": node.instance_id,
        "NodeLogicalId": node.slot,
        "InstanceType": node.group.instance_type,
        "LaunchTime": node.launched_at.replace(microsecond=0),
        "InstanceStatus": {"Status": node.status, "Message": node.message},
        "PrivateDnsHostname": f"ip-10-1-{third}-{fourth}.ec2.internal",
    }


def _node_ids(parameters: Mapping[str, Any]) -> list[str]:
    node_ids = list(parameters.get("NodeIds", ()))
    if not 1 <= len(node_ids) <= MAX_NODES:
        raise ApiError("ValidationException", f"NodeIds must have 1 to {MAX_NODES} members")
    return node_ids


def _batch(results: Iterator[tuple[str, str]]) -> dict[str, Any]:
    codes = list(results)
    failed = [{"NodeId": one, "ErrorCode": code, "Message": f"{one}: {code}"} for one, code in codes if code]
    done = [one for one, code in codes if not code]
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
    if since is None:
        return {"Events": found}
    begin = float(since.timestamp() if hasattr(since, "timestamp") else since)  # JSON carries seconds
    return {"Events": [one for one in found if one["EventTime"].timestamp() >= begin]}


OPERATIONS: Mapping[str, Callable[[FakeHyperPod, Mapping[str, Any]], dict[str, Any]]] = {
    "DescribeCluster": lambda cluster, _: cluster.describe(),
    "ListClusterNodes": _list_nodes,
    "DescribeClusterNode": _describe_node,
    "BatchReplaceClusterNodes": lambda cluster, parameters: _batch(cluster.replace(_node_ids(parameters))),
    "BatchRebootClusterNodes": lambda cluster, parameters: _batch(cluster.reboot(_node_ids(parameters))),
    "StartClusterHealthCheck": _start_check,
    "ListClusterEvents": _list_events,
}
