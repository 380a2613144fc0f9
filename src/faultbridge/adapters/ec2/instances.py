"""Shared reads of EC2 instances: presence, hardware, live instances and failure domains."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeVar

from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError, HTTPClientError
from botocore.parsers import ResponseParserError
from msgspec import Struct

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import (
    AWS_ERRORS,
    code_of,
    is_outage,
    is_throttle,
    message_of,
    translate,
    translated,
)
from faultbridge.model.enums import DomainKind, ProviderFailure
from faultbridge.model.errors import FaultbridgeError, Misconfigured, Transient
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NETWORK_LAYERS
from faultbridge.record.ports.compute import CallResult, LaunchedInstance
from faultbridge.record.ports.presence import CheckResult, InstanceChecks, Presence

GONE_STATES = frozenset({"shutting-down", "terminated"})
ALIVE_STATES = ["pending", "running", "stopping", "stopped"]
CASE_TAG = "faultbridge:case"
UNKNOWN_INSTANCE = frozenset({"InvalidInstanceID.NotFound", "InvalidInstanceIDNotFound"})
INVALID_INSTANCE = "InvalidInstanceID"  # the codes of EC2 that begin so: NotFound, Malformed
EFA_INTERFACES = frozenset({"efa", "efa-only"})
TOPOLOGIES_AT_ONCE = 100

# Errors for a region or an instance type without topology data.
NO_TOPOLOGY = frozenset({"UnsupportedOperation", "InvalidParameterValue"})


class InstanceHardware(Struct, frozen=True):
    """Properties of an instance, None where EC2 does not report one."""

    instance_type: str | None = None
    efa_interfaces: int | None = None
    address: str | None = None
    zone: str | None = None
    vpc: str | None = None


def presence_of(clients: Clients, instance_id: str) -> Presence:
    """Return whether the instance exists; UNKNOWN means that the call to EC2 failed temporarily.

    GONE includes a terminating instance, and ALIVE includes a stopped instance.
    """
    try:
        with translated(f"reading {instance_id}"):
            try:
                answer = clients.ec2.describe_instances(InstanceIds=[instance_id])
            except ClientError as error:
                if code_of(error) in UNKNOWN_INSTANCE:
                    return Presence.UNLISTED
                raise
    except Transient:
        return Presence.UNKNOWN
    states = [one["State"]["Name"] for reservation in answer["Reservations"] for one in reservation["Instances"]]
    if not states:
        return Presence.UNLISTED
    return Presence.GONE if all(state in GONE_STATES for state in states) else Presence.ALIVE


def hardware_of(clients: Clients, instance_id: str) -> InstanceHardware:
    """Return the hardware of an instance; every property is None if EC2 does not list the instance."""
    with translated(f"reading the type of {instance_id}"):
        try:
            answer = clients.ec2.describe_instances(InstanceIds=[instance_id])
        except ClientError as error:
            if code_of(error).startswith(INVALID_INSTANCE):
                return InstanceHardware()
            raise
    found = next((one for group in answer["Reservations"] for one in group.get("Instances", [])), None)
    return hardware_in(found) if found is not None else InstanceHardware()


def hardware_in(found: Any) -> InstanceHardware:  # noqa: ANN401 - the stubs' type exists only for type checkers
    """Return the hardware of an instance from EC2's description of it."""
    interfaces = found.get("NetworkInterfaces")
    efa = None if interfaces is None else sum(one.get("InterfaceType") in EFA_INTERFACES for one in interfaces)
    zone = found.get("Placement", {}).get("AvailabilityZone")
    return InstanceHardware(found.get("InstanceType"), efa, found.get("PrivateIpAddress"), zone, found.get("VpcId"))


def launched_instance_of(instance: Any) -> LaunchedInstance:  # noqa: ANN401 - the stubs' type exists only for type checkers
    """Convert EC2's description of an instance to a LaunchedInstance."""
    return LaunchedInstance(
        instance_id=instance["InstanceId"],
        launched_at=instance["LaunchTime"].astimezone(UTC),
        instance_type=instance.get("InstanceType"),
        private_dns=instance.get("PrivateDnsName"),
        running=instance["State"]["Name"] == "running",
        case=next((one["Value"] for one in instance.get("Tags", ()) if one["Key"] == CASE_TAG), None),
    )


def instances_where(clients: Clients, values: Mapping[str, Iterable[str]]) -> Iterator[Any]:
    """Yield the instances that match every filter, which, unlike a list of ids, ignores ids that do not exist."""
    filters: list[Any] = [{"Name": name, "Values": list(wanted)} for name, wanted in values.items()]
    for page in clients.ec2.get_paginator("describe_instances").paginate(Filters=filters):
        for reservation in page["Reservations"]:
            yield from reservation["Instances"]


