"""Every entry names what caused it, and the chain of a case leads from its first fault to its last entry."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.enums import Actor
from faultbridge.model.errors import Conflict, Rejected
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Put
from faultbridge.record import causes
from faultbridge.record.causes import Relation, read_chain
from faultbridge.serve.ops.react import status_causes
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import raise_once


def by_id(world: World) -> dict[str, dict[str, Any]]:
    """Return every entry of the node and its cluster by event id."""
    return {body["metadata"]["event_id"]: body for body in (*world.bodies(), *world.bodies(None))}


def chain(world: World, body: dict[str, Any]) -> list[str]:
    """Return the event types from an entry back to the start of its chain, and the id that started it."""
    found, cause = [body["metadata"]["event_type"]], body["metadata"]["causation_id"]
    while cause in (known := by_id(world)):
        found.append(known[cause]["metadata"]["event_type"])
        cause = known[cause]["metadata"]["causation_id"]
    return [*found, str(cause)]


def test_only_the_registration_of_a_node_has_no_cause() -> None:
    world = World()
    world.fault_until_resolved()
    world.advance_minutes()
    without = [body for body in (*world.bodies(), *world.bodies(None)) if body["metadata"]["causation_id"] is None]
    assert [body["data"]["reason"] for body in without] == ["import of a serving fleet, unverified"]


def test_the_last_entry_of_a_case_leads_back_to_the_record_of_its_fault() -> None:
    world = World()
    world.fault_until_resolved()
    closing = next(body for body in world.bodies() if body["data"].get("resolution"))
    links = chain(world, closing)
    assert links[-3:] == ["Case Status Change", "Node Fault Detected", "r-1"]
    assert links.count("Node Replacement Step") >= 5


def test_a_fault_that_joins_a_case_does_not_divert_its_chain() -> None:
    world = World()
    world.fault(code="xid.48")
    world.fault_until_resolved(code="xid.79")
    closing = next(body for body in world.bodies() if body["data"].get("resolution"))
    assert by_id(world)[_opening(world)["metadata"]["causation_id"]]["data"]["code"] == "xid.48"
    assert _opening(world)["metadata"]["event_id"] in _ancestors(world, closing)


def test_a_cluster_status_is_caused_by_the_status_change_that_triggered_it() -> None:
    world = World()
    world.until(lambda: bool(world.bodies(None)))
    world.fault()
    items = world.table.query(keys.node_partition(world.key()), prefix=keys.ENTRY).items
    world.react.run([(CLUSTER, world.key().node)], status_causes(items))
    degraded = next(body for body in world.bodies() if body["data"].get("to") == "degraded")
    assert _cause_of_cluster_status(world)["metadata"]["event_id"] == degraded["metadata"]["event_id"]


def test_a_cluster_status_that_the_sweep_records_is_caused_by_the_last_status_change_of_an_unhealthy_node() -> None:
    world = World()
    world.fault()
    world.sweep.run()
    assert _cause_of_cluster_status(world)["data"]["to"] == "quarantined"


def test_a_clear_after_the_quiet_period_is_caused_by_the_detection() -> None:
    world = World()
    world.fault(code="xid.92")
    world.clock.advance(timedelta(hours=2))
    world.advance_minutes()
    detected, cleared = (
        next(body for body in world.bodies() if body["metadata"]["event_type"] == f"Node Fault {kind}")
        for kind in ("Detected", "Cleared")
    )
    assert cleared["metadata"]["causation_id"] == detected["metadata"]["event_id"]


def test_a_commit_that_is_retried_names_the_same_cause() -> None:
    plain, raced = World(), World()
    raced.seam.before = raise_once(("table.transact", Conflict("another writer was faster")))
    for world in (plain, raced):
        world.fault_until_resolved()
    causes = [
        [(body["metadata"]["event_id"], body["metadata"]["causation_id"]) for body in world.bodies()]
        for world in (plain, raced)
    ]
    assert causes[0] == causes[1]


def test_an_order_of_an_operator_starts_a_chain() -> None:
    world = World()
    world.pause_repairs(paused=True)
    world.pause_repairs(paused=False)
    paused, resumed = (body["metadata"] for body in world.bodies(None) if body["data"].get("kind") == "pause")
    assert (paused["causation_id"], paused["recorded_by"]) == (None, Actor.CLI)
    assert resumed["causation_id"] == paused["event_id"]


def test_the_chain_of_any_entry_of_a_case_reaches_its_first_fault_and_its_last_entry() -> None:
    world = World()
    world.fault_until_resolved()
    world.advance_minutes()
    opened, closing = _opening(world), next(body for body in world.bodies() if body["data"].get("resolution"))
    middle = next(body for body in world.bodies() if body["data"].get("step") == "intent")
    for body in (opened, middle, closing):
        chain = read_chain(world.table, body["metadata"]["event_id"])
        found = {link.line.event.metadata.event_id: link for link in chain.links}
        first = found[opened["metadata"]["causation_id"]]
        assert (first.relation, chain.record, chain.complete) == (Relation.CAUSE, "r-1", True)
        assert closing["metadata"]["event_id"] in found
        assert found[body["metadata"]["event_id"]].distance == 0
    assert {link.relation for link in read_chain(world.table, "r-1").links} == {Relation.EFFECT}


def test_a_chain_is_in_the_order_of_recording_and_counts_the_steps_to_each_cause() -> None:
    world = World()
    world.fault_until_resolved()
    closing = next(body for body in world.bodies() if body["data"].get("resolution"))
    links = read_chain(world.table, closing["metadata"]["event_id"]).links
    positions = [link.line.position for link in links]
    assert positions == sorted(positions)
    distances = sorted(link.distance for link in links if link.relation is Relation.CAUSE)
    assert len(distances) > 1
    assert distances == [*range(1, len(distances) + 1)]


def test_a_chain_contains_only_causes_and_effects() -> None:
    world = World(nodes=2)
    world.fault(node=1)
    world.fault_until_resolved(node=2)
    chain = read_chain(world.table, _opening(world)["metadata"]["event_id"])
    assert {link.line.event.metadata.node for link in chain.links} <= {"node-1", None}
    assert [link.relation for link in chain.links].count(Relation.EVENT) == 1


@pytest.mark.parametrize("limit", [1, 3])
def test_a_chain_with_more_causes_than_the_limit_is_incomplete_and_names_no_record(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.fault_until_resolved()
    closing = next(body for body in world.bodies() if body["data"].get("resolution"))["metadata"]["event_id"]
    every = read_chain(world.table, closing)
    nearest = sorted(one.distance for one in every.links if one.relation is Relation.CAUSE)[:limit]
    assert (every.record, every.complete) == ("r-1", True)
    monkeypatch.setattr(causes, "MAX_LINKS", limit)
    cut = read_chain(world.table, closing)
    assert (cut.record, cut.complete) == (None, False)
    assert sorted(one.distance for one in cut.links if one.relation is Relation.CAUSE) == nearest


def test_a_chain_with_as_many_causes_as_the_limit_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.fault_until_resolved()
    last = next(body for body in world.bodies() if body["data"].get("resolution"))["metadata"]["event_id"]
    every = read_chain(world.table, last)
    count = sum(one.relation is Relation.CAUSE for one in every.links)
    monkeypatch.setattr(causes, "MAX_LINKS", count)
    assert read_chain(world.table, last) == every


def test_a_chain_returns_the_nearest_effects_and_states_whether_it_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.fault_until_resolved()
    every = read_chain(world.table, "r-1")
    count = len(every.links)
    monkeypatch.setattr(causes, "MAX_LINKS", count)
    assert read_chain(world.table, "r-1") == every
    monkeypatch.setattr(causes, "MAX_LINKS", count - 1)
    cut = read_chain(world.table, "r-1")
    assert (cut.complete, cut.record) == (False, "r-1")
    assert sorted(one.distance for one in cut.links) == sorted(one.distance for one in every.links)[:-1]


def test_an_unknown_event_has_no_chain() -> None:
    with pytest.raises(Rejected, match="unknown event"):
        read_chain(World().table, "0b8e1c9a-51c7-5a39-9d4e-2f6f6f0f7d11")


def _opening(world: World) -> dict[str, Any]:
    return next(body for body in world.bodies() if body["metadata"]["case_id"] and body["data"].get("from", "") is None)


def _ancestors(world: World, body: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    known, cause = by_id(world), body["metadata"]["causation_id"]
    while cause in known:
        found.add(cause)
        cause = known[cause]["metadata"]["causation_id"]
    return found


def _cause_of_cluster_status(world: World) -> dict[str, Any]:
    last = [body for body in world.bodies(None) if body["metadata"]["event_type"] == "Cluster Status Change"][-1]
    return by_id(world)[last["metadata"]["causation_id"]]


def test_the_search_for_causes_ends_in_a_damaged_table_where_an_entry_is_its_own_cause() -> None:
    world = World()
    world.fault_until_resolved()
    closing = next(body for body in world.bodies() if body["data"].get("resolution"))["metadata"]["event_id"]
    first = _opening(world)["metadata"]
    (item,) = (one for one in world.table.items() if one.get("event_id") == first["event_id"])
    body = json.loads(item["body"])
    body["metadata"]["causation_id"] = closing
    world.table.write(Put({**item, "body": json.dumps(body)}))
    assert read_chain(world.table, closing).record is None
