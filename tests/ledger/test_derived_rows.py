"""Derived rows: `verify` finds a row, a case or a status that contradicts the entries or the node's state."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.domain.cases import Case, RepairAction, Resolution
from faultbridge.domain.edges import Actor, CaseStatus
from faultbridge.domain.entries import Draft, EntryType, seal
from faultbridge.domain.faults import Action, Component, ComponentType, Severity
from faultbridge.domain.nodes import Head, NodeKey
from faultbridge.ledger.append import Stack
from faultbridge.ledger.derived_rows import StreamFacts, node_differences
from faultbridge.ledger.entry_attributes import parse_entry
from faultbridge.ledger.verify import Verify
from faultbridge.simulation.fakes import FakeTable, ManualClock
from faultbridge.storage import items, keys
from faultbridge.storage.codec import pack, unpack
from faultbridge.storage.writes import Put, Update
from tests.builders import GPU, KEY, NOON, STACK_ID, fault, node
from tests.ingest.world import LedgerFixture

N1 = NodeKey("train-a", "n-1")
CARD = Component(ComponentType.GPU, pci="0000:c1:00", uuid="GPU-1", serial="1653")


def faulty() -> LedgerFixture:
    """Return a cluster with a node whose GPU failed."""
    world = LedgerFixture()
    world.observe_faults(world.register_node(N1.node), fault(component=CARD))
    return world


def row_breaks(world: LedgerFixture) -> list[tuple[str | None, str]]:
    """Return the item and the detail of each break."""
    found = Verify(world.table, world.stack)("train-a").breaks
    return [(one.object, one.detail.removeprefix(f"{one.object}: ")) for one in found]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("status", {"set": {("status",): "healthy"}}),
        ("group", {"remove": (("group",),)}),
        ("unlisted", {"set": {("unlisted",): None}}),
    ],
)
def test_a_changed_missing_or_added_attribute_of_a_row_is_a_break(name: str, change: dict[str, Any]) -> None:
    world, row = faulty(), keys.unhealthy_node("train-a", 0, N1.node)
    world.table.write(Update(row, **change))
    assert row_breaks(world) == [(f"{row.pk} {row.sk}", f"{name}: another value follows from the record")]


def test_an_empty_attribute_that_an_earlier_version_stored_in_a_row_is_no_break() -> None:
    world, row = faulty(), keys.unhealthy_node("train-a", 0, N1.node)
    world.table.write(Update(row, set={("domain",): None, ("domains",): {}, ("repeated",): False}))
    assert row_breaks(world) == []
    world.table.write(Update(row, set={("domain",): "rack-1"}))
    assert row_breaks(world) == [(f"{row.pk} {row.sk}", "domain: another value follows from the record")]


def test_a_device_with_a_serial_number_that_no_entry_reports_is_a_break() -> None:
    world = faulty()
    (link,) = [item for item in world.table.items() if item["sk"] == "DEVICE"]
    world.table.write(Put({**link, "serial": "4711"}))
    assert row_breaks(world) == [(f"{link['pk']} DEVICE", "serial: the entries of the device say 1653")]


def test_a_case_that_differs_from_the_case_in_the_state_of_its_node_is_a_break() -> None:
    world = faulty()
    state = world.append.read(N1)
    assert state.case is not None
    changed = replace(state.case, code="xid.48")
    world.table.write(Put(items.case_item(changed, N1, state.shard, world.clock.now())))
    assert [detail for _, detail in row_breaks(world)] == ["case: it differs from the case in the node's state"]


def test_a_status_of_a_node_that_the_last_entry_contradicts_is_a_break() -> None:
    world, key = LedgerFixture(), keys.node_state(N1)
    world.register_node(N1.node)
    stored = world.table.get(key)
    assert stored is not None
    world.table.write(Put({**stored, "state": pack({**unpack(stored["state"]), "status": "retired"})}))
    assert (f"{key.pk} {key.sk}", "state.status: the last entry says healthy") in row_breaks(world)


CLOSED = Case(
    "c-1",
    CaseStatus.RESOLVED,
    NOON,
    "xid.79",
    GPU,
    Severity.FATAL,
    Action.REPLACE_NODE,
    repair_action=RepairAction.REPLACE_NODE,
    rule="default",
    policy="p",
    resolution=Resolution.RECOVERED,
    closed_at=NOON + timedelta(hours=1),
)
"""A case that its node's state does not contain."""


def case_differences(last: tuple[str, str | None], *cases: Case) -> list[str]:
    """Return the differences of a node whose entries name the case `c-1` and its last status and resolution."""
    table = FakeTable(ManualClock(NOON))
    for case in cases:
        table.write(Put(items.case_item(case, KEY, 0, NOON)))
    state = node()
    facts = StreamFacts(cases={"c-1": last})
    return [detail for _, detail in node_differences(table, items.state_item(state, NOON), state, facts)]


def test_an_earlier_case_has_the_status_and_resolution_of_its_last_entry() -> None:
    assert case_differences(("resolved", "recovered"), CLOSED) == []
    for last in (("resolved", "cancelled"), ("escalated", "recovered")):
        assert case_differences(last, CLOSED) == [f"case: the last entry says {last}"]


def test_an_earlier_case_whose_item_is_gone_is_a_difference() -> None:
    assert case_differences(("resolved", "recovered")) == ["the item is missing"]


def test_only_a_status_change_of_a_case_determines_its_status() -> None:
    stream, facts = Stack(STACK_ID, "faultbridge").stream(*KEY), StreamFacts()
    drafts = (
        Draft(EntryType.CASE_STATUS, NOON, {"from": None, "to": "open"}, case_id="c-1"),
        Draft(EntryType.NOTE, NOON, {"kind": "operator", "text": "seen"}, case_id="c-1"),
        Draft(EntryType.NOTE, NOON, {"kind": "operator", "text": "seen"}, case_id="c-2"),
    )
    entries, _ = seal(stream, Head(), drafts, actor=Actor.CLI, severity=None, recorded_at=NOON)
    for entry in entries:
        stored = items.entry_item(entry, keys.node_partition(KEY), 0)
        facts.add(parse_entry(stream, (entry.epoch, entry.sequence), stored))
    assert facts.cases == {"c-1": ("open", None)}
