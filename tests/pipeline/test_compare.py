"""Compare: only a difference between two samples of one port is a fault."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from faultbridge.decide.normalize.compare import compare, differences
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component, CounterSample, Fault, Observation, Snapshot
from faultbridge.model.values import replace

NOON = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)
GPU = Component(ComponentType.GPU, pci="0000:c1:00")
NIC = Component(ComponentType.NIC, name="ens5")
XID, DBE = "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
COUNTED = "DCGM_EXP_XID_ERRORS_COUNT"


def sample(values: dict[str, int | str], component: Component = GPU, minutes: float = 0) -> CounterSample:
    return CounterSample("dcgm-metrics", component, values, NOON + timedelta(minutes=minutes), "node-1")


@pytest.mark.parametrize(
    ("before", "now", "code"),
    [
        ({XID: 0}, {XID: 79}, "xid.79"),
        ({XID: 79}, {XID: 45}, "xid.45"),
        ({}, {XID: 62}, "xid.62"),
        ({XID: 0}, {XID: 1}, "xid.1"),
        ({}, {f"{COUNTED}/79": 1}, "xid.79"),
        ({f"{COUNTED}/79": 1}, {f"{COUNTED}/79": 3}, "xid.79"),
        ({DBE: 1}, {DBE: 3}, "dcgm.volatile_dbe_detected"),
        ({"carrier": 1}, {"carrier": 0}, "net.link_down"),
    ],
)
def test_a_worse_value_than_before_is_a_fault(
    before: dict[str, int | str], now: dict[str, int | str], code: str
) -> None:
    (fault,) = compare(sample(before), sample(now, minutes=1))
    assert (fault.code, fault.component, fault.node) == (code, GPU, "node-1")
    assert fault.observed_at == NOON + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({XID: 79}, {XID: 79}),
        ({XID: 79}, {XID: 0}),
        ({f"{COUNTED}/79": 3}, {f"{COUNTED}/79": 3}),
        ({f"{COUNTED}/79": 3}, {f"{COUNTED}/79": 0}),
        ({COUNTED: 1}, {COUNTED: 3}),
        ({DBE: 3}, {DBE: 3}),
        ({DBE: 3}, {DBE: 0}),
        ({}, {DBE: 3}),
        ({"carrier": 0}, {"carrier": 0}),
        ({"carrier": 0}, {"carrier": 1}),
        ({}, {"carrier": 0}),
        ({"operstate": "UP"}, {"operstate": "DOWN"}),
    ],
)
def test_an_unchanged_or_reset_value_is_no_fault(before: dict[str, int | str], now: dict[str, int | str]) -> None:
    assert compare(sample(before), sample(now)) == ()


@pytest.mark.parametrize(("before", "named"), [({}, "0"), ({XID: 0}, "0"), ({XID: 79}, "79")])
def test_the_fault_of_a_changed_xid_names_the_last_one_and_0_for_none(before: dict[str, int | str], named: str) -> None:
    (fault,) = compare(sample(before), sample({XID: 62}, minutes=1))
    assert fault.attributes == {"before": named, "value": "62"}


def test_each_port_is_compared_only_with_itself() -> None:
    found = differences([sample({XID: 0}), sample({XID: 79}, NIC), sample({XID: 48})])
    assert [one.code for one in found if isinstance(one, Fault)] == ["xid.48"]


def test_a_fault_in_a_snapshot_of_the_same_record_is_not_reported_twice() -> None:
    shown = Fault("link-state", "net.link_down", NIC, "ens5 is DOWN")
    observations: list[Observation] = [
        sample({"carrier": 1}, NIC),
        Snapshot("link-state", {}, (shown,)),
        sample({"carrier": 0}, NIC),
    ]
    assert [one for one in differences(observations) if isinstance(one, Fault)] == []


PORT = Component(ComponentType.NIC, name="mlx5_0")


def port_sample(counter: str, value: int, *, minutes: float = 0, source: str = "rdma-counters") -> CounterSample:
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
    (fault,) = compare(port_sample(counter, before), port_sample(counter, now, minutes=minutes))
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
def test_a_full_reset_or_small_counter_is_no_fault(counter: str, before: int, now: int, minutes: float) -> None:
    assert compare(port_sample(counter, before), port_sample(counter, now, minutes=minutes)) == ()


def test_a_first_counter_sample_is_never_a_fault() -> None:
    first = CounterSample("rdma-counters", PORT, {}, NOON)
    assert compare(first, port_sample("link_downed", 255, minutes=1)) == ()


def test_a_counter_at_its_maximum_is_marked_as_a_lower_bound() -> None:
    (fault,) = compare(port_sample("link_downed", 250), port_sample("link_downed", 255, minutes=1))
    assert fault.attributes["lower_bound"] == "true"


def test_a_fault_of_a_counter_says_how_much_more_it_rose_than_it_may() -> None:
    (fault,) = compare(port_sample("symbol_error", 0), port_sample("symbol_error", 121, minutes=1))
    assert "rose by 121" in fault.message
    assert "more than 120 in 3600 s." in fault.message
    assert (fault.attributes["limit"], fault.attributes["seconds"]) == ("120 in 3600 s", "60")
    (fault,) = compare(port_sample("link_downed", 3), port_sample("link_downed", 4, minutes=1))
    assert fault.message.endswith("more than 0.")
    assert fault.attributes["limit"] == "0"


def test_samples_without_a_time_have_the_limit_of_one_period() -> None:
    before, now = port_sample("symbol_error", 0), port_sample("symbol_error", 121, minutes=600)
    for first, second in ((replace(before, observed_at=None), now), (before, replace(now, observed_at=None))):
        (fault,) = compare(first, second)
        assert fault.attributes["seconds"] == "0"
    assert compare(before, now) == ()


def test_differences_follow_the_samples_that_show_them() -> None:
    first, second = sample({XID: 0}), sample({XID: 79}, minutes=1)
    assert differences([first, second]) == (first, second, *compare(first, second))


def test_a_counter_of_remote_errors_names_the_remote_side() -> None:
    (fault,) = compare(
        port_sample("unresponsive_remote_events", 0), port_sample("unresponsive_remote_events", 9, minutes=1)
    )
    assert (fault.code, fault.attributes["side"]) == ("net.remote_trouble", "remote")


def test_a_counter_of_a_source_without_thresholds_is_no_fault() -> None:
    before, now = (port_sample("link_downed", value, source="ethtool-stats") for value in (0, 9))
    assert compare(before, now) == ()


def test_the_fault_of_a_lost_link_names_its_port() -> None:
    for port, named in ((NIC, "ens5"), (replace(NIC, name=None), "a port")):
        (fault,) = compare(sample({"carrier": 1}, port), sample({"carrier": 0}, port))
        assert fault.message == f"{named} lost its link."


def test_the_fault_of_a_reduced_rate_names_its_port() -> None:
    for port, named in ((NIC, "ens5"), (replace(NIC, name=None), "a port")):
        before, now = (sample({"carrier": 1, "link_rate": rate}, port) for rate in (200, 100))
        (fault,) = compare(before, now)
        assert fault.message == f"The rate of {named} fell from 200 to 100 Gb/s."


def test_the_evidence_of_a_fault_is_the_sample_up_to_4096_characters() -> None:
    (fault,) = compare(sample({XID: 0}), sample({XID: 79, "Hostname": "n" * 5000}))
    assert fault.evidence.startswith(f"{XID}: 79, Hostname: nnn")
    assert len(fault.evidence) == 4096


@pytest.mark.parametrize(("step", "seconds"), [(7613, 300), (1_000_000, 5000), (None, 300)])
def test_an_iteration_is_stalled_after_five_times_its_usual_duration_and_at_least_300_seconds(
    step: int | None, seconds: int
) -> None:
    values: dict[str, int | str] = {"iteration": 7} | ({} if step is None else {"step_milliseconds": step})
    assert compare(sample(values), sample(values, minutes=(seconds - 1) / 60)) == ()
    (fault,) = compare(sample(values), sample(values, minutes=seconds / 60))
    assert (fault.code, fault.message) == ("train.stalled", f"Iteration 7 has been running for {seconds} s.")
    assert fault.attributes == {"iteration": "7", "limit": f"{seconds} s"}
