"""Capacity of EC2 for a successor: the answer of each source to each response of AWS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.stub import Stubber

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.ec2.auto_scaling import AutoScalingProvider
from faultbridge.adapters.ec2.launch import LaunchTemplateProvider
from faultbridge.model.cluster.config import CapacitySource
from faultbridge.record.ports.compute import Capacity, CapacityEvidence, Provider
from tests.adapters.stubs import stubbed

INSTANCE = "i-0aaaaaaaaaaaaaaaa"
OWN, OPEN, BLOCK = CapacitySource.OWN_RESERVATION, CapacitySource.OPEN_RESERVATION, CapacitySource.CAPACITY_BLOCK
ENDS = datetime(2030, 1, 2, 11, 30, tzinfo=UTC)
ABSENT, NONE = CapacityEvidence.ABSENT, CapacityEvidence.NONE


@contextmanager
def full_group(clients: Clients) -> Iterator[None]:
    """Answer that the Auto Scaling group has all its instances, and no suspended process."""
    group = {
        "AutoScalingGroupName": "gpu", "MinSize": 0, "MaxSize": 1, "DesiredCapacity": 0, "DefaultCooldown": 0,
        "AvailabilityZones": ["us-east-1a"], "HealthCheckType": "EC2", "CreatedTime": ENDS, "Instances": [],
    }  # fmt: skip
    with Stubber(clients.autoscaling) as stub:
        stub.add_response("describe_auto_scaling_groups", {"AutoScalingGroups": [group]})
        yield


def reservation(state: str = "active", free: int = 3, **others: Any) -> dict[str, Any]:
    counts = {"AvailableInstanceCount": free, "TotalInstanceCount": 16}
    return {"CapacityReservationId": "cr-1", "State": state, **counts, **others}


def ask(
    source: CapacitySource,
    *reservations: dict[str, Any],
    instance: dict[str, Any] | None = None,
    refused: str = "",
    filters: list[dict[str, Any]] | None = None,
    block_status: list[dict[str, Any]] | str | None = None,
    provider: type[AutoScalingProvider | LaunchTemplateProvider] = AutoScalingProvider,
    template: dict[str, Any] | None = None,
) -> Capacity:
    """Ask about an instance, by default of reservation cr-1; the stub checks the request and the response.

    `template` is the content of the launch template, which only a `LaunchTemplateProvider` reads.
    """
    described = {"InstanceId": INSTANCE, **({"CapacityReservationId": "cr-1"} if instance is None else instance)}
    with stubbed("ec2") as (clients, stub), full_group(clients):
        if provider is LaunchTemplateProvider:
            versions = [{"LaunchTemplateData": template or {}}]
            expected = {"LaunchTemplateName": "gpu", "Versions": ["$Default"]}
            stub.add_response("describe_launch_template_versions", {"LaunchTemplateVersions": versions}, expected)
        stub.add_response(
            "describe_instances",
            {"Reservations": [{"Instances": [described]}]},
            {"Filters": [{"Name": "instance-id", "Values": [INSTANCE]}]},
        )
        asked = {"Filters": filters} if filters else {"CapacityReservationIds": ["cr-1"]}
        if refused:
            stub.add_client_error("describe_capacity_reservations", refused, http_status_code=403)
        elif reservations or instance is None or filters:
            stub.add_response("describe_capacity_reservations", {"CapacityReservations": [*reservations]}, asked)
        if isinstance(block_status, str):
            stub.add_client_error("describe_capacity_block_status", block_status)
        elif block_status is not None:
            status = {"CapacityBlockStatuses": block_status}
            stub.add_response("describe_capacity_block_status", status, {"CapacityBlockIds": ["cb-1"]})
        asking: Provider = provider(clients)
        return asking.capacity(source, INSTANCE, "gpu")


@pytest.mark.parametrize("free", [0, 3])
def test_the_active_reservation_of_an_instance_is_evidence_with_its_free_count(free: int) -> None:
    # A full reservation has one more free instance once the old one is released.
    found = ask(OWN, reservation(free=free))
    reason = f"cr-1: {free} of 16 instances free"
    assert found == Capacity(CapacityEvidence.OWN_RESERVATION, free=True, reason=reason, count=free)


@pytest.mark.parametrize("free", [0, 3])
def test_a_successor_that_starts_before_the_release_needs_a_free_instance_of_the_reservation(free: int) -> None:
    found = ask(OWN, reservation(free=free), provider=LaunchTemplateProvider)
    assert (found.free, found.count) == (free > 0, free)


@pytest.mark.parametrize("state", ["expired", "cancelled", "payment-failed", "unavailable"])
def test_a_reservation_that_is_not_active_has_nothing(state: str) -> None:
    found = ask(OWN, reservation(state, free=16))
    assert (found.free, found.count, found.reason) == (False, 0, f"capacity reservation cr-1 is {state}")


def test_an_instance_without_a_reservation_has_no_such_source() -> None:
    assert ask(OWN, instance={}).evidence is ABSENT
    assert ask(BLOCK, instance={}).evidence is ABSENT


def test_a_reservation_that_does_not_exist_is_no_evidence() -> None:
    assert ask(OWN).evidence is NONE


@pytest.mark.parametrize("code", ["InvalidCapacityReservationId.NotFound", "InvalidParameterValue"])
def test_a_reservation_that_cannot_be_read_for_another_reason_than_permissions_is_no_evidence(code: str) -> None:
    found = ask(OWN, refused=code)
    assert found.evidence is NONE
    assert f"reading capacity reservation cr-1: {code}" in found.reason


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "AccessDenied"])
def test_a_reservation_that_may_not_be_read_is_evidence_without_a_count(code: str) -> None:
    found = ask(OWN, refused=code)
    assert (found.evidence, found.free, found.count) == (CapacityEvidence.OWN_RESERVATION, True, None)
    assert found.reason.startswith("cr-1; ")
    assert ask(OWN, refused=code, provider=LaunchTemplateProvider).evidence is NONE
    assert ask(BLOCK, refused=code).evidence is NONE


def test_a_capacity_block_is_a_source_of_its_own_and_has_an_end() -> None:
    block = reservation(ReservationType="capacity-block", EndDate=ENDS)
    assert ask(OWN, block).evidence is ABSENT
    found = ask(BLOCK, block)
    assert (found.evidence, found.count, found.ends_at) == (CapacityEvidence.OWN_RESERVATION, 3, ENDS)
    assert ask(BLOCK, reservation(ReservationType="default")).evidence is ABSENT


STATUS = {"CapacityBlockId": "cb-1", "TotalCapacity": 16, "TotalUnavailableCapacity": 2}


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (
            [{**STATUS, "InterconnectStatus": "impaired"}],
            "capacity block cb-1: 2 of 16 unavailable after failed status checks, interconnect impaired",
        ),
        ([STATUS], "capacity block cb-1: 2 of 16 unavailable after failed status checks, interconnect unknown"),
        ([], "EC2 has no status of capacity block cb-1"),
        ("UnauthorizedOperation", "reading the status of capacity block cb-1: UnauthorizedOperation"),
        ("InternalError", "reading the status of capacity block cb-1: InternalError"),
    ],
)
def test_the_status_of_a_capacity_block_with_free_instances_is_only_stated(
    status: list[dict[str, Any]] | str, text: str
) -> None:
    block = reservation(ReservationType="capacity-block", EndDate=ENDS, CapacityBlockId="cb-1")
    found = ask(BLOCK, block, block_status=status)
    assert found.reason.startswith(f"cr-1: 3 of 16 instances free; {text}")
    assert (found.evidence, found.free, found.count) == (CapacityEvidence.OWN_RESERVATION, True, 3)


@pytest.mark.parametrize(
    ("free", "unavailable", "is_free"), [(0, 0, True), (0, 1, False), (1, 1, True), (1, 2, False), (2, 2, True)]
)
def test_the_slot_that_a_release_leaves_in_a_block_may_be_a_failed_host(
    free: int, unavailable: int, *, is_free: bool
) -> None:
    block = reservation(free=free, ReservationType="capacity-block", EndDate=ENDS, CapacityBlockId="cb-1")
    status = [{"CapacityBlockId": "cb-1", "TotalCapacity": 16, "TotalUnavailableCapacity": unavailable}]
    assert ask(BLOCK, block, block_status=status).free is is_free


IN_BLOCK = {
    "InstanceMarketOptions": {"MarketType": "capacity-block"},
    "CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": "cr-1"}},
}


@pytest.mark.parametrize("free", [0, 3])
def test_a_successor_is_launched_into_the_block_that_the_launch_template_requests(free: int) -> None:
    block = reservation(free=free, ReservationType="capacity-block", EndDate=ENDS)
    former = {"CapacityReservationId": "cr-0"}
    found = ask(BLOCK, block, instance=former, provider=LaunchTemplateProvider, template=IN_BLOCK)
    assert (found.evidence, found.free, found.ends_at) == (CapacityEvidence.OWN_RESERVATION, free > 0, ENDS)


@pytest.mark.parametrize("source", [OWN, OPEN, BLOCK, CapacitySource.ON_DEMAND])
def test_a_launch_template_has_either_a_block_or_any_other_capacity(source: CapacitySource) -> None:
    content = {} if source is BLOCK else IN_BLOCK
    with stubbed("ec2") as (clients, stub):
        versions = {"LaunchTemplateVersions": [{"LaunchTemplateData": content}]}
        stub.add_response("describe_launch_template_versions", versions)
        found = LaunchTemplateProvider(clients).capacity(source, INSTANCE, "gpu")
    requested = "no capacity block" if source is BLOCK else "only a capacity block"
    assert (found.evidence, found.reason) == (ABSENT, f"launch template gpu requests {requested}")


def test_a_launch_template_that_cannot_be_read_is_no_evidence() -> None:
    with stubbed("ec2") as (clients, stub):
        stub.add_client_error("describe_launch_template_versions", "UnauthorizedOperation", http_status_code=403)
        found = LaunchTemplateProvider(clients).capacity(CapacitySource.ON_DEMAND, INSTANCE, "gpu")
    assert found == Capacity(NONE, reason=found.reason)
    assert "reading launch template gpu: UnauthorizedOperation" in found.reason


def test_the_end_of_a_reservation_that_is_no_block_does_not_count_because_its_instances_continue() -> None:
    assert ask(OWN, reservation(ReservationType="default", EndDate=ENDS)).ends_at is None


PLACED = {
    "InstanceType": "p5.48xlarge",
    "Placement": {"AvailabilityZone": "us-east-1b", "Tenancy": "default"},
    "PlatformDetails": "Linux/UNIX",
    "CapacityReservationId": "cr-1",
    "CapacityReservationSpecification": {"CapacityReservationPreference": "open"},
}
MATCHING = [
    {"Name": "state", "Values": ["active"]},
    {"Name": "instance-match-criteria", "Values": ["open"]},
    {"Name": "instance-type", "Values": ["p5.48xlarge"]},
    {"Name": "availability-zone", "Values": ["us-east-1b"]},
    {"Name": "tenancy", "Values": ["default"]},
    {"Name": "instance-platform", "Values": ["Linux/UNIX"]},
]


def other(name: str, free: int) -> dict[str, Any]:
    return reservation(free=free) | {"CapacityReservationId": name}


@pytest.mark.parametrize(("counts", "free"), [((2, 1), 3), ((0, 0), 0)])
def test_open_reservations_of_the_type_and_the_zone_count_without_the_own_one(
    counts: tuple[int, int], free: int
) -> None:
    listed = (reservation(free=9), other("cr-2", counts[0]), other("cr-3", counts[1]))
    found = ask(OPEN, *listed, instance=PLACED, filters=MATCHING)
    assert (found.evidence, found.free, found.count) == (CapacityEvidence.RESERVATION, free > 0, free)
    assert found.reason == f"cr-2: {counts[0]} free, cr-3: {counts[1]} free"


@pytest.mark.parametrize(
    "different",
    [
        {"PlacementGroupArn": "arn:aws:ec2:us-east-1:111122223333:placement-group/another"},
        {"OutpostArn": "arn:aws:outposts:us-east-1:111122223333:outpost/op-0a1b2c3d"},
        {"Interruptible": True},
    ],
)
def test_an_open_reservation_that_does_not_take_the_successor_does_not_count(different: dict[str, Any]) -> None:
    assert ask(OPEN, other("cr-2", 3) | different, instance=PLACED, filters=MATCHING).evidence is ABSENT


def test_an_open_reservation_in_the_placement_group_of_the_instance_counts() -> None:
    placed = PLACED | {"Placement": {**PLACED["Placement"], "GroupName": "ours"}}  # type: ignore[dict-item]
    arn = "arn:aws:ec2:us-east-1:111122223333:placement-group/ours"
    found = ask(OPEN, other("cr-2", 3) | {"PlacementGroupArn": arn}, instance=placed, filters=MATCHING)
    assert (found.free, found.count) == (True, 3)


def test_of_many_open_reservations_ten_are_named_those_with_free_instances_first() -> None:
    listed = [other(f"cr-{number:02}", int(number == 12)) for number in range(2, 14)]
    found = ask(OPEN, *listed, instance=PLACED, filters=MATCHING)
    assert found.count == 1
    assert found.reason.startswith("cr-12: 1 free, cr-02: 0 free")
    assert found.reason.endswith("cr-10: 0 free and 2 more")


@pytest.mark.parametrize("source", [OWN, OPEN, BLOCK])
def test_an_instance_that_is_not_found_has_unknown_capacity(source: CapacitySource) -> None:
    with stubbed("ec2") as (clients, stub), full_group(clients):
        stub.add_response("describe_instances", {"Reservations": []})
        assert AutoScalingProvider(clients).capacity(source, INSTANCE, "gpu") == Capacity(
            reason="the instance was not found"
        )


def test_without_another_open_reservation_there_is_no_such_source() -> None:
    assert ask(OPEN, reservation(free=9), instance=PLACED, filters=MATCHING).evidence is ABSENT


@pytest.mark.parametrize(
    "chosen",
    [
        {"CapacityReservationPreference": "none"},
        {"CapacityReservationTarget": {"CapacityReservationId": "cr-1"}},
    ],
)
def test_a_successor_that_uses_no_open_reservation_is_not_promised_one(chosen: dict[str, Any]) -> None:
    assert ask(OPEN, instance=PLACED | {"CapacityReservationSpecification": chosen}).evidence is ABSENT


def test_open_reservations_that_may_not_be_listed_are_unknown() -> None:
    found = ask(OPEN, instance=PLACED, refused="UnauthorizedOperation")
    assert found.evidence is NONE
    assert "UnauthorizedOperation" in found.reason


def test_on_demand_capacity_is_unknown_until_a_launch() -> None:
    with stubbed("ec2") as (clients, stub), full_group(clients):
        stub.add_response("describe_launch_template_versions", {"LaunchTemplateVersions": [{"LaunchTemplateData": {}}]})
        group = AutoScalingProvider(clients).capacity(CapacitySource.ON_DEMAND, INSTANCE, "gpu")
        template = LaunchTemplateProvider(clients).capacity(CapacitySource.ON_DEMAND, INSTANCE, "gpu")
    assert (group.evidence, template.evidence) == (NONE, CapacityEvidence.LAUNCH_FIRST)
