"""Patches that add lists that moto's EC2 lacks: capacity reservations, topology of instances.

`capacity_reservations`
AWS: `DescribeCapacityReservations` lists reservations by their ids or by filters, with their free instances.
moto: the call is not implemented and returns HTTP 500.
Here: the call lists the fake reservations in `RESERVATIONS`, which is empty by default. Launches do not use them.

`instance_topology`
AWS: `DescribeInstanceTopology` lists the network switches above an instance of a supported type.
moto: the call is not implemented and returns HTTP 500.
Here: the running instances of all zones are numbered in the order of their ids. In each group of four, the instances of
the same zone are under one fake switch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultbridge.local.gaps.patching import missing_method, resolve

RESPONSE = "moto.ec2.responses:EC2Response"
RESULT = "moto.core.responses:ActionResult"
FIELDS = {
    "state": "State",
    "instance-match-criteria": "InstanceMatchCriteria",
    "instance-type": "InstanceType",
    "availability-zone": "AvailabilityZone",
    "tenancy": "Tenancy",
    "instance-platform": "InstancePlatform",
}
"""The field of a reservation that each supported filter compares."""

RESERVATIONS: list[dict[str, Any]] = []


def _describe_capacity_reservations(response: Any) -> Any:  # noqa: ANN401 - moto's types
    wanted = set(response._get_param("CapacityReservationIds", []))
    filters: Mapping[str, list[str]] = response._filters_from_querystring()
    found = [one for one in RESERVATIONS if not wanted or one["CapacityReservationId"] in wanted]
    listed = [one for one in found if all(one.get(FIELDS[name]) in values for name, values in filters.items())]
    return resolve(RESULT)({"CapacityReservations": listed})


INSTANCES_PER_SWITCH = 4


def _describe_instance_topology(response: Any) -> Any:  # noqa: ANN401 - moto's types
    running = sorted(
        (one for one in response.ec2_backend.all_instances() if one.state == "running"), key=lambda one: str(one.id)
    )
    wanted = set(response._get_param("InstanceIds", []))
    topologies = [_topology(instance, number // INSTANCES_PER_SWITCH) for number, instance in enumerate(running)]
    found = [topology for topology in topologies if not wanted or topology["InstanceId"] in wanted]
    return resolve(RESULT)({"Instances": found})


def _topology(instance: Any, switch: int) -> dict[str, Any]:  # noqa: ANN401 - moto's types
    zone = instance.placement.zone
    return {
        "InstanceId": instance.id,
        "InstanceType": instance.instance_type,
        "AvailabilityZone": zone,
        "ZoneId": f"{zone}-id",
        "NetworkNodes": [f"nn-{zone}-top", f"nn-{zone}-middle", f"nn-{zone}-{switch:04d}"],
    }


GAPS = (
    missing_method("instance_topology", RESPONSE, _describe_instance_topology, RESULT),
    missing_method("capacity_reservations", RESPONSE, _describe_capacity_reservations, RESULT),
)
