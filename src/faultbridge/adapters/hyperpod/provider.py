"""Replace a node of a HyperPod cluster: HyperPod terminates the instance and launches its successor.

The root volume and all other volumes of the instance are destroyed. The logical id of the node stays the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from faultbridge.adapters.aws.errors import AWS_ERRORS, is_outage, translate
from faultbridge.adapters.aws.errors import message_of as error_text
from faultbridge.adapters.ec2.instances import failure_of, launched_since
from faultbridge.adapters.ec2.request_log import Progress, Request, RequestLog
from faultbridge.adapters.hyperpod.cluster import (
    CHECKING,
    FAILURE,
    LEAVING,
    RUNNING,
    HyperPodCluster,
    message_of,
    status_of,
)
from faultbridge.model.cluster.config import CapacitySource
from faultbridge.model.enums import ProviderFailure, RepairAction
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.record.ports.compute import (
    CallResult,
    Capacity,
    CapacityEvidence,
    LaunchedInstance,
    Restart,
    RestartState,
    Verdict,
    Verification,
)
from faultbridge.record.ports.presence import InstanceChecks, Presence

ACTIVE_PLAN = "Active"


class HyperPodProvider:
    """A Provider, which replaces instances, for the nodes of a HyperPod cluster."""

    def __init__(self, cluster: HyperPodCluster) -> None:
        self._cluster = cluster

    def replace(self, instance_id: str, token: str) -> CallResult:  # noqa: ARG002 - the call names one instance, so it needs no token
        """Request a replacement; CONFLICT if HyperPod recovers nodes itself, AMBIGUOUS if it lacks the node."""
        if self._cluster.recovers_nodes():
            return CallResult(ProviderFailure.CONFLICT, f"HyperPod recovers the nodes of {self._cluster.name} itself")
        answer = self._cluster.replace(instance_id)
        if answer.failure is not ProviderFailure.NOT_FOUND:
            return answer
        if self.probe(instance_id) is Presence.GONE:
            return CallResult(reason="the instance is already gone")
        return CallResult(ProviderFailure.AMBIGUOUS, answer.reason)

    def probe(self, instance_id: str) -> Presence:
        """Return whether the cluster has the instance; GONE if it shuts down, UNKNOWN without a clear answer."""
        try:
            return Presence.GONE if self._cluster.find_node(instance_id) is None else Presence.ALIVE
        except Transient:
            return Presence.UNKNOWN

    def checks(self, instance_id: str) -> InstanceChecks:  # noqa: ARG002 - HyperPod shows no checks of a node
        """Return UNKNOWN: the instances run in an account of AWS, so EC2 shows no checks of them."""
        return InstanceChecks()

    def impaired(self) -> frozenset[str]:
        """Return none: EC2 shows no checks of the instances."""
        return frozenset()

    def capacity(self, source: CapacitySource, instance_id: str, group: str) -> Capacity:  # noqa: ARG002 - the group has the plan
        """Return what the group's training plan has; `NONE` on demand, `ABSENT` for any other source."""
        if source is CapacitySource.ON_DEMAND:
            return Capacity(reason="SageMaker shows on-demand capacity only by a launch")
        if source is not CapacitySource.TRAINING_PLAN:
            return Capacity(CapacityEvidence.ABSENT)
        return self._planned(self._cluster.instance_group(group))

    def _planned(self, group: Mapping[str, Any]) -> Capacity:
        """Return the capacity of a group's training plan: `ABSENT` without a plan, else `OWN_RESERVATION`.

        A launch cannot use a plan that is not active. If only the permission to read an active plan is missing, the
        plan counts as available, with an unknown number of free instances. After any other refusal, the evidence is
        `NONE`.
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
        if spares := plan.get("AvailableSpareInstanceCount"):
            counted += f", {spares} spare ones in UltraServers"
        if unhealthy := plan.get("UnhealthyInstanceCount"):
            counted += f", {unhealthy} unhealthy"
        return Capacity(evidence, reason=f"{arn}{counted}", count=free, ends_at=plan.get("EndTime"))

    def candidates(self, group: str, launched_after: datetime) -> tuple[LaunchedInstance, ...]:
        """Return possible successors: the group's running instances launched since `launched_after`.

        The instances are sorted by launch time, oldest first. Times are compared in whole seconds. An instance is
        running only if its node has the status `Running`. Raises Misconfigured if the group does not exist.
        """
        members = [one for one in self._cluster.nodes() if one.get("InstanceGroupName") == group]
        if not members:
            self._cluster.instance_group(group)
        found = (_launched(one) for one in members if one.get("InstanceId") and status_of(one) not in LEAVING)
        return launched_since((one for one in found if one.running), launched_after)


def _launched(one: Mapping[str, Any]) -> LaunchedInstance:
    return LaunchedInstance(
        instance_id=one["InstanceId"],
        launched_at=one["LaunchTime"].astimezone(UTC),
        instance_type=one.get("InstanceType"),
        private_dns=one.get("PrivateDnsHostname"),
        running=status_of(one) == RUNNING,
        slot=one.get("NodeLogicalId"),
    )


# Reboot a node of a SageMaker HyperPod cluster; HyperPod has no call that resets GPUs.
#
# SageMaker reports no result of a reboot; `HyperPodRestarter.status` derives it. The verification after the reboot
# shows whether the node is healthy.

# After these failures SageMaker may have started the reboot, so the request is not sent again.
MAYBE_SENT = frozenset({ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT})


class HyperPodRestarter:
    """A Restarter for nodes of a HyperPod cluster; each token starts at most one reboot."""

    def __init__(self, cluster: HyperPodCluster, requests: RequestLog) -> None:
        self._cluster, self._requests = cluster, requests

    def restart(self, repair_action: RepairAction, instance_id: str, token: str) -> CallResult:
        """Request a reboot once per token; CONFLICT if HyperPod itself recovers nodes."""
        if repair_action is not RepairAction.REBOOT_NODE:
            return CallResult(ProviderFailure.PROVIDER_ERROR, f"HyperPod has no call for {repair_action.value}")
        request = _request_token(repair_action, token)
        operation = f"rebooting {instance_id} for {token}"
        if self._requests.find(request) is not None:
            return CallResult(operation=operation)
        if self._cluster.recovers_nodes():
            return CallResult(ProviderFailure.CONFLICT, f"HyperPod recovers the nodes of {self._cluster.name} itself")
        if not self._requests.record(request):
            return CallResult(operation=operation)
        answer = self._cluster.reboot(instance_id)
        if answer.ok:
            self._requests.advance(request, Progress.ACCEPTED)
            return CallResult(operation=operation)
        if answer.failure not in MAYBE_SENT:
            self._requests.withdraw(request)
        return answer

    def status(self, repair_action: RepairAction, instance_id: str, token: str) -> Restart:
        """Return the status of the reboot that was requested with this token.

        - `absent`: no reboot was requested with this token.
        - `running`: the node does not run now, or it is not proven yet that it rebooted.
        - `done`: the node runs, and an earlier call found it in a status other than `Running` and `Failure`.
        - `done` also if the node runs, and the request was accepted and is more than 10 minutes old (`SETTLE`).
        - `failed`: HyperPod reports the status `Failure` for the node.
        - `unknown`: SageMaker did not describe the node, or the node is shutting down or gone.
        """
        request_token = _request_token(repair_action, token)
        request = self._requests.find(request_token)
        if request is None:
            return Restart(RestartState.ABSENT)
        operation = f"rebooting {instance_id} for {token}"
        try:
            node = self._cluster.find_node(instance_id)
        except Transient as error:
            return Restart(RestartState.UNKNOWN, str(error), operation)
        if node is None:
            return Restart(RestartState.UNKNOWN, "the cluster no longer lists the instance", operation)
        if status_of(node) == RUNNING:
            return Restart(*self._requests.state_of_running(request), operation=operation)
        if status_of(node) == FAILURE:
            return Restart(RestartState.FAILED, f"HyperPod reports {FAILURE}: {message_of(node)}", operation)
        self._requests.advance(request_token, Progress.OBSERVED)
        return Restart(RestartState.RUNNING, f"the node has the status {status_of(node)}", operation)


def _request_token(repair_action: RepairAction, token: str) -> str:
    return f"{token} {repair_action.value}"


# Verify a node of a SageMaker HyperPod cluster by HyperPod's own health checks.
#
# Level 1, the default, reads the basic health checks that HyperPod runs on each node. From level 2, the verifier starts
# the deep health check `InstanceStress` (GPU and NVLink count, DCGM diagnostics level 4, EFA); from level 4, also
# `InstanceConnectivity` (NCCL).
#
# When a deep check fails, HyperPod reboots or replaces the node, so a node that runs again has not necessarily passed:
#
# - A node passes a deep check only if the verifier finds it in the check, and then in the status `Running`. The node
#   does not pass if the verifier finds another status after the check, or a warning.
# - A label of the node shows the result of its last deep check, until the next deep check sets the label. The label
#   therefore counts only after the verifier has found the node in the requested check and later out of the check.

BASIC, DEEP, CONNECTED = 1, 2, 4
OPERATION = "hyperpod-check "
STRESS, CONNECTIVITY = "InstanceStress", "InstanceConnectivity"
START_LIMIT = timedelta(minutes=15)
"""How long a check may take to start; on Slurm, HyperPod waits 10 minutes for a busy node and then skips it."""

PREFIX = "sagemaker.amazonaws.com/"
HEALTH_LABEL, CHECK_LABEL = f"{PREFIX}node-health-status", f"{PREFIX}deep-health-check-status"
LEFT_CHECK = frozenset({Progress.OBSERVED, Progress.INTERRUPTED})
"""Progress of a check in which the node was seen. If the node is in no check now, it has left the requested check."""

WARNINGS = frozenset({"Warn", "Error"})
# SageMaker has no error code for a cluster that already runs a check.
BUSY = ("in progress", "already", "another", "updating")


class HyperPodVerifier:
    """A Verifier for nodes of a HyperPod cluster; it starts at most one check per token."""

    def __init__(self, cluster: HyperPodCluster, requests: RequestLog) -> None:
        self._cluster, self._requests = cluster, requests

    def start(self, instance_id: str, token: str, level: int | None = None, *, prove_idle: bool = False) -> str:  # noqa: ARG002 - HyperPod runs the checks
        """Start the checks once per token; raises Transient unless the node runs without another check."""
        level = level or BASIC
        operation = f"{OPERATION}{level} {token}"
        if self._requests.find(operation) is not None:
            return operation
        node = self._cluster.find_node(instance_id)
        if node is None or status_of(node) != RUNNING:
            status = "gone" if node is None else status_of(node)
            raise Transient(f"{instance_id} cannot be checked yet: its status is {status}")
        if self._requests.record(operation) and level >= DEEP:
            self._start_deep_check(instance_id, str(node["InstanceGroupName"]), operation, level)
        return operation

    def status(self, instance_id: str, operation: str, level: int | None = None) -> Verification:
        """Return the status of the checks of `operation`, whose id contains the level.

        The verdict is `pending` while the checks run, and `unknown` if none was started, if the deep check did not run
        to completion, or if the instance is gone or shutting down.
        """
        request = self._requests.find(operation)
        if request is None:
            return Verification(Verdict.UNKNOWN, ("no health check was started",))
        level, node = int(operation.removeprefix(OPERATION).split()[0]), self._cluster.find_node(instance_id)
        if node is None:
            return Verification(Verdict.UNKNOWN, ("HyperPod replaced or removed the instance during the check",))
        findings = self._findings(node, instance_id, request, level)
        report = json.dumps({"node": node, "findings": findings}, default=str, sort_keys=True).encode()
        if findings:
            return Verification(Verdict.FAILED, findings, report, level=level)
        if level < DEEP:
            verdict = Verdict.PASSED if status_of(node) == RUNNING else Verdict.PENDING
            return Verification(verdict, (), report, level=BASIC)
        return self._deep_check(node, request, operation, report, level)

    def processes(self, instance_id: str, token: str) -> Verification:  # noqa: ARG002 - the port's signature
        """Return UNKNOWN, because HyperPod lists no processes."""
        return Verification(Verdict.UNKNOWN, (f"HyperPod does not list the processes on {instance_id}",))

    def _start_deep_check(self, instance_id: str, group: str, operation: str, level: int) -> None:
        checks = (STRESS, CONNECTIVITY) if level >= CONNECTED else (STRESS,)
        try:
            self._cluster.start_health_check(instance_id, group, checks)
        except ClientError as error:
            if not is_outage(error):  # only an explicit refusal proves that no check started
                self._requests.withdraw(operation)
            failure, text = translate(error, f"checking {instance_id}"), error_text(error).lower()
            raise (Transient(str(failure)) if any(word in text for word in BUSY) else failure) from error
        except AWS_ERRORS as error:
            # The check may have started: the record stays, and the status of the node decides.
            raise translate(error, f"checking {instance_id}") from error
        self._requests.advance(operation, Progress.ACCEPTED)

    def _deep_check(
        self, node: Mapping[str, Any], request: Request, operation: str, report: bytes, level: int
    ) -> Verification:
        status, label = status_of(node), _label(node, CHECK_LABEL)
        if status == CHECKING:
            self._requests.advance(operation, Progress.OBSERVED)
            return Verification(Verdict.PENDING)
        if status != RUNNING:
            seen = request.progress in LEFT_CHECK
            self._requests.advance(operation, Progress.INTERRUPTED if seen else Progress.RECORDED)
            return Verification(Verdict.PENDING)
        if request.progress is Progress.OBSERVED and label != "InProgress":
            return Verification(Verdict.PASSED, (), report, level=level)
        if self._requests.clock.now() < request.recorded_at + START_LIMIT or label == "InProgress":
            return Verification(Verdict.PENDING)
        return Verification(Verdict.UNKNOWN, ("the deep health check did not run to completion",), report)

    def _findings(self, node: Mapping[str, Any], instance_id: str, request: Request, level: int) -> tuple[str, ...]:
        """Return the reasons why the node fails, from its status, labels and events; empty if there are none.

        Events count only if the node runs now, and only since the request of the check. From level 2, the label with
        the result of the deep health check counts only after the requested check has ended, because it may be the
        result of an earlier check.
        """
        found = [f"HyperPod reports {FAILURE}: {message_of(node)}"] if status_of(node) == FAILURE else []
        is_of_this_check = level < DEEP or (request.progress in LEFT_CHECK and status_of(node) != CHECKING)
        if is_of_this_check and _label(node, CHECK_LABEL) == "Failed":
            found.append(f"{CHECK_LABEL} is Failed")
        if _label(node, HEALTH_LABEL).startswith("UnschedulablePending"):
            found.append(f"{HEALTH_LABEL} is {_label(node, HEALTH_LABEL)}")
        events = self._cluster.events(instance_id, request.recorded_at) if status_of(node) == RUNNING else ()
        found += [str(event.get("Description", "")) for event in events if event.get("EventLevel") in WARNINGS]
        return tuple(found)


def _label(node: Mapping[str, Any], name: str) -> str:
    return str(((node.get("KubernetesConfig") or {}).get("CurrentLabels") or {}).get(name, ""))
