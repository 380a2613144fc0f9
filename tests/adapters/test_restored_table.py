"""A drill: the table of a stack gets the items of a restored backup, a new epoch begins, and the record stays whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.dynamodb import DynamoTable, from_typed_item, to_typed_item
from faultbridge.adapters.aws.restored_table import RestoredItems, restore_items
from faultbridge.decide import entry_builder
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, NoteKind
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.storage.writes import Item
from faultbridge.model.values import replace
from faultbridge.record.recover import RecoverTable
from faultbridge.record.timeline import Timeline, TimelineQuery
from faultbridge.record.verify import Verify
from tests.archive.world import N1, ArchiveWorld
from tests.contracts.aws import aws, make_table


@pytest.fixture
def clients() -> Iterator[Clients]:
    with aws() as clients:
        yield clients


@pytest.fixture
def live(clients: Clients) -> str:
    return make_table(clients)


@pytest.fixture
def backup(clients: Clients) -> str:
    return make_table(clients)


def put(clients: Clients, table: str, *items: Item) -> None:
    for item in items:
        clients.dynamodb.put_item(TableName=table, Item=to_typed_item(item))


def items_of(clients: Clients, table: str) -> list[Item]:
    found: list[Any] = clients.dynamodb.scan(TableName=table)["Items"]
    return sorted((from_typed_item(one) for one in found), key=lambda one: (str(one["pk"]), str(one["sk"])))


def row(number: int, value: str = "same") -> Item:
    return {"pk": "NODE#train-a#n-1", "sk": f"ENTRY#{number:03}", "body": value, "expires_at": number}


def test_only_what_differs_is_written_and_newer_items_are_deleted(clients: Clients, live: str, backup: str) -> None:
    put(clients, backup, *(row(number) for number in range(60)))
    put(clients, live, *(row(number) for number in range(30)), *(row(number, "newer") for number in range(30, 40)))
    put(clients, live, *(row(number, "newer") for number in range(60, 100)))
    expected = RestoredItems(written=30, deleted=40, unchanged=30)
    assert restore_items(clients, backup, live, check_only=True) == expected
    assert len(items_of(clients, live)) == 80, "a check writes nothing"
    assert restore_items(clients, backup, live) == expected
    assert items_of(clients, live) == items_of(clients, backup)
    assert restore_items(clients, backup, live) == RestoredItems(written=0, deleted=0, unchanged=60)


def test_the_table_of_the_stack_is_not_its_own_backup(clients: Clients, live: str, backup: str) -> None:
    with pytest.raises(Misconfigured, match="restore the backup to another one"):
        restore_items(clients, live, live)


def test_a_function_that_still_writes_is_noticed(clients: Clients, live: str, backup: str) -> None:
    put(clients, backup, row(1))
    put(clients, live, row(1, "newer"))

    def write_again(**_: object) -> None:
        clients.dynamodb.meta.events.unregister("after-call.dynamodb.BatchWriteItem", write_again)
        put(clients, live, row(2, "newest"))

    clients.dynamodb.meta.events.register("after-call.dynamodb.BatchWriteItem", write_again)
    with pytest.raises(Transient, match="stop all functions"):
        restore_items(clients, backup, live)


def test_after_a_restore_and_a_recovery_the_record_is_whole_and_no_event_id_is_used_twice(
    clients: Clients, live: str, backup: str
) -> None:
    world = ArchiveWorld()
    world.record_history()
    world.anchor(world.config)
    put(clients, backup, *world.table.items())
    world.note(N1, "recorded after the backup")
    put(clients, live, *world.table.items())
    lost = event_ids(world.table)

    assert restore_items(clients, backup, live).deleted > 0
    table = DynamoTable(clients, live)
    append = replace(world.append, table=table)
    kept = event_ids(table)
    assert kept < lost
    done = RecoverTable(table, world.vault, world.clock, append, world.stack).recover(by="operator")
    assert done.epoch > 1
    note = entry_builder.note(kind=NoteKind.INVENTORY, text="recorded after the recovery", at=world.clock.now())
    append(N1, lambda state, _: Transition(state, (note,)), actor=Actor.CLI)

    new = event_ids(table) - kept
    assert new
    assert not new & lost
    assert Verify(table, world.stack)("train-a").whole


def event_ids(table: Any) -> set[str]:
    lines = Timeline(table).entries(TimelineQuery("train-a"))
    return {line.event.metadata.event_id for line in lines}
