"""Reporters of a condition: each source, with each fault code and catalog row, reports and withdraws on its own."""

from __future__ import annotations

from datetime import datetime
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decide.fold.changes import Arrival, ChangeKind, Folded
from faultbridge.decide.fold.fold import fold
from faultbridge.decode.data import load_catalog
from faultbridge.model.conditions import code_of, row_of, source_of, without_row
from faultbridge.model.faults import Clear, Fault, Snapshot
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits
from faultbridge.model.records import Outcome
from tests.builders import GPU, NOON, after, arrival, fault, node

PACKAGED = load_catalog()
KEY_OF_48 = "gpu.ecc_uncorrectable@gpu/pci=0000:c1:00"
CODES = ("dcgm.volatile_dbe_detected", "dcgm.dbe_violation")
"""Two codes that one source reports, and that the catalog stores as `xid.48`."""

ROWS = ("signal_integrity", "ecc_threshold")
"""The findings of two rows of Xid 74."""


def folded(state: NodeState, *arrivals: Arrival) -> Folded:
    return fold(state, arrivals, now=after(hours=1), catalog=PACKAGED, limits=Limits())


def seen(code: str, at: datetime = NOON, source: str = "dcgm-health", **others: object) -> Arrival:
    return arrival(fault(code, source=source, **others), at)


def link_error(finding: str, at: datetime = NOON) -> Arrival:
    return seen("xid.74", at, "kernel-log", attributes={"findings": finding})


def over(code: str, at: datetime, source: str = "dcgm-health") -> Arrival:
    return arrival(Clear(source, code, GPU, "over"), at)


def checked(*codes: str, at: datetime, present: tuple[Fault, ...] = (), source: str = "dcgm-health") -> Arrival:
    return arrival(Snapshot(source, dict.fromkeys(codes, (GPU,)), present), at)


def active_reporters(state: NodeState) -> list[str]:
    return sorted(name for one in state.active() for name, reporter in one.reporters.items() if reporter.active)


def both_codes() -> NodeState:
    return folded(node(), *(seen(code, after(seconds=number)) for number, code in enumerate(CODES))).state


def test_the_key_of_a_reporter_names_its_source_its_code_and_its_catalog_row() -> None:
    key = "kernel-log xid.74:ecc_threshold"
    assert (source_of(key), code_of(key), row_of(key)) == ("kernel-log", "xid.74", "xid.74:ecc_threshold")
    assert without_row(key) == without_row("kernel-log xid.74") == "kernel-log xid.74"


def test_a_source_with_two_codes_of_one_condition_is_two_reporters_and_one_source() -> None:
    (condition,) = both_codes().conditions.values()
    assert set(condition.reporters) == {f"dcgm-health {code}" for code in CODES}
    assert condition.sources == {"dcgm-health"}


def test_a_source_with_two_catalog_rows_of_one_code_is_two_reporters() -> None:
    state = folded(node(), *map(link_error, ROWS)).state
    assert active_reporters(state) == sorted(f"kernel-log xid.74:{finding}" for finding in ROWS)


def test_a_late_observation_under_one_code_is_not_hidden_by_a_later_one_under_another_code() -> None:
    state = folded(node(), seen(CODES[0], after(seconds=10))).state
    late = folded(state, seen(CODES[1], after(seconds=5)))
    assert late.outcomes == {"r-1": Outcome.RECORDED}
    assert len(active_reporters(late.state)) == 2


def test_a_clear_ends_only_what_its_source_reported_under_its_code() -> None:
    first = folded(both_codes(), over(CODES[0], after(minutes=1)))
    assert active_reporters(first.state) == [f"dcgm-health {CODES[1]}"]
    assert (first.changes, first.outcomes) == ((), {"r-1": Outcome.FOLDED})
    second = folded(first.state, over(CODES[1], after(minutes=2)))
    assert not second.state.conditions
    assert [change.kind for change in second.changes] == [ChangeKind.ENDED]


def test_a_clear_under_another_code_of_the_condition_ends_nothing() -> None:
    state = folded(node(), seen(CODES[0])).state
    result = folded(state, over("xid.48", after(minutes=1)))
    assert (result.state.conditions, result.outcomes) == (state.conditions, {"r-1": Outcome.CLEAN})


def test_a_clear_ends_every_catalog_row_of_its_code_but_no_later_report() -> None:
    state = folded(node(), link_error(ROWS[0]), link_error(ROWS[1], after(minutes=2))).state
    cleared = folded(state, over("xid.74", after(minutes=1), "kernel-log")).state
    assert active_reporters(cleared) == [f"kernel-log xid.74:{ROWS[1]}"]
    assert not folded(cleared, over("xid.74", after(minutes=3), "kernel-log")).state.conditions


def test_a_row_first_seen_after_the_clear_of_its_code_counts_only_from_its_time() -> None:
    begun = folded(node(), link_error(ROWS[0]), seen("xid.74", source="syslog")).state
    cleared = folded(begun, over("xid.74", after(minutes=2), "kernel-log")).state
    late = folded(cleared, link_error(ROWS[1], after(minutes=1)))
    assert (late.state.conditions, late.outcomes) == (cleared.conditions, {"r-1": Outcome.STALE})
    assert len(active_reporters(folded(cleared, link_error(ROWS[1], after(minutes=2))).state)) == 2


