"""The incarnation that a record is about, tested exactly at the times where the answer changes."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.decide.fold.changes import IncarnationMatch
from faultbridge.decide.normalize.resolve import INCARNATION_MARGIN, match_incarnation, record_boot, resolve
from faultbridge.model.enums import NodeStatus
from faultbridge.model.nodes import Alias, AliasRow, Incarnation, NodeKey, NodeState
from faultbridge.model.records import RawRecord
from faultbridge.model.values import replace
from tests.builders import NOON, node

MILLISECOND = timedelta(milliseconds=1)
CURRENT = Incarnation(2, 2, None, "boot-2", NOON)


def backed_by(incarnation: Incarnation = CURRENT, *, former: tuple[str, ...] = ("i-former",)) -> NodeState:
    return replace(node(), incarnation=incarnation, former_instances=former)


def record(sent_at: datetime = NOON, **others: str | None) -> RawRecord:
    return RawRecord("r-1", "kernel-log", "train-a", "n-1", b"x", sent_at, sent_at, **others)


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        (-INCARNATION_MARGIN - MILLISECOND, IncarnationMatch.EARLIER),
        (-INCARNATION_MARGIN, IncarnationMatch.UNKNOWN),
        (INCARNATION_MARGIN - MILLISECOND, IncarnationMatch.UNKNOWN),
        (INCARNATION_MARGIN, IncarnationMatch.CURRENT),
    ],
)
def test_without_an_id_the_time_decides_except_near_the_change(moved: timedelta, expected: IncarnationMatch) -> None:
    assert match_incarnation(backed_by(), record(), None, NOON + moved) is expected


@pytest.mark.parametrize(
    ("boot", "former", "expected"), [(1, (), IncarnationMatch.CURRENT), (2, (), IncarnationMatch.EARLIER)]
)
def test_every_older_record_is_about_the_first_boot_of_the_first_instance(
    boot: int, former: tuple[str, ...], expected: IncarnationMatch
) -> None:
    incarnation = replace(CURRENT, boot=boot)
    assert (
        match_incarnation(backed_by(incarnation, former=former), record(), None, NOON - timedelta(days=1)) is expected
    )
    assert (
        match_incarnation(backed_by(incarnation), record(), None, NOON - timedelta(days=1)) is IncarnationMatch.EARLIER
    )


def test_the_current_boot_id_decides_for_an_observation_of_any_age() -> None:
    assert (
        match_incarnation(backed_by(), record(boot_id="boot-2"), None, NOON - timedelta(days=1))
        is IncarnationMatch.CURRENT
    )
    assert (
        match_incarnation(backed_by(), record(boot_id="boot-1"), None, NOON - timedelta(days=1))
        is IncarnationMatch.EARLIER
    )


@pytest.mark.parametrize(("moved", "boot"), [(-MILLISECOND, 2), (timedelta(0), 3)])
def test_a_new_boot_is_learned_from_records_sent_since_the_instance_backs_the_node(moved: timedelta, boot: int) -> None:
    learned = record_boot(backed_by(), record(NOON + moved, boot_id="boot-3")).incarnation
    assert learned is not None
    assert learned.boot == boot


def test_the_same_boot_is_nothing_new_and_the_first_id_of_a_boot_names_it() -> None:
    same = backed_by()
    assert record_boot(same, record(NOON + timedelta(hours=1), boot_id="boot-2")) is same
    named = record_boot(backed_by(replace(CURRENT, boot_id=None)), record(boot_id="boot-9")).incarnation
    assert named is not None
    assert (named.boot, named.boot_id, named.since) == (2, "boot-9", NOON)


def test_a_name_proves_no_instance_while_it_may_pass_on_and_an_instance_id_always_proves_itself() -> None:
    row = AliasRow(NodeKey("train-a", "n-1"), "i-1", NOON)
    instance, name = Alias("instance", "i-1"), Alias("name", "train-a/n-1")
    assert resolve((instance,), {instance: row}, "train-a") == row
    assert resolve((name,), {name: row}, "train-a") == replace(row, instance_id=None)
    ended = replace(row, valid_to=NOON)
    assert resolve((name,), {name: ended}, "train-a") == ended


@pytest.mark.parametrize(("cluster", "found"), [("train-a", True), ("train-b", False), (None, True)])
def test_a_node_of_another_cluster_is_found_only_by_a_record_that_names_no_cluster(
    cluster: str | None, found: bool
) -> None:
    row, alias = AliasRow(NodeKey("train-a", "n-1"), "i-1", NOON), Alias("instance", "i-1")
    assert resolve((alias,), {alias: row}, cluster) == (row if found else None)


@pytest.mark.parametrize(
    ("backing", "named", "by_alias", "expected"),
    [
        ("i-1", "i-1", None, IncarnationMatch.CURRENT),
        ("i-1", "i-1", "i-2", IncarnationMatch.CURRENT),
        ("i-1", "i-2", "i-1", IncarnationMatch.EARLIER),
        ("i-1", None, "i-2", IncarnationMatch.EARLIER),
        ("i-1", None, "i-1", IncarnationMatch.CURRENT),
        ("i-1", None, None, IncarnationMatch.UNKNOWN),
        (None, "i-1", "i-1", IncarnationMatch.UNKNOWN),
    ],
)
def test_a_named_instance_decides_before_that_of_the_alias_and_both_before_the_time(
    backing: str | None, named: str | None, by_alias: str | None, expected: IncarnationMatch
) -> None:
    state = backed_by(replace(CURRENT, instance_id=backing))
    assert match_incarnation(state, record(instance_id=named), by_alias, NOON) is expected


def test_an_observation_of_a_retired_node_is_about_an_earlier_instance() -> None:
    retired = replace(backed_by(), status=NodeStatus.RETIRED)
    assert match_incarnation(retired, record(boot_id="boot-2"), None, NOON) is IncarnationMatch.EARLIER


def test_which_instance_an_observation_of_a_node_without_one_is_about_is_unknown() -> None:
    empty = replace(node(), incarnation=None)
    assert match_incarnation(empty, record(instance_id="i-1"), None, NOON) is IncarnationMatch.UNKNOWN


@pytest.mark.parametrize(("named", "boot"), [("i-1", 3), ("i-2", 2)])
def test_a_new_boot_is_not_learned_from_a_record_of_another_instance(named: str, boot: int) -> None:
    state = backed_by(replace(CURRENT, instance_id="i-1"))
    learned = record_boot(state, record(NOON + timedelta(hours=1), instance_id=named, boot_id="boot-3")).incarnation
    assert learned is not None
    assert (learned.boot, learned.since) == (boot, NOON + timedelta(hours=1) if boot == 3 else NOON)
