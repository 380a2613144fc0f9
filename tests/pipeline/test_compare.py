"""Compare: only what changed between two readings of one port is a fault."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from faultbridge.domain.faults import Component, ComponentType, CounterSample, Fault, Observation, Snapshot
from faultbridge.pipeline.normalize.compare import compare, differences

NOON = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)
GPU = Component(ComponentType.GPU, pci="0000:c1:00")
NIC = Component(ComponentType.NIC, name="ens5")
XID, DBE = "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"


def sample(values: dict[str, int | str], component: Component = GPU, minutes: int = 0) -> CounterSample:
    return CounterSample("dcgm-metrics", component, values, NOON + timedelta(minutes=minutes), "node-1")


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
    (fault,) = compare(sample(before), sample(now, minutes=1))
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
    assert compare(sample(before), sample(now)) == ()


def test_each_port_is_compared_with_itself_only() -> None:
    found = differences([sample({XID: 0}), sample({XID: 79}, NIC), sample({XID: 48})])
    assert [one.code for one in found if isinstance(one, Fault)] == ["xid.48"]


def test_a_fault_that_the_snapshot_beside_it_shows_is_not_told_twice() -> None:
    shown = Fault("link-state", "net.link_down", NIC, "ens5 is DOWN")
    looks: list[Observation] = [
        sample({"carrier": 1}, NIC),
        Snapshot("link-state", {}, (shown,)),
        sample({"carrier": 0}, NIC),
    ]
    assert [one for one in differences(looks) if isinstance(one, Fault)] == []


PORT = Component(ComponentType.NIC, name="mlx5_0")


def counted(counter: str, value: int, *, minutes: float = 0, source: str = "rdma-counters") -> CounterSample:
    return CounterSample(source, PORT, {counter: value}, NOON + timedelta(minutes=minutes), "node-1")


@pytest.mark.parametrize(
    ("counter", "before", "now", "minutes", "code"),
    [
        ("link_downed", 3, 4, 1, "net.port_link_downed"),
        ("symbol_error", 0, 121, 1, "net.symbol_errors"),
        ("symbol_error", 0, 241, 120, "net.symbol_errors"),
        ("port_rcv_errors", 0, 601, 1, "net.receive_errors"),
        ("no_completion_cmds", 0, 1, 1, "net.efa_error"),
        ("local_link_integrity_errors", 14, 15, 1, "net.link_integrity"),
    ],
)
def test_a_counter_that_rises_above_its_threshold_is_a_fault(
    counter: str, before: int, now: int, minutes: float, code: str
) -> None:
    (fault,) = compare(counted(counter, before), counted(counter, now, minutes=minutes))
    assert (fault.code, fault.component, fault.node) == (code, PORT, "node-1")
    assert (fault.attributes["counter"], fault.attributes["before"]) == (counter, str(before))


@pytest.mark.parametrize(
    ("counter", "before", "now", "minutes"),
    [
        ("link_downed", 255, 255, 1),
        ("link_downed", 7, 0, 1),
        ("excessive_buffer_overrun_errors", 15, 15, 1),
        ("symbol_error", 65535, 65535, 1),
        ("symbol_error", 0, 120, 1),
        ("symbol_error", 0, 240, 120),
        ("port_rcv_errors", 0, 600, 1),
        ("port_xmit_wait", 0, 10**9, 1),
        ("bw_in_allowance_exceeded", 0, 10**6, 1),
    ],
)
def test_what_is_full_was_reset_or_stays_below_its_threshold_is_none(
    counter: str, before: int, now: int, minutes: float
) -> None:
    assert compare(counted(counter, before), counted(counter, now, minutes=minutes)) == ()


def test_a_first_counter_sample_is_no_fault_however_high_it_is() -> None:
    first = CounterSample("rdma-counters", PORT, {}, NOON)
    assert compare(first, counted("link_downed", 255, minutes=1)) == ()


def test_a_counter_that_filled_up_says_that_it_counted_at_least_so_much() -> None:
    (fault,) = compare(counted("link_downed", 250), counted("link_downed", 255, minutes=1))
    assert fault.attributes["lower_bound"] == "true"


def test_what_a_healthy_port_counts_when_its_peer_fails_names_the_other_side() -> None:
    (fault,) = compare(counted("unresponsive_remote_events", 0), counted("unresponsive_remote_events", 9, minutes=1))
    assert (fault.code, fault.attributes["side"]) == ("net.remote_trouble", "remote")


def test_a_counter_of_another_source_is_not_judged() -> None:
    before, now = (counted("link_downed", value, source="ethtool-stats") for value in (0, 9))
    assert compare(before, now) == ()
