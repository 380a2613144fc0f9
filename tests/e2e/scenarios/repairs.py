"""Repairs with failures of steps, providers and successors, and a fault that clears without repair."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from faultbridge import local
from faultbridge.local.compute_control import INSTANCE_TYPE
from faultbridge.local.servers.fault_injection import healthy_diagnostics
from faultbridge.model.enums import NodeStatus
from faultbridge.model.policy import Limits
from faultbridge.serve.ingest.send import RawInput
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.proxy import CallFault
from tests.e2e.harness.records import DOUBLE_BIT, GPU_LOST
from tests.waiting import eventually

START, TERMINATE = "states:StartExecution", "autoscaling:TerminateInstanceInAutoScalingGroup"
READ_REPORT = "s3:GetObject"
ADMITTED = '\\"to\\":\\"in_progress\\"'
"""In a transaction that admits a case."""


@dataclass(frozen=True)
class Repairs:
    """Four repaired nodes: bad successors, a killed step, a failing provider, and a fix by GPU reset."""

    cluster: str
    bad_successor: str = "node-000"
    killed_step: str = "node-001"
    provider_fails: str = "node-002"
    fixed_by_reset: str = "node-003"


@pytest.fixture(scope="session")
def repairs(installation: Installation) -> Repairs:
    """Run four repairs with different failures; the first runs alone, so that it gets the bad successors."""
    scene = Repairs(installation.register_cluster(4, fleet=4))
    for _ in range(Limits().attempts):
        local.make_next_instance_bad(installation.stack.info.compute_endpoint)
    send_fault(installation, scene.cluster, scene.bad_successor)
    eventually(lambda: installation.cases(scene.cluster), 60)
    installation.wait_until_idle(scene.cluster)
    send_fault(installation, scene.cluster, scene.fixed_by_reset, DOUBLE_BIT)
    installation.wait_until_idle(scene.cluster)
    _kill_steps(installation, scene)
    _fail_provider(installation, scene)
    return scene


def send_fault(installation: Installation, cluster: str, node: str, line: str = GPU_LOST) -> None:
    """Send one kernel log line of a node."""
    installation.send([RawInput("kernel-log", cluster, line.encode(), node=node)])


def _kill_steps(installation: Installation, scene: Repairs) -> None:
    """Kill the step's worker after the termination, and again during the successor's verification."""

    def kill() -> None:
        installation.kill("replacement")

    local.set_command_output(installation.stack.info.compute_endpoint, "next", exit_code=0, stdout=_long_report())
    faults = (
        CallFault("replacement", TERMINATE, action=kill),
        CallFault("replacement", "dynamodb:TransactWriteItems", action=kill, containing='\\"outcome\\":\\"begun\\"'),
    )
    with installation.required_proxy.inject(*faults):
        send_fault(installation, scene.cluster, scene.killed_step)
        eventually(lambda: all(fault.occurred for fault in faults), 60, lambda: faults)
        installation.wait_until_idle(scene.cluster)


def _long_report() -> str:
    """Return a report that is longer than the answer of SSM, so that it is read from the bucket."""
    return healthy_diagnostics() + " " * 30_000


def _fail_provider(installation: Installation, scene: Repairs) -> None:
    """Fail the admission by react and the provider's call, remove capacity, let a verification end without a report.

    Only the sweep continues what these failures leave: it admits the case, releases the instance and reads the report.
    """
    compute, proxy = installation.stack.info.compute_endpoint, installation.required_proxy
    not_admitted = CallFault(
        "react", "dynamodb:TransactWriteItems", error_code="InternalFailure", containing=ADMITTED, times=10_000
    )
    not_released = CallFault("replacement", TERMINATE, error_code="InternalFailure")
    local.set_capacity(compute, INSTANCE_TYPE, available=False)
    local.set_command_output(compute, "next", exit_code=1, stdout="dcgmi: command not found")
    before = {call: proxy.count("sweep", call) for call in (START, TERMINATE, READ_REPORT)}
    with proxy.inject(not_admitted, not_released):
        send_fault(installation, scene.cluster, scene.provider_fails)
        eventually(lambda: installation.states(scene.cluster)[scene.provider_fails].live_case, 60)
        installation.request_sweep()
        eventually(lambda: _is_at_step(installation, scene, "await_successor"), 60)
        _wait_for_sweep_call(installation, "states:DescribeExecution")
        local.set_capacity(compute, INSTANCE_TYPE, available=True)
        eventually(lambda: _is_at_step(installation, scene, "verify"), 60)
        _wait_for_sweep_call(installation, "ssm:SendCommand")
        instance = installation.instance_of(scene.cluster, scene.provider_fails)
        local.set_command_output(compute, instance, exit_code=0, stdout=_long_report())
        installation.request_sweep()
        installation.wait_until_idle(scene.cluster)
    assert all(proxy.count("sweep", call) > made for call, made in before.items())


def _wait_for_sweep_call(installation: Installation, call: str) -> None:
    """Wait until a sweep makes this call once more, the requested one or a scheduled one."""
    proxy = installation.required_proxy
    before = proxy.count("sweep", call)
    installation.request_sweep()
    eventually(lambda: proxy.count("sweep", call) > before, 60)


def _is_at_step(installation: Installation, scene: Repairs, step: str) -> bool:
    case = installation.states(scene.cluster)[scene.provider_fails].live_case
    return case is not None and case.attempt is not None and case.attempt.step == step


@dataclass(frozen=True)
class RecoveredLink:
    """An observed cluster in which a network link went down and came up again."""

    cluster: str
    node: str = "node-000"


@pytest.fixture(scope="session")
def recovered_link(installation: Installation) -> RecoveredLink:
    """Send two link states of one node: down, then up."""
    scene = RecoveredLink(installation.register_cluster(2, act=False))
    for up, status in ((False, NodeStatus.DEGRADED), (True, NodeStatus.HEALTHY)):
        body = json.dumps({"configured": ["ens6"], "interfaces": [_interface("ens6", up=up)]}).encode()
        installation.send([RawInput("link-state", scene.cluster, body, node=scene.node)])
        _wait_for_status(installation, scene, status)
    installation.wait_until_idle(scene.cluster)
    return scene


def _wait_for_status(installation: Installation, scene: RecoveredLink, status: NodeStatus) -> None:
    eventually(lambda: installation.states(scene.cluster)[scene.node].status is status, 60)


def _interface(name: str, *, up: bool) -> dict[str, Any]:
    flags = ["BROADCAST", "UP", *(["LOWER_UP"] if up else ["NO-CARRIER"])]
    return {"ifname": name, "flags": flags, "operstate": "UP" if up else "DOWN", "link_type": "ether"}
