"""Devices that move, jobs, codes: what leads to an entry besides its node."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.domain.entries import EntryType
from faultbridge.domain.faults import Component, ComponentType
from faultbridge.ledger.timeline import Timeline, Wanted
from tests.builders import fault
from tests.ingest.world import LedgerFixture

UUID, SERIAL = "GPU-7d8e", "1320923"


def gpu(**others: Any) -> Component:
    return Component(ComponentType.GPU, pci="0000:c1:00", **others)


def told(timeline: Timeline, **wanted: Any) -> list[tuple[str, str]]:
    lines = timeline.entries(Wanted(**wanted))
    return [(line.event["metadata"]["node"], line.event["metadata"]["event_type"]) for line in lines]


@pytest.mark.parametrize("name", [UUID, SERIAL])
def test_a_device_is_followed_from_node_to_node_by_either_of_its_names(name: str) -> None:
    world = LedgerFixture()
    for node in ("n-1", "n-2"):
        world.observe_faults(world.register_node(node), fault(component=gpu(uuid=UUID, serial=SERIAL)))
        world.pass_time(minutes=1)
    faults = [found for found in told(Timeline(world.table), device=name) if "Fault" in found[1]]
    assert faults == [("n-1", "Node Fault Detected"), ("n-2", "Node Fault Detected")]


def test_what_was_known_by_its_uuid_alone_belongs_to_the_device_too() -> None:
    world = LedgerFixture()
    world.observe_faults(world.register_node("n-1"), fault(component=gpu(uuid=UUID)))
    world.pass_time(minutes=1)
    world.observe_faults(world.register_node("n-2"), fault(component=gpu(uuid=UUID, serial=SERIAL)))
    assert [node for node, _ in told(Timeline(world.table), device=UUID)] == ["n-1", "n-2"]


def test_boards_that_share_a_serial_number_are_told_apart_by_uuid() -> None:
    world = LedgerFixture()
    world.observe_faults(world.register_node("n-1"), fault(component=gpu(uuid=UUID, serial=SERIAL)))
    world.pass_time(minutes=1)
    world.observe_faults(world.register_node("n-2"), fault(component=gpu(uuid="GPU-other", serial=SERIAL)))
    timeline = Timeline(world.table)
    assert {node for node, _ in told(timeline, device=UUID)} == {"n-1"}
    assert {node for node, _ in told(timeline, device=SERIAL)} == {"n-1", "n-2"}


def test_a_device_is_told_within_a_cluster_only_when_one_is_named() -> None:
    world = LedgerFixture()
    world.observe_faults(world.register_node("n-1"), fault(component=gpu(serial=SERIAL)))
    assert told(Timeline(world.table), device=SERIAL, cluster="another") == []


def test_a_job_leads_to_the_entries_that_name_it() -> None:
    world = LedgerFixture()
    for node in ("n-1", "n-2"):
        key = world.register_node(node)
        world.pass_time(minutes=1)
        world.note(key, "hit", data={"kind": "operator", "text": "hit", "job_id": "4711"})
        world.note(key, "not hit")
    timeline = Timeline(world.table)
    assert [node for node, _ in told(timeline, cluster="train-a", job="4711")] == ["n-1", "n-2"]
    assert told(timeline, cluster="train-a", job="4712") == []
    first, token = timeline.page(Wanted("train-a", job="4711"), 1)
    rest, end = timeline.page(Wanted("train-a", job="4711"), 1, token)
    assert [line.event["metadata"]["node"] for line in (*first, *rest)] == ["n-1", "n-2"]
    assert end is None


def test_a_code_lets_its_own_entries_through() -> None:
    world = LedgerFixture()
    key = world.register_node("n-1")
    world.observe_faults(key, fault(), fault("xid.92"))
    kinds = told(Timeline(world.table), cluster="train-a", codes=("xid.92",))
    assert (key.node, EntryType.FAULT_DETECTED.value) in kinds
    codes = [line.event["data"]["code"] for line in Timeline(world.table).entries(Wanted("train-a", codes=("xid.92",)))]
    assert set(codes) == {"xid.92"}


def test_a_case_of_another_cluster_is_not_told() -> None:
    world = LedgerFixture()
    case = world.observe_faults(world.register_node("n-1")).live_case
    assert case is not None
    assert told(Timeline(world.table), case=case.id, cluster="train-a")
    assert told(Timeline(world.table), case=case.id, cluster="another") == []
