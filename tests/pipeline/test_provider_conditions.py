"""What a provider reports: conditions that are open, the number of nodes that should exist, and updates of groups."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.decide.provider_conditions import (
    MAX_CONDITIONS,
    MAX_MESSAGE,
    next_holds,
    open_conditions,
    target_size,
    update_conditions,
)
from faultbridge.model.cluster.config import GroupUpdate, UpdateHold
from faultbridge.model.cluster.state import GroupStatus, ProviderCondition, ProviderStatus
from faultbridge.model.enums import ConditionKind
from faultbridge.model.policy import Limits
from faultbridge.model.values import replace
from tests.builders import NOON, after

LIMITS = Limits(update_deadline=timedelta(hours=6), update_grace=timedelta(minutes=15))
NO_CAPACITY = ProviderCondition(ConditionKind.NO_CAPACITY, "none left", "a")
FAILED = ProviderCondition(ConditionKind.GROUP_FAILED, "it failed", "b")
SHORT = ProviderStatus(groups={"a": GroupStatus(2, complete=False)})
UPDATED = ProviderStatus(groups={"a": GroupStatus(2, complete=False, update=GroupUpdate("an instance refresh runs"))})


def test_a_failed_launch_is_open_until_its_group_is_complete() -> None:
    (opened,) = open_conditions((), [NO_CAPACITY], SHORT, NOON)
    assert opened == replace(NO_CAPACITY, since=NOON)
    assert open_conditions([opened], (), SHORT, after(hours=1)) == (opened,)
    complete = ProviderStatus(groups={"a": GroupStatus(2, complete=True)})
    assert open_conditions([opened], (), complete, after(hours=1)) == ()


def test_a_state_of_the_provider_is_open_as_long_as_it_is_reported() -> None:
    (opened,) = open_conditions((), (), ProviderStatus((FAILED,)), NOON)
    assert open_conditions([opened], (), ProviderStatus((FAILED,)), after(hours=1)) == (opened,)
    assert open_conditions([opened], (), ProviderStatus(), after(hours=1)) == ()


def test_a_kind_is_open_once_for_each_group_with_its_first_message() -> None:
    first = open_conditions((), [NO_CAPACITY, replace(NO_CAPACITY, message="later")], SHORT, NOON)
    assert [one.message for one in first] == ["none left"]
    again = open_conditions(first, [replace(NO_CAPACITY, message="later")], SHORT, after(hours=1))
    assert again == first


def test_conditions_that_need_an_operator_come_first_and_the_others_are_limited() -> None:
    groups = {f"g-{number:02}": GroupStatus(1, complete=False) for number in range(MAX_CONDITIONS)}
    launches = [replace(NO_CAPACITY, group=name) for name in sorted(groups, reverse=True)]
    found = open_conditions((), launches, ProviderStatus((replace(FAILED, group=None),), groups), NOON)
    assert [one.group for one in found] == [None, *sorted(groups)[: MAX_CONDITIONS - 1]]


def test_conditions_are_sorted_by_the_need_of_an_operator_then_by_kind_and_group() -> None:
    groups = {name: GroupStatus(1, complete=False) for name in ("a", "b")}
    efa, rival = replace(NO_CAPACITY, kind=ConditionKind.EFA_CHECK), replace(FAILED, kind=ConditionKind.RIVAL_REPAIR)
    launches = [NO_CAPACITY, replace(efa, group="b"), replace(efa, group="a")]
    found = open_conditions((), launches, ProviderStatus((replace(rival, group=None), FAILED), groups), NOON)
    assert [(one.kind, one.group) for one in found] == [
        (ConditionKind.GROUP_FAILED, "b"),
        (ConditionKind.RIVAL_REPAIR, None),
        (ConditionKind.EFA_CHECK, "a"),
        (ConditionKind.EFA_CHECK, "b"),
        (ConditionKind.NO_CAPACITY, "a"),
    ]


@pytest.mark.parametrize(("length", "shown"), [(MAX_MESSAGE, MAX_MESSAGE), (MAX_MESSAGE + 1, MAX_MESSAGE)])
def test_a_long_message_is_cut_and_marked(length: int, shown: int) -> None:
    (opened,) = open_conditions((), [replace(NO_CAPACITY, message="x" * length)], SHORT, NOON)
    assert len(opened.message) == shown
    assert opened.message.endswith("...") is (length > MAX_MESSAGE)


@pytest.mark.parametrize(("desired", "target"), [(2, 8), (3, 8), (5, 10)])
def test_a_cluster_should_have_its_registered_nodes_and_those_that_its_groups_lack(desired: int, target: int) -> None:
    status = ProviderStatus(groups={"a": GroupStatus(desired, complete=False)})
    assert target_size(8, {"a": 3}, status) == target
    assert target_size(8, {}, status) == 8 + desired


def holds(
    stored: tuple[UpdateHold, ...], status: ProviderStatus, now: datetime = NOON, registered: int = 2
) -> tuple[UpdateHold, ...]:
    return next_holds(stored, {"a": registered}, status, LIMITS, now)


def test_repairs_wait_for_an_update_from_its_start_until_its_deadline() -> None:
    running = UpdateHold("a", NOON, after(hours=6))
    assert holds((), UPDATED) == (running,)
    assert holds((running,), UPDATED, after(hours=1)) == (running,)
    assert holds((running,), UPDATED, after(hours=7)) == (running,)
    started = GroupUpdate("an instance refresh runs", after(hours=-1))
    stated = ProviderStatus(groups={"a": GroupStatus(2, complete=False, update=started)})
    assert holds((running,), stated) == (UpdateHold("a", after(hours=-1), after(hours=5)),)


def test_repairs_wait_for_the_grace_period_after_an_update() -> None:
    running = UpdateHold("a", NOON, after(hours=6))
    (ended,) = holds((running,), SHORT, after(hours=1))
    assert ended == UpdateHold("a", NOON, after(hours=1, minutes=15), running=False)
    assert holds((ended,), SHORT, after(hours=1, minutes=14)) == (ended,)
    assert holds((ended,), SHORT, after(hours=1, minutes=15)) == ()


@pytest.mark.parametrize(("registered", "hours", "stored"), [(3, 6, True), (3, 6.25, False), (2, 6, False)])
def test_the_pause_of_an_ended_update_is_stored_until_a_further_deadline_while_its_group_has_surplus_nodes(
    registered: int, hours: float, stored: bool
) -> None:
    ended = UpdateHold("a", NOON, after(minutes=15), running=False)
    assert holds((ended,), SHORT, after(hours=hours), registered) == ((ended,) if stored else ())


def test_the_pause_of_a_group_that_the_provider_no_longer_reports_ends_with_its_grace_period() -> None:
    ended = UpdateHold("a", NOON, after(minutes=15), running=False)
    assert holds((ended,), ProviderStatus(), after(minutes=15), registered=3) == ()


def test_an_update_in_the_grace_period_of_another_one_begins_anew() -> None:
    ended = UpdateHold("a", NOON, after(hours=1, minutes=15), running=False)
    assert holds((ended,), UPDATED, after(hours=1, minutes=5)) == (
        UpdateHold("a", after(hours=1, minutes=5), after(hours=7, minutes=5)),
    )


@pytest.mark.parametrize(
    ("hours", "kind", "text"),
    [
        (5, ConditionKind.UPDATING, "repairs of its nodes wait until 2026-02-03T18:00:00.000Z at the latest"),
        (6, ConditionKind.UPDATE_OVERDUE, "since 2026-02-03T12:00:00.000Z; repairs of its nodes no longer wait for it"),
    ],
)
def test_an_update_states_how_long_repairs_wait_for_it(hours: int, kind: ConditionKind, text: str) -> None:
    hold = UpdateHold("a", NOON, after(hours=6))
    (found,) = update_conditions((hold,), UPDATED, after(hours=hours))
    assert (found.kind, found.group) == (kind, "a")
    assert found.message.startswith("an instance refresh runs")
    assert found.message.endswith(text)


def test_an_update_that_ended_or_whose_group_is_gone_is_no_condition() -> None:
    hold = UpdateHold("a", NOON, after(hours=6))
    assert list(update_conditions((replace(hold, running=False),), UPDATED, NOON)) == []
    assert list(update_conditions((hold,), SHORT, NOON)) == []
    assert list(update_conditions((hold,), ProviderStatus(), NOON)) == []
