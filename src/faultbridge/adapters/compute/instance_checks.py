"""Read the status checks of an EC2 instance, and whether its SSM agent is connected.

EC2 runs the status checks each minute. SSM reports a lost connection about five minutes after the last ping.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.errors import FaultbridgeError
from faultbridge.log import log_cause
from faultbridge.ports import CheckResult, InstanceChecks

T = TypeVar("T")

_STATUS: Mapping[str, CheckResult] = {"ok": CheckResult.PASSED, "impaired": CheckResult.FAILED}
_PING: Mapping[str, CheckResult] = {"Online": CheckResult.PASSED, "ConnectionLost": CheckResult.FAILED}


def checks_of(clients: Clients, instance_id: str) -> InstanceChecks:
    """Return the status checks of an instance and the connection of its SSM agent.

    If a call to EC2 or SSM fails, the results of this call are UNKNOWN, and the error is logged.
    """
    system, instance = _attempt(_status_checks, clients, instance_id) or (CheckResult.UNKNOWN, CheckResult.UNKNOWN)
    agent = _attempt(_agent_ping, clients, instance_id) or CheckResult.UNKNOWN
    return InstanceChecks(system, instance, agent)


def _attempt(read: Callable[[Clients, str], T], clients: Clients, instance_id: str) -> T | None:
    try:
        return read(clients, instance_id)
    except FaultbridgeError as error:
        log_cause("instance_not_checked", reason=str(error), instance_id=instance_id)
        return None


def _status_checks(clients: Clients, instance_id: str) -> tuple[CheckResult, CheckResult]:
    """Return the results of the system and the instance status check.

    Both are unknown for an instance that does not run, because EC2 lists only running instances.
    """
    with translated(f"reading the status checks of {instance_id}"):
        answer = clients.ec2.describe_instance_status(InstanceIds=[instance_id])
    for found in answer["InstanceStatuses"]:
        parts = (found.get("SystemStatus", {}), found.get("InstanceStatus", {}))
        system, instance = (_STATUS.get(str(part.get("Status")), CheckResult.UNKNOWN) for part in parts)
        return system, instance
    return CheckResult.UNKNOWN, CheckResult.UNKNOWN


def _agent_ping(clients: Clients, instance_id: str) -> CheckResult:
    with translated(f"reading the SSM agent of {instance_id}"):
        answer = clients.ssm.describe_instance_information(Filters=[{"Key": "InstanceIds", "Values": [instance_id]}])
    for found in answer["InstanceInformationList"]:
        return _PING.get(found.get("PingStatus", ""), CheckResult.UNKNOWN)
    return CheckResult.UNKNOWN
