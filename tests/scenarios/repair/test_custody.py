"""Custody: a card is followed by its serial number or UUID through nodes, instances, faults and repairs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultbridge.decide import entry_builder
from faultbridge.decode.data import offender_odds
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, NoteKind
from faultbridge.model.fault_enums import Action, ComponentType
from faultbridge.model.faults import Component, Snapshot
from faultbridge.model.policy import Match, Rule
from faultbridge.model.storage.writes import Delete, Key
from faultbridge.record.history import DeviceEvent, DeviceHistory
from faultbridge.serve.ops.erase import Erase
from tests.scenarios.world import CLUSTER, World

FIRST, SECOND = "i-00000000000000001", "i-00000000000000002"


def card(serial: str, slot: str = "c1") -> Component:
    """Return a GPU with its serial number and its UUID in a slot."""
    return Component(ComponentType.GPU, pci=f"0000:{slot}:00", uuid=f"GPU-{serial}", serial=serial)


class Fleet(World):
    """A cluster whose nodes report their cards."""

    def show(self, node: int, *cards: Component, age: timedelta = timedelta()) -> None:
        """Report a health snapshot of a node with these cards, a minute later; it was taken `age` ago."""
        self.advance_minutes()
        at = self.clock.now() - age
        self._observe(node, Snapshot("nvidia-smi-xml", {}, devices=cards), f"r-{node}-{at}", at)

    def lose(self, node: int, device: Component) -> None:
        """Report that a card fell off the bus, and wait until the node is replaced."""
        self.advance_minutes()
        self.fault_and_react(node, component=Component(ComponentType.GPU, pci=device.pci))
        self.until(self.case_is(CaseStatus.RESOLVED, node))

    def history(self, device: str) -> list[DeviceEvent]:
        return list(DeviceHistory(self.table)(device))

    def instance(self, node: int) -> str | None:
        found = self.node(node).incarnation
        return found.instance_id if found else None

    def offenders(self) -> list[tuple[Any, ...]]:
        found = DeviceHistory(self.table).offenders(CLUSTER, offender_odds())
        return [(one.name, one.card, one.slot, one.favors) for one in found]


def test_a_card_is_recorded_once_per_instance_and_slot_whatever_further_sources_list() -> None:
    fleet = Fleet()
    fleet.show(1, card("1"), card("2", "53"))
    fleet.show(1, card("1"), card("2", "53"))
    fleet.show(1, Component(ComponentType.GPU, uuid="GPU-1"))
    assert fleet.record_history().count("note devices") == 1
    fleet.show(1, card("2"))
    assert [one.slot for one in fleet.history("2")] == ["0000:53:00", "0000:c1:00"]


@pytest.mark.parametrize("age", [timedelta(minutes=5), timedelta(days=20)], ids=["overtaken", "too old"])
def test_a_snapshot_without_any_other_effect_records_no_card(age: timedelta) -> None:
    fleet = Fleet()
    if age < timedelta(days=1):
        fleet.show(1, card("1"))
    fleet.show(1, card("2", "53"), age=age)
    assert fleet.history("2") == []
    fleet.show(1, card("2", "53"))
    assert [one.slot for one in fleet.history("2")] == ["0000:53:00"]


def test_a_card_that_comes_back_in_another_node_brings_its_faults_repairs_and_verdicts() -> None:
    fleet = Fleet(nodes=2)
    fleet.show(1, card("1653"))
    fleet.lose(1, card("1653"))
    fleet.show(2, card("1653", "53"))
    assert [(one.kind, one.node, one.instance_id, one.text.partition(":")[0]) for one in fleet.history("1653")] == [
        ("seen", "node-1", FIRST, "first seen in this instance"),
        ("fault", "node-1", FIRST, "fatal xid.79"),
        ("case", "node-1", None, "open"),
        ("repair", "node-1", FIRST, "replace_node committed"),
        ("cleared", "node-1", None, "fatal xid.79"),
        ("case", "node-1", None, "resolved"),
        ("seen", "node-2", SECOND, "first seen in this instance"),
    ]
    assert fleet.history("GPU-1653") == fleet.history("1653")
    assert fleet.history("unknown") == []


def test_the_verdict_about_a_repaired_instance_belongs_to_the_history_of_its_card() -> None:
    fleet = Fleet(rules=(Rule("reset", Match(codes=("xid.48",)), action=Action.RESET_GPU),))
    fleet.show(1, card("1"))
    fleet.advance_minutes()
    fleet.fault_until_resolved(component=Component(ComponentType.GPU, pci=card("1").pci), code="xid.48")
    lines = [(one.kind, one.text) for one in fleet.history("1") if one.kind in {"repair", "verdict"}]
    assert lines == [("repair", "reset_gpu committed"), ("verdict", "diagnostics passed")]


def test_a_card_that_fails_in_two_instances_is_favored_as_the_cause() -> None:
    fleet = Fleet(nodes=2)
    for node in (1, 2):
        fleet.show(node, card("bad"), card(f"good-{node}", "53"))
        fleet.lose(node, card("bad"))
    assert fleet.offenders() == [("bad", (1, 1), (0, 0), "card"), ("bad", (1, 1), (0, 0), "card")]


def test_a_slot_in_which_two_cards_fail_is_favored_as_the_cause() -> None:
    fleet = Fleet(nodes=2)
    fleet.show(1, card("a"))
    fleet.show(2, card("b"))
    for serial in ("a", "b"):
        fleet.show(1, card(serial))
        fleet.advance_minutes()
        fleet.fault(
            1, component=Component(ComponentType.GPU, pci="0000:c1:00"), code=f"xid.{48 if serial == 'a' else 79}"
        )
    assert {(name, slot, favors) for name, _, slot, favors in fleet.offenders()} >= {("a", (1, 1), "slot")}


@pytest.mark.parametrize("serial", [True, False])
def test_healthy_cards_that_were_in_the_slot_of_a_faulty_one_count_against_the_slot(serial: bool) -> None:
    fleet = Fleet(nodes=2)
    for node, slot, code in ((1, "c1", "xid.48"), (2, "53", "xid.79")):
        fleet.show(node, card("bad", slot))
        fleet.advance_minutes()
        fleet.fault(node, component=Component(ComponentType.GPU, pci=f"0000:{slot}:00"), code=code)
    assert [slot for _, _, slot, _ in fleet.offenders()] == [(0, 0), (0, 0)]
    for name in ("first", "second"):
        fleet.show(1, card(name) if serial else Component(ComponentType.GPU, pci="0000:c1:00", uuid=f"GPU-{name}"))
    note = entry_builder.note(kind=NoteKind.OPERATOR, text="both cards were tested", at=fleet.clock.now())
    fleet.append(fleet.key(1), lambda state, _: Transition(state, (note,)), actor=Actor.CLI)
    assert sorted(slot for _, _, slot, _ in fleet.offenders()) == [(0, 0), (2, 0)]


def test_the_history_of_a_card_states_what_each_case_did() -> None:
    fleet = Fleet()
    fleet.show(1, card("1"))
    fleet.lose(1, card("1"))
    assert [one.text for one in fleet.history("1") if one.kind == "case"] == [
        "open: xid.79, replace_node",
        "resolved: xid.79, replace_node, replaced",
    ]


def test_one_fault_of_one_card_is_no_offender() -> None:
    fleet = Fleet()
    fleet.show(1, card("1"))
    fleet.lose(1, card("1"))
    assert fleet.offenders() == []


def test_a_slot_in_which_a_card_was_seen_without_faults_counts_for_the_card() -> None:
    fleet = Fleet(nodes=2)
    fleet.show(2, card("1"))
    fleet.show(1, card("1"))
    for code in ("xid.48", "xid.79"):
        fleet.advance_minutes()
        fleet.fault(1, component=Component(ComponentType.GPU, pci="0000:c1:00"), code=code)
    assert [found[:3] for found in fleet.offenders()] == [("1", (1, 0), (0, 0))]


def test_sightings_whose_entries_have_expired_are_erased_with_their_cluster() -> None:
    fleet = Fleet()
    fleet.show(1, card("1"))
    for item in [one for one in fleet.table.items() if one["sk"].startswith("ENTRY#")]:
        fleet.table.write(Delete(Key(item["pk"], item["sk"])))
    assert any(item["pk"] == "DEV#1" for item in fleet.table.items())
    Erase(fleet.table).erase(CLUSTER)
    assert [item["pk"] for item in fleet.table.items() if CLUSTER in str(item) or item["pk"].startswith("DEV#")] == []


def test_a_sighting_is_erased_with_its_cluster() -> None:
    fleet = Fleet()
    fleet.show(1, card("1"))
    assert [item["pk"] for item in fleet.table.items() if item["pk"] == "DEV#1"]
    Erase(fleet.table).erase(CLUSTER)
    assert [item["pk"] for item in fleet.table.items() if CLUSTER in str(item)] == []
