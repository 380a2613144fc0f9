"""Where EC2 instances are in its network, as DescribeInstanceTopology tells it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from botocore.exceptions import ClientError

from faultbridge.adapters.aws_errors import code_of, translated
from faultbridge.adapters.clients import Clients
from faultbridge.domain.failure_domains import DomainKind

AT_ONCE = 100
# Said where a region or a type has no topology; such machines share what else is known of them.
UNSUPPORTED = frozenset({"UnsupportedOperation", "InvalidParameterValue", "InvalidInstanceID.NotFound"})


def domains_of(clients: Clients, instances: Collection[str]) -> dict[str, dict[str, str]]:
    """Return what each instance shares with others, by kind; a hundred instances a call.

    An instance of a type that the topology does not cover is left out.
    """
    wanted = sorted(instances)
    found: dict[str, dict[str, str]] = {}
    for at in range(0, len(wanted), AT_ONCE):
        for one in _described(clients, wanted[at : at + AT_ONCE]):
            found[str(one["InstanceId"])] = _domains(one)
    return found


def _described(clients: Clients, wanted: list[str]) -> list[Any]:
    with translated(f"reading the topology of {len(wanted)} instances"):
        try:
            return list(clients.ec2.describe_instance_topology(InstanceIds=wanted)["Instances"])
        except ClientError as error:
            if code_of(error) in UNSUPPORTED:
                return []
            raise


def _domains(one: Any) -> dict[str, str]:  # noqa: ANN401 - the service's own answer
    nodes = one.get("NetworkNodes") or []
    told = {
        # The nodes are listed from the top of the tree; the last one is the switch that the instance hangs on.
        DomainKind.NETWORK_NODE: nodes[-1] if nodes else None,
        DomainKind.ZONE: one.get("AvailabilityZone"),
        DomainKind.CAPACITY_BLOCK: one.get("CapacityBlockId"),
        DomainKind.PLACEMENT_GROUP: one.get("GroupName"),
    }
    return {kind.value: str(value) for kind, value in told.items() if value}
