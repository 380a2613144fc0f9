"""The failure domains of EC2 instances, from their instance topology."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import code_of, translated
from faultbridge.domain.nodes import NETWORK_LAYERS, DomainKind
from faultbridge.errors import Misconfigured, Transient
from faultbridge.log import log_cause

INSTANCES_AT_ONCE = 100

# Errors for a region or an instance type without topology data.
NO_TOPOLOGY = frozenset({"UnsupportedOperation", "InvalidParameterValue"})
UNKNOWN_INSTANCE = "InvalidInstanceID.NotFound"


def domains_by_instance(clients: Clients, described: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the failure domains of described instances by kind; one call per 100 instances of a type.

    EC2 refuses a whole call because of one instance, so a call has one type. Instances of a type without topology, and
    all without the permission, have no domains; instances that can be read later are left out.
    """
    by_type: dict[str, list[str]] = {}
    for one in described:
        by_type.setdefault(str(one.get("InstanceType")), []).append(str(one["InstanceId"]))
    found: dict[str, dict[str, str]] = {}
    for ids in by_type.values():
        for at in range(0, len(ids), INSTANCES_AT_ONCE):
            found |= _domains_of(clients, sorted(ids)[at : at + INSTANCES_AT_ONCE])
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
                if code_of(error) == UNKNOWN_INSTANCE:
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
