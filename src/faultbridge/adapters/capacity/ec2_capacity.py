"""Find EC2 capacity for the successor of an instance, in reservations and capacity blocks.

The sources are the reservation or capacity block in which the instance runs, and open reservations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.adapters.compute.failures import failure_of
from faultbridge.domain.cluster.capacity_sources import CapacitySource
from faultbridge.errors import Misconfigured, Transient
from faultbridge.ports import Capacity, CapacityEvidence, ProviderFailure

ACTIVE, BLOCK = "active", "capacity-block"
ABSENT = Capacity(CapacityEvidence.ABSENT)
MAX_NAMED = 10
"""Maximum number of reservations that a reason names, those with the most free instances first."""


class Ec2Capacity:
    """Reads from EC2 whether a source of capacity has room for the successor of an instance.

    `frees_slot` is True if the old instance is released before its successor starts. This release makes room for one
    instance in the reservation of the old instance, even if the reservation is full.
    """

    def __init__(self, clients: Clients, *, frees_slot: bool) -> None:
        self._clients, self._frees_slot = clients, frees_slot

    def ask(self, source: CapacitySource, instance_id: str) -> Capacity:
        """Return the capacity that a reservation or capacity block has for an instance's successor.

        The evidence of the result is `ABSENT` if `source` is neither a reservation nor a capacity block of EC2, and
        `NONE` if EC2 does not list the instance.
        """
        questions: Mapping[CapacitySource, Callable[[Mapping[str, Any]], Capacity]] = {
            CapacitySource.OWN_RESERVATION: lambda one: self._own(one, is_block=False),
            CapacitySource.CAPACITY_BLOCK: lambda one: self._own(one, is_block=True),
            CapacitySource.OPEN_RESERVATION: self._open,
        }
        question = questions.get(source)
        if question is None:
            return ABSENT
        instance = self._instance(instance_id)
        return question(instance) if instance else Capacity(reason="the instance was not found")

    def _instance(self, instance_id: str) -> Mapping[str, Any]:
        with translated(f"reading the capacity reservation of {instance_id}"):
            # A filter, unlike an id, does not fail if the instance does not exist.
            answer = self._clients.ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": [instance_id]}])
        instances = (instance for part in answer["Reservations"] for instance in part["Instances"])
        return next((dict(instance) for instance in instances), {})

    def _own(self, instance: Mapping[str, Any], *, is_block: bool) -> Capacity:
        """Return the capacity of the reservation or capacity block in which the instance runs.

        If `is_block` is True, only a capacity block counts, else only a reservation that is not a block. The evidence
        of the result is:

        - `ABSENT` if the instance runs in no reservation, or in one that does not count.
        - `OWN_RESERVATION` if EC2 describes a reservation that counts, even if this reservation has no free instance.
        - `OWN_RESERVATION` also if the permission to read the reservation is missing, `is_block` is False, and the old
          instance is released first (`frees_slot`), because this release makes room in the reservation.
        - `NONE` if the reservation does not exist, or if EC2 refuses the call for another reason.
        """
        reservation = instance.get("CapacityReservationId")
        if not reservation:
            return Capacity(CapacityEvidence.ABSENT, reason="the instance runs in no capacity reservation")
        try:
            with translated(f"reading capacity reservation {reservation}"):
                answer = self._clients.ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])
        except Misconfigured as error:
            denied = failure_of(error.__cause__) is ProviderFailure.PERMISSION_DENIED
            known = denied and self._frees_slot and not is_block
            evidence = CapacityEvidence.OWN_RESERVATION if known else CapacityEvidence.NONE
            return Capacity(evidence, reason=f"{reservation}; {error}")
        described: Any = next(iter(answer["CapacityReservations"]), None)
        if described is None:
            return Capacity(reason=f"capacity reservation {reservation} does not exist")
        if (described.get("ReservationType") == BLOCK) is not is_block:
            other = "is no capacity block" if is_block else "is a capacity block"
            return Capacity(CapacityEvidence.ABSENT, reason=f"{reservation} {other}")
        return self._of_own(described, str(reservation))

    def _of_own(self, described: Mapping[str, Any], reservation: str) -> Capacity:
        evidence = CapacityEvidence.OWN_RESERVATION
        if described["State"] != ACTIVE:
            reason = f"capacity reservation {reservation} is {described['State']}"
            return Capacity(evidence, free=False, reason=reason, count=0)
        free, total = described["AvailableInstanceCount"], described["TotalInstanceCount"]
        block = described.get("CapacityBlockId") if described.get("ReservationType") == BLOCK else None
        return Capacity(
            evidence,
            free=self._frees_slot or free > 0,
            reason=f"{reservation}: {free} of {total} instances free{self._status_of_block(block)}",
            count=free,
            # EC2 terminates the instances of a block that ends; those of another reservation continue on demand.
            ends_at=described.get("EndDate") if described.get("ReservationType") == BLOCK else None,
        )

    def _status_of_block(self, block: str | None) -> str:
        """Return a text with EC2's status of a capacity block: its unavailable capacity and its interconnect.

        The text is appended to the reason in the `Capacity`, and changes no other field. If the status cannot be read,
        the text is the error. If `block` is None, the text is empty.
        """
        if not block:
            return ""
        try:
            with translated(f"reading the status of capacity block {block}"):
                answer = self._clients.ec2.describe_capacity_block_status(CapacityBlockIds=[block])
        except (Misconfigured, Transient) as error:
            return f"; {error}"
        status: Any = next(iter(answer.get("CapacityBlockStatuses") or ()), None)
        if status is None:
            return f"; EC2 has no status of capacity block {block}"
        counts = f"{status.get('TotalUnavailableCapacity', 'unknown')} of {status.get('TotalCapacity', 'unknown')}"
        interconnect = status.get("InterconnectStatus", "unknown")
        return f"; capacity block {block}: {counts} unavailable after failed status checks, interconnect {interconnect}"

    def _open(self, instance: Mapping[str, Any]) -> Capacity:
        """Return the free capacity of the open reservations that fit the instance.

        The reservation in which the instance runs is not counted. The evidence is `ABSENT` if no other reservation
        fits, or if the launch settings of the instance exclude open reservations. It is `NONE` if EC2 refuses the call.
        """
        chosen = instance.get("CapacityReservationSpecification") or {}
        if chosen.get("CapacityReservationPreference") == "none" or chosen.get("CapacityReservationTarget"):
            reason = "the instance was launched with no reservation, or with a certain one"
            return Capacity(CapacityEvidence.ABSENT, reason=reason)
        placement = instance.get("Placement") or {}
        kind, zone = str(instance.get("InstanceType")), str(placement.get("AvailabilityZone"))
        wanted = {
            "state": ACTIVE,
            "instance-match-criteria": "open",
            "instance-type": kind,
            "availability-zone": zone,
            "tenancy": str(placement.get("Tenancy") or "default"),
            "instance-platform": str(instance.get("PlatformDetails") or "Linux/UNIX"),
        }
        filters: Any = [{"Name": name, "Values": [value]} for name, value in wanted.items()]
        action = f"reading open capacity reservations of {kind} in {zone}"
        try:
            with translated(action):
                pages = self._clients.ec2.get_paginator("describe_capacity_reservations").paginate(Filters=filters)
                found = [one for page in pages for one in page["CapacityReservations"]]
        except Misconfigured as error:
            return Capacity(reason=str(error))
        own = instance.get("CapacityReservationId")
        others = [one for one in found if one["CapacityReservationId"] != own and _accepts(one, instance)]
        if not others:
            return Capacity(CapacityEvidence.ABSENT, reason=f"no other open reservation of {kind} in {zone}")
        free = {one["CapacityReservationId"]: one["AvailableInstanceCount"] for one in others}
        ordered = sorted(free.items(), key=lambda one: (-one[1], one[0]))
        named = ", ".join(f"{name}: {count} free" for name, count in ordered[:MAX_NAMED])
        named += f" and {len(ordered) - MAX_NAMED} more" if len(ordered) > MAX_NAMED else ""
        count = sum(free.values())
        return Capacity(CapacityEvidence.RESERVATION, free=count > 0, reason=named, count=count)


def _accepts(reservation: Mapping[str, Any], instance: Mapping[str, Any]) -> bool:
    """Return whether an open reservation can take an instance.

    The reservation and the instance must be on the same Outpost, or both on no Outpost. The reservation must have the
    placement group of the instance, or no placement group. An interruptible reservation never fits, because EC2 may
    reclaim it at any time.
    """
    placement_group = str(reservation.get("PlacementGroupArn") or "").rpartition("/")[2]
    return (
        not reservation.get("Interruptible")
        and reservation.get("OutpostArn") == instance.get("OutpostArn")
        and placement_group in {"", (instance.get("Placement") or {}).get("GroupName")}
    )
