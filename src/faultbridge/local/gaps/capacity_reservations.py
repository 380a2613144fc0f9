"""Patch that adds the list of EC2 capacity reservations to moto.

`capacity_reservations`
AWS: `DescribeCapacityReservations` lists reservations by their ids or by filters, with their free instances.
moto: the call is not implemented and returns HTTP 500.
Here: the call lists the fake reservations in `RESERVATIONS`, which is empty by default. Launches do not use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultbridge.local.gaps import patching
from faultbridge.local.gaps.patching import Gap

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


def _lacks_reservations() -> bool:
    return not hasattr(patching.resolve(RESPONSE), "describe_capacity_reservations")


def _describe_capacity_reservations(response: Any) -> Any:  # noqa: ANN401 - moto's types
    wanted = set(response._get_param("CapacityReservationIds", []))
    filters: Mapping[str, list[str]] = response._filters_from_querystring()
    found = [one for one in RESERVATIONS if not wanted or one["CapacityReservationId"] in wanted]
    listed = [one for one in found if all(one.get(FIELDS[name]) in values for name, values in filters.items())]
    return patching.resolve(RESULT)({"CapacityReservations": listed})


GAPS = (
    Gap(
        "capacity_reservations",
        (RESPONSE, RESULT),
        _lacks_reservations,
        lambda: patching.add_method(RESPONSE, "describe_capacity_reservations", _describe_capacity_reservations),
    ),
)