def live_instances(clients: Clients, values: Mapping[str, str]) -> Iterator[Any]:
    """Yield the instances that match every filter and are neither terminating nor terminated.

    An instance that was launched a moment ago may be missing.
    """
    wanted = {name: [value] for name, value in values.items()}
    return instances_where(clients, {"instance-state-name": ALIVE_STATES, **wanted})


def listed_instance(clients: Clients, instance_id: str) -> Mapping[str, Any]:
    """Return EC2's description of an instance; empty without one, because a filter does not fail then."""
    answer = clients.ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": [instance_id]}])
    return next((dict(one) for reservation in answer["Reservations"] for one in reservation["Instances"]), {})


def launch_order(candidate: LaunchedInstance) -> tuple[Any, ...]:
    """Return the sort key that orders launched instances by launch time, oldest first, and then by id."""
    return candidate.launched_at, candidate.instance_id


def launched_since(launched: Iterable[LaunchedInstance], since: datetime) -> tuple[LaunchedInstance, ...]:
    """Return the instances that were launched in the whole second of `since` or later, oldest first."""
    earliest = since.replace(microsecond=0)  # EC2 rounds launch times to seconds
    return tuple(sorted((one for one in launched if one.launched_at >= earliest), key=launch_order))


def domains_by_instance(clients: Clients, described: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the failure domains in EC2's instance topology, by instance id and kind of domain.

    EC2 rejects a call with a type without topology, so one call reads up to 100 instances of one type. If EC2 refuses
    it, each of them gets an empty dictionary; after a temporary error, or without one of them, all are left out for
    now.
    """
    by_type: dict[str, list[str]] = {}
    for one in described:
        by_type.setdefault(str(one.get("InstanceType")), []).append(str(one["InstanceId"]))
    found: dict[str, dict[str, str]] = {}
    for ids in by_type.values():
        for at in range(0, len(ids), TOPOLOGIES_AT_ONCE):
            found |= _domains_of(clients, sorted(ids)[at : at + TOPOLOGIES_AT_ONCE])
    return found


def _domains_of(clients: Clients, wanted: list[str]) -> dict[str, dict[str, str]]:
    nothing: dict[str, dict[str, str]] = {one: {} for one in wanted}
    try:
        with translated(f"reading the topology of {len(wanted)} instances"):
            try:
                answer = clients.ec2.describe_instance_topology(InstanceIds=wanted)
            except ClientError as error:
                if code_of(error) in NO_TOPOLOGY:
                    return nothing
                if code_of(error) in UNKNOWN_INSTANCE:
                    raise Transient("an instance ended meanwhile") from error
                raise
    except Misconfigured as error:
        log_cause("topology_not_read", reason=str(error), level=logging.WARNING)
        return nothing
    except Transient as error:
        log_cause("topology_not_read_yet", reason=str(error), instances=len(wanted))
        return {}
    return nothing | {str(one["InstanceId"]): _domains(one) for one in answer["Instances"]}


def _domains(one: Any) -> dict[str, str]:  # noqa: ANN401 - the response of the service
    # Network nodes are listed from the top of the tree. The last one is the switch of the instance.
    switches = reversed(one.get("NetworkNodes") or [])
    domains = {
        **dict(zip(NETWORK_LAYERS, switches, strict=False)),
        DomainKind.ZONE: one.get("AvailabilityZone"),
        DomainKind.CAPACITY_BLOCK: one.get("CapacityBlockId"),
        DomainKind.PLACEMENT_GROUP: one.get("GroupName"),
    }
    return {kind.value: str(value) for kind, value in domains.items() if value}


FAILURES: Mapping[str, ProviderFailure] = {
    "AccessDenied": ProviderFailure.PERMISSION_DENIED,
    "AccessDeniedException": ProviderFailure.PERMISSION_DENIED,
    "AuthFailure": ProviderFailure.PERMISSION_DENIED,
    "OperationNotPermitted": ProviderFailure.PERMISSION_DENIED,
    "UnauthorizedOperation": ProviderFailure.PERMISSION_DENIED,
    "InsufficientCapacity": ProviderFailure.CAPACITY,
    "InsufficientFreeAddressesInSubnet": ProviderFailure.CAPACITY,
    "InsufficientHostCapacity": ProviderFailure.CAPACITY,
    "InsufficientInstanceCapacity": ProviderFailure.CAPACITY,
    "InsufficientReservedInstanceCapacity": ProviderFailure.CAPACITY,
    "InstanceLimitExceeded": ProviderFailure.CAPACITY,
    "MaxSpotInstanceCountExceeded": ProviderFailure.CAPACITY,
    "VcpuLimitExceeded": ProviderFailure.CAPACITY,
    "ReservationCapacityExceeded": ProviderFailure.CAPACITY,
    "UnfulfillableCapacity": ProviderFailure.CAPACITY,
    "IdempotentParameterMismatch": ProviderFailure.AMBIGUOUS,
    "InvalidInstanceID.NotFound": ProviderFailure.NOT_FOUND,
    "InvalidLaunchTemplateId.NotFound": ProviderFailure.NOT_FOUND,
    "InvalidLaunchTemplateName.NotFoundException": ProviderFailure.NOT_FOUND,
    "IncorrectInstanceState": ProviderFailure.CONFLICT,
    "ResourceContention": ProviderFailure.CONFLICT,
    "ScalingActivityInProgress": ProviderFailure.CONFLICT,
}

# EC2 Auto Scaling uses one code, ValidationError, for many failures; its message distinguishes them. The first fragment
# that occurs in the message decides.
VALIDATION_MESSAGES: Sequence[tuple[str, ProviderFailure]] = (
    ("not found", ProviderFailure.NOT_FOUND),
    ("no managed instance", ProviderFailure.NOT_FOUND),
    ("not part of auto scaling group", ProviderFailure.NOT_FOUND),
    ("protect", ProviderFailure.PERMISSION_DENIED),
    ("not authorized", ProviderFailure.PERMISSION_DENIED),
    ("capacity", ProviderFailure.CAPACITY),
    ("lifecyclestate", ProviderFailure.CONFLICT),
    ("is not in", ProviderFailure.CONFLICT),
)


def failure_of(error: BaseException | None) -> ProviderFailure:
    """Return the failure code for the error of an AWS call that changes something.

    TIMEOUT means that no connection was established. AMBIGUOUS means that the change may have been made. An unknown
    error, or None, becomes PROVIDER_ERROR.
    """
    if isinstance(error, ClientError):
        return _client_failure(error)
    if isinstance(error, (ConnectTimeoutError, EndpointConnectionError)):
        return ProviderFailure.TIMEOUT
    if isinstance(error, (HTTPClientError, ResponseParserError)):
        return ProviderFailure.AMBIGUOUS
    return ProviderFailure.PROVIDER_ERROR


def result_of(
    action: str, call: Callable[[], object], failures: Mapping[str, ProviderFailure] = MappingProxyType({})
) -> CallResult:
    """Make one call that changes something; an error becomes a failed result, first by its code in `failures`."""
    try:
        call()
    except AWS_ERRORS as error:
        known = failures.get(code_of(error)) if isinstance(error, ClientError) else None
        return CallResult(known or failure_of(error), str(translate(error, action)))
    return CallResult()


def _client_failure(error: ClientError) -> ProviderFailure:
    if is_throttle(error):
        return ProviderFailure.THROTTLED
    code, message = code_of(error), message_of(error).lower()
    if code in FAILURES:
        return FAILURES[code]
    if is_outage(error):
        return ProviderFailure.AMBIGUOUS
    if code == "ValidationError":
        found = (failure for fragment, failure in VALIDATION_MESSAGES if fragment in message)
        return next(found, ProviderFailure.PROVIDER_ERROR)
    return ProviderFailure.PROVIDER_ERROR


# EC2 runs the status checks each minute. SSM reports a lost connection about five minutes after the last ping.

T = TypeVar("T")

_STATUS: Mapping[str, CheckResult] = {"ok": CheckResult.PASSED, "impaired": CheckResult.FAILED}
_PING: Mapping[str, CheckResult] = {"Online": CheckResult.PASSED, "ConnectionLost": CheckResult.FAILED}


def checks_of(clients: Clients, instance_id: str) -> InstanceChecks:
    """Return the status checks and the SSM connection; UNKNOWN, and a log line, where a call fails."""
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
    """Return the system and the instance status check; EC2 lists them for running instances only."""
    with translated(f"reading the status checks of {instance_id}"):
        answer = clients.ec2.describe_instance_status(InstanceIds=[instance_id])
    for found in answer["InstanceStatuses"]:
        parts = (found.get("SystemStatus", {}), found.get("InstanceStatus", {}))
        system, instance = (_STATUS.get(str(part.get("Status")), CheckResult.UNKNOWN) for part in parts)
        return system, instance
    return CheckResult.UNKNOWN, CheckResult.UNKNOWN


def impaired_instances(clients: Clients) -> frozenset[str]:
    """Return the running instances of the account whose system or instance status check fails; two calls or more."""
    found: set[str] = set()
    with translated("reading the impaired instances"):
        for check in ("system-status", "instance-status"):
            filters: Any = [{"Name": f"{check}.status", "Values": ["impaired"]}]
            pages = clients.ec2.get_paginator("describe_instance_status").paginate(Filters=filters)
            found.update(one["InstanceId"] for page in pages for one in page["InstanceStatuses"])
    return frozenset(found)


def _agent_ping(clients: Clients, instance_id: str) -> CheckResult:
    with translated(f"reading the SSM agent of {instance_id}"):
        answer = clients.ssm.describe_instance_information(Filters=[{"Key": "InstanceIds", "Values": [instance_id]}])
    for found in answer["InstanceInformationList"]:
        return _PING.get(found.get("PingStatus", ""), CheckResult.UNKNOWN)
    return CheckResult.UNKNOWN
