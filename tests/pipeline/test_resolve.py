"""Which incarnation a record is about, at the very instants at which the answer changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from faultbridge.domain.aliases import Alias, AliasRow
from faultbridge.domain.nodes import Incarnation, NodeKey, NodeState
from faultbridge.domain.records import RawRecord
from faultbridge.pipeline.fold.changes import Sits
from faultbridge.pipeline.normalize.resolve import MARGIN, learn_boot, resolve, sits
from tests.builders import NOON, node

MILLISECOND = timedelta(milliseconds=1)
SITTING = Incarnation(2, 2, None, "boot-2", NOON)


def seated(sitting: Incarnation = SITTING, *, former: tuple[str, ...] = ("i-former",)) -> NodeState:
    return replace(node(), incarnation=sitting, former_instances=former)


def record(sent_at: datetime = NOON, **others: str | None) -> RawRecord:
    return RawRecord("r-1", "kernel-log", "train-a", "n-1", b"x", sent_at, sent_at, **others)


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        (-MARGIN - MILLISECOND, Sits.EARLIER),
        (-MARGIN, Sits.UNKNOWN),
        (MARGIN - MILLISECOND, Sits.UNKNOWN),
        (MARGIN, Sits.CURRENT),
    ],
)
def test_without_any_id_the_time_decides_and_near_the_change_nothing_does(moved: timedelta, expected: Sits) -> None:
    assert sits(seated(), record(), None, NOON + moved) is expected


@pytest.mark.parametrize(("boot", "former", "expected"), [(1, (), Sits.CURRENT), (2, (), Sits.EARLIER)])
def test_whatever_is_older_than_the_first_boot_of_the_first_instance_is_about_it(
    boot: int, former: tuple[str, ...], expected: Sits
) -> None:
    sitting = replace(SITTING, boot=boot)
    assert sits(seated(sitting, former=former), record(), None, NOON - timedelta(days=1)) is expected
    assert sits(seated(sitting), record(), None, NOON - timedelta(days=1)) is Sits.EARLIER


def test_the_boot_that_sits_is_known_by_its_id_however_old_the_observation() -> None:
    assert sits(seated(), record(boot_id="boot-2"), None, NOON - timedelta(days=1)) is Sits.CURRENT
    assert sits(seated(), record(boot_id="boot-1"), None, NOON - timedelta(days=1)) is Sits.EARLIER


@pytest.mark.parametrize(("moved", "boot"), [(-MILLISECOND, 2), (timedelta(0), 3)])
def test_a_new_boot_is_learned_from_what_was_sent_since_the_instance_sits_there(moved: timedelta, boot: int) -> None:
    learned = learn_boot(seated(), record(NOON + moved, boot_id="boot-3")).incarnation
    assert learned is not None
    assert learned.boot == boot


def test_the_same_boot_is_nothing_new_and_the_first_id_of_a_boot_names_it() -> None:
    same = seated()
    assert learn_boot(same, record(NOON + timedelta(hours=1), boot_id="boot-2")) is same
    named = learn_boot(seated(replace(SITTING, boot_id=None)), record(boot_id="boot-9")).incarnation
    assert named is not None
    assert (named.boot, named.boot_id, named.since) == (2, "boot-9", NOON)


def test_a_name_proves_no_instance_while_it_may_pass_on_and_an_instance_id_always_proves_itself() -> None:
    row = AliasRow(NodeKey("train-a", "n-1"), "i-1", NOON)
    instance, name = Alias("instance", "i-1"), Alias("name", "train-a/n-1")
    assert resolve((instance,), {instance: row}, "train-a") == row
    assert resolve((name,), {name: row}, "train-a") == replace(row, instance_id=None)
    ended = replace(row, valid_to=NOON)
    assert resolve((name,), {name: ended}, "train-a") == ended
