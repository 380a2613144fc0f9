"""Compare: only what changed between two readings of one port is a fault."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from faultbridge.domain.faults import Component, ComponentType, Fault, Observation, Reading, Survey
from faultbridge.stages.compare import compare, differences

NOON = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)
GPU = Component(ComponentType.GPU, pci="0000:c1:00")
NIC = Component(ComponentType.NIC, name="ens5")
XID, DBE = "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"


def reading(values: dict[str, int | str], component: Component = GPU, minutes: int = 0) -> Reading:
    return Reading("dcgm-metrics", component, values, NOON + timedelta(minutes=minutes), "node-1")


@pytest.mark.parametrize(
    ("before", "now", "code"),
    [
        ({XID: 0}, {XID: 79}, "xid.79"),
        ({XID: 79}, {XID: 45}, "xid.45"),
        ({}, {XID: 62}, "xid.62"),
        ({DBE: 1}, {DBE: 3}, "dcgm.volatile_dbe_detected"),
        ({"carrier": 1}, {"carrier": 0}, "net.link_down"),
    ],
)
def test_a_change_for_the_worse_is_a_fault(before: dict[str, int | str], now: dict[str, int | str], code: str) -> None:
    (fault,) = compare(reading(before), reading(now, minutes=1))
    assert (fault.code, fault.component, fault.node) == (code, GPU, "node-1")
    assert fault.observed_at == NOON + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({XID: 79}, {XID: 79}),
        ({XID: 79}, {XID: 0}),
        ({DBE: 3}, {DBE: 0}),
        ({}, {DBE: 3}),
        ({"carrier": 0}, {"carrier": 0}),
        ({"carrier": 0}, {"carrier": 1}),
        ({}, {"carrier": 0}),
        ({"operstate": "UP"}, {"operstate": "DOWN"}),
    ],
)
def test_what_stays_or_was_reset_is_no_fault(before: dict[str, int | str], now: dict[str, int | str]) -> None:
    assert compare(reading(before), reading(now)) == ()


def test_each_port_is_compared_with_itself_only() -> None:
    found = differences([reading({XID: 0}), reading({XID: 79}, NIC), reading({XID: 48})])
    assert [one.code for one in found if isinstance(one, Fault)] == ["xid.48"]


def test_a_fault_that_the_survey_beside_it_shows_is_not_told_twice() -> None:
    shown = Fault("link-state", "net.link_down", NIC, "ens5 is DOWN")
    looks: list[Observation] = [
        reading({"carrier": 1}, NIC),
        Survey("link-state", {}, (shown,)),
        reading({"carrier": 0}, NIC),
    ]
    assert [one for one in differences(looks) if isinstance(one, Fault)] == []
