"""Verify a node of a SageMaker HyperPod cluster by HyperPod's own health checks.

Level 1, the default, reads the basic health checks that HyperPod runs on each node. From level 2, the verifier starts
the deep health check `InstanceStress` (GPU and NVLink count, DCGM diagnostics level 4, EFA); from level 4, also
`InstanceConnectivity` (NCCL).

When a deep check fails, HyperPod reboots or replaces the node, so a node that runs again has not necessarily passed:

- A node passes a deep check only if the verifier finds it in the check, and then in the status `Running`. The node does
  not pass if the verifier finds another status after the check, or a warning.
- A label of the node shows the result of its last deep check, until the next deep check sets the label. The label
  therefore counts only after the verifier has found the node in the requested check and later out of the check.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from faultbridge.adapters.aws.errors import is_outage, translate
from faultbridge.adapters.aws.errors import message_of as error_text
from faultbridge.adapters.compute.hyperpod_cluster import (
    CHECKING,
    FAILURE,
    RUNNING,
    HyperPodCluster,
    message_of,
    status_of,
)
from faultbridge.adapters.compute.request_log import Progress, Request, RequestLog
from faultbridge.errors import Transient
from faultbridge.ports import Verdict, Verification

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
        """Start the health checks, unless they were already started with this token; returns the operation id.

        Without `level`, the level is 1. Raises Transient while the node does not run. From level 2, also raises
        Transient while the cluster runs another check.
        """
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
        """Return the status of the health checks.

        The verdict is `pending` while the checks run. The verdict is `unknown` if no check was started, if the deep
        check did not run to completion, or if the instance is gone or shutting down. `operation` is the id that `start`
        returned. The id contains the level, so the parameter `level` is ignored.
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

    def _start_deep_check(self, instance_id: str, group: str, operation: str, level: int) -> None:
        checks = (STRESS, CONNECTIVITY) if level >= CONNECTED else (STRESS,)
        try:
            self._cluster.start_health_check(instance_id, group, checks)
        except ClientError as error:
            if not is_outage(error):  # only an explicit refusal proves that no check started
                self._requests.withdraw(operation)
            failure, text = translate(error, f"checking {instance_id}"), error_text(error).lower()
            raise (Transient(str(failure)) if any(word in text for word in BUSY) else failure) from error
        except (BotoCoreError, ResponseParserError) as error:
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