def test_a_clear_of_an_unspecific_report_leaves_the_specific_report_of_its_source() -> None:
    general = seen("agent.gpu_unhealthy", source="hyperpod-agent-log")
    specific = seen("xid.48", after(seconds=1), "hyperpod-agent-log")
    state = folded(node(), general, specific).state
    assert list(state.conditions) == [KEY_OF_48]
    cleared = folded(state, over("agent.gpu_unhealthy", after(minutes=1), "hyperpod-agent-log")).state
    assert active_reporters(cleared) == ["hyperpod-agent-log xid.48"]


def test_a_snapshot_ends_only_the_codes_that_it_covers() -> None:
    partly = folded(both_codes(), checked(CODES[1], at=after(minutes=1)))
    assert active_reporters(partly.state) == [f"dcgm-health {CODES[0]}"]
    assert not folded(partly.state, checked(*CODES, at=after(minutes=2))).state.conditions


def test_a_snapshot_ends_the_code_that_it_no_longer_finds_beside_another_code_of_the_condition() -> None:
    found = fault(CODES[0], source="dcgm-health")
    result = folded(both_codes(), checked(*CODES, at=after(minutes=1), present=(found,)))
    assert active_reporters(result.state) == [f"dcgm-health {CODES[0]}"]


def test_a_snapshot_ends_the_catalog_row_that_it_no_longer_finds() -> None:
    rows = [fault("xid.74", source="dcgm-health", attributes={"findings": finding}) for finding in ROWS]
    begun = folded(node(), checked("xid.74", at=NOON, present=tuple(rows))).state
    assert len(active_reporters(begun)) == 2
    one_left = folded(begun, checked("xid.74", at=after(minutes=1), present=(rows[1],))).state
    assert active_reporters(one_left) == [f"dcgm-health xid.74:{ROWS[1]}"]


def test_a_tombstone_keeps_the_time_of_each_code_of_a_source() -> None:
    state = folded(both_codes(), *(over(code, after(minutes=1)) for code in CODES)).state
    (tombstone,) = state.tombstones.values()
    assert tombstone.reporters.keys() == {f"dcgm-health {code}" for code in CODES}


def test_a_tombstone_keeps_the_latest_time_of_the_rows_of_a_code() -> None:
    rows = ({"attributes": {"recovery_action": value}, "source": "kernel-log"} for value in ("0x1", "0x2"))
    state = folded(node(), *(seen("xid.154", after(minutes=at), **row) for at, row in enumerate(rows))).state
    ended = folded(state, over("xid.154", after(minutes=2), "kernel-log")).state
    (tombstone,) = ended.tombstones.values()
    assert tombstone.reporters.keys() == {"kernel-log xid.154"}


@pytest.mark.parametrize("reopened", [False, True])
def test_a_code_never_seen_before_the_end_is_a_late_note_and_never_stale(reopened: bool) -> None:
    ended = folded(node(), seen(CODES[0]), over(CODES[0], after(minutes=10))).state
    state = folded(ended, seen(CODES[0], after(minutes=20))).state if reopened else ended
    late = folded(state, seen(CODES[1], after(minutes=5)))
    assert ([one.kind for one in late.changes], late.outcomes) == ([ChangeKind.LATE], {"r-1": Outcome.RECORDED})
    assert late.state.conditions == state.conditions
    assert folded(late.state, seen(CODES[1], after(minutes=6))).outcomes == {"r-1": Outcome.FOLDED}


@pytest.mark.parametrize("reopened", [False, True])
def test_a_code_that_any_source_reported_before_the_end_is_stale(reopened: bool) -> None:
    ended = folded(node(), seen(CODES[0]), over(CODES[0], after(minutes=10))).state
    state = folded(ended, seen(CODES[0], after(minutes=20))).state if reopened else ended
    late = folded(state, seen(CODES[0], after(minutes=5), source="dcgm-policy"))
    assert (late.changes, late.outcomes) == ((), {"r-1": Outcome.STALE})


REPORTS = (
    seen(CODES[0]),
    seen(CODES[0], after(seconds=4)),
    seen(CODES[1], after(seconds=2)),
    seen("xid.48", after(seconds=3), "kernel-log"),
    over(CODES[0], after(seconds=6)),
)


@given(st.sampled_from(list(permutations(REPORTS))))
def test_the_active_reporters_do_not_depend_on_the_order_of_delivery(order: tuple[Arrival, ...]) -> None:
    """A clear that is delivered before every report of its code has nothing to end, so it is delivered last here."""
    state = node()
    for one in (*(one for one in order if isinstance(one.observation, Fault)), REPORTS[-1]):
        state = folded(state, one).state
    assert active_reporters(state) == sorted([f"dcgm-health {CODES[1]}", "kernel-log xid.48"])
