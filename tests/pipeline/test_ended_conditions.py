"""Ended conditions: what a late fault does when the tombstones that it may belong to were evicted."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.decide.fold.attribution import MAX_EVICTED, NOTED_BECAUSE, OTHER_INSTANCE, keep_end
from faultbridge.decide.fold.capacity import MAX_TOMBSTONES
from faultbridge.decide.fold.changes import ChangeKind
from faultbridge.model.fault_enums import ComponentType, Severity
from faultbridge.model.faults import Clear, Component
from faultbridge.model.nodes import NodeState
from faultbridge.model.records import Outcome
from faultbridge.model.values import replace
from tests.builders import GPU, NOON, after, arrival, fault, folded, node


def nic(number: int) -> Component:
    return Component(ComponentType.NIC, name=f"eth{number}")


def after_flaps(count: int = MAX_TOMBSTONES + 1) -> NodeState:
    """Return a node of which many NICs lost their links for a second each, so that tombstones were evicted."""
    state = node()
    for number in range(count):
        at = after(seconds=2 * number)
        state = folded(state, arrival(fault("net.link_down", component=nic(number)), at=at), now=at).state
        over = Clear("kernel-log", "net.link_down", nic(number), "over")
        state = folded(state, arrival(over, at=at + timedelta(seconds=1))).state
    return state


def test_an_evicted_tombstone_leaves_the_time_of_its_mode() -> None:
    state = after_flaps()
    assert (state.floor, state.evicted) == (None, {"nic.link_down": after(seconds=0.999)})
    assert len(state.tombstones) == MAX_TOMBSTONES


@pytest.mark.parametrize("count", [MAX_TOMBSTONES + 1, MAX_TOMBSTONES + 150])
def test_a_late_fault_with_a_code_that_never_ended_opens_a_condition_whatever_was_evicted(count: int) -> None:
    late = folded(after_flaps(count), arrival(fault("xid.79"), at=after(seconds=-60)), now=after(minutes=20))
    assert [one.code for one in late.state.active()] == ["xid.79"]
    assert late.outcomes == {"r-1": Outcome.RECORDED}


@pytest.mark.parametrize("name", [0, 999])
def test_a_late_fault_that_may_have_been_evicted_is_noted_once_a_day_and_opens_nothing(name: int) -> None:
    forgotten = fault("net.link_down", component=nic(name), severity=Severity.FATAL)
    late = folded(after_flaps(), arrival(forgotten, at=NOON))
    assert late.state.conditions == {}
    assert [(one.kind, one.reason) for one in late.changes] == [(ChangeKind.LATE, NOTED_BECAUSE)]
    assert late.outcomes == {"r-1": Outcome.RECORDED}
    again = folded(late.state, arrival(forgotten, at=NOON, record_id="r-2"))
    assert (again.state, again.changes, again.outcomes) == (late.state, (), {"r-2": Outcome.FOLDED})


def test_a_late_fault_without_a_device_may_be_about_an_evicted_condition_of_any_code() -> None:
    general = fault("xid.79", component=Component(ComponentType.GPU))
    assert not folded(after_flaps(), arrival(general, at=NOON)).state.conditions
    assert folded(after_flaps(), arrival(general, at=after(seconds=2)), now=after(minutes=20)).state.conditions


def test_the_oldest_evicted_code_becomes_the_floor_when_there_are_too_many() -> None:
    evicted: dict[str, datetime] = {}
    floors = [keep_end(f"code-{one}", after(minutes=one), evicted, None) for one in range(MAX_EVICTED + 1)]
    assert floors == [None] * MAX_EVICTED + [NOON]
    assert len(evicted) == MAX_EVICTED
    assert keep_end("code-x", after(minutes=90), evicted, after(minutes=60)) == after(minutes=60)


@pytest.mark.parametrize(("instance", "outcome"), [(1, Outcome.STALE), (2, Outcome.RECORDED)])
def test_a_fault_of_a_successor_from_before_the_end_of_the_same_fault_of_its_predecessor_is_noted(
    instance: int, outcome: Outcome
) -> None:
    state = folded(node(), arrival(fault())).state
    state = folded(state, arrival(Clear("kernel-log", "xid.79", GPU, "over"), at=after(seconds=60))).state
    assert state.incarnation is not None
    state = replace(state, incarnation=replace(state.incarnation, instance=instance))
    late = folded(state, arrival(fault(), at=after(seconds=50), record_id="r-late"))
    assert late.outcomes == {"r-late": outcome}
    assert list(late.state.conditions) == []
    assert [change.reason for change in late.changes] == ([OTHER_INSTANCE] if instance == 2 else [])
