"""Health snapshots written with heartbeats: states are written rarely, and an older snapshot still has no effect."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.records import Outcome
from faultbridge.model.storage import heartbeats, keys
from faultbridge.model.storage.writes import Put
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.ingest import heartbeat_log
from faultbridge.serve.ingest.outcomes import GiveBackReason
from faultbridge.serve.ingest.record_reader import Delivery
from tests.builders import KEY, NOON, after
from tests.sim.environment.samples import dcgm_health
from tests.sim.fakes.seam import Call
from tests.world import XID_79, World


def snapshot(world: World, failed: str = "", node: str = KEY.node, **others: object) -> Delivery:
    """Return a health snapshot of DCGM, whose memory check fails or not."""
    return world.message(dcgm_health(failed, 0), source="dcgm-health", node=node, **others)


def beat(world: World, node: str = KEY.node) -> Delivery:
    body = json.dumps({"heartbeat": 1, "at": to_text(world.now)})
    return world.message(body, source="heartbeat", node=node)


def deliver(world: World, *deliveries: Delivery) -> list[Outcome]:
    """Ingest deliveries and return the outcomes of those that are no heartbeats."""
    ids = {record.ids().record_id for one in deliveries for record in one.records() if "heartbeat" not in record.text}
    outcomes = wire_ingest(world.app).ingest(deliveries).outcomes
    return [outcomes[record_id] for record_id in sorted(ids)]


def start_another_worker(world: World) -> None:
    """Replace the process, so that everything only in memory is lost."""
    del world.app


def states_written(world: World) -> int:
    key = keys.node_state(KEY)
    return sum(call.argument.key == key for call in world.ports.seam.named("table.write"))


@pytest.fixture
def world() -> World:
    """Return a world whose node sent a clean snapshot at noon, which is stored, and a newer one that is not."""
    world = World(nodes=(KEY.node, "other"))
    wire_ingest(world.app).ingest([snapshot(world), beat(world), snapshot(world, node="other")])
    world.ports.clock.advance(timedelta(minutes=9))
    wire_ingest(world.app).ingest([snapshot(world), beat(world)])
    world.ports.clock.advance(timedelta(seconds=30))
    assert world.node().snapshots == {"dcgm-health": NOON, "heartbeat": NOON}
    return world


def conditions(world: World, node: str = KEY.node) -> set[str]:
    return set(world.node(KEY._replace(node=node)).conditions)


def test_a_snapshot_written_with_a_heartbeat_needs_no_write_of_the_state_for_two_hours() -> None:
    world = World()
    wire_ingest(world.app).ingest([snapshot(world), beat(world)])
    before = states_written(world)
    for _ in range(13):
        world.ports.clock.advance(timedelta(minutes=9))
        wire_ingest(world.app).ingest([snapshot(world), beat(world)])
    assert states_written(world) == before
    world.ports.clock.advance(timedelta(minutes=9))
    wire_ingest(world.app).ingest([snapshot(world), beat(world)])
    assert states_written(world) == before + 1


def test_a_snapshot_without_a_heartbeat_is_stored_with_the_state_after_ten_minutes() -> None:
    world = World()
    wire_ingest(world.app).ingest([snapshot(world)])
    world.ports.clock.advance(timedelta(minutes=11))
    wire_ingest(world.app).ingest([snapshot(world)])
    assert world.node().snapshots == {"dcgm-health": world.now}


def test_an_older_snapshot_with_a_fault_opens_no_condition_in_another_worker(world: World) -> None:
    late = snapshot(world, "Memory system", sent_at=after(minutes=5))
    start_another_worker(world)
    assert deliver(world, late) == [Outcome.STALE]
    assert conditions(world) == set()


@pytest.mark.parametrize("hours", [1, 2])
def test_an_older_snapshot_has_no_effect_hours_later(world: World, hours: int) -> None:
    late = snapshot(world, "Memory system", sent_at=after(minutes=5))
    world.ports.clock.advance(timedelta(hours=hours))
    start_another_worker(world)
    assert deliver(world, late) == [Outcome.STALE]


def test_a_newer_snapshot_with_a_fault_opens_a_condition_in_another_worker(world: World) -> None:
    start_another_worker(world)
    assert deliver(world, snapshot(world, "Memory system")) == [Outcome.RECORDED]
    assert len(conditions(world)) == 1


def test_the_snapshots_of_one_node_do_not_make_those_of_another_node_old(world: World) -> None:
    late = snapshot(world, "Memory system", node="other", sent_at=after(minutes=5))
    start_another_worker(world)
    assert deliver(world, late) == [Outcome.RECORDED]
    assert (conditions(world), len(conditions(world, "other"))) == (set(), 1)


def test_after_a_conflict_an_older_snapshot_still_opens_no_condition(world: World) -> None:
    late = snapshot(world, "Memory system", sent_at=after(minutes=5))
    start_another_worker(world)
    app, done = world.app, []

    def write_before(call: Call) -> None:
        if call.name == "table.transact" and not done:
            done.append(True)
            other = Put({"pk": "OTHER", "sk": "OTHER"})
            app.append(KEY, lambda state, _: Transition(state, (), (other,)), actor=Actor.CLI)

    world.ports.seam.before = write_before
    assert sorted(deliver(world, late, world.message(XID_79))) == [Outcome.RECORDED, Outcome.STALE]
    assert done
    assert {key.partition("@")[0] for key in conditions(world)} == {"gpu.lost"}


def test_when_stored_snapshots_cannot_be_read_only_the_node_with_a_new_fault_waits(world: World) -> None:
    start_another_worker(world)

    def fail(call: Call) -> None:
        if call.name == "table.query" and call.argument[0] == heartbeats.partition(KEY.cluster):
            raise Transient("throttled")

    faulty, other = snapshot(world, "Memory system"), world.message(XID_79, node="other")
    world.ports.seam.before = fail
    result = wire_ingest(world.app).ingest([faulty, other])
    world.ports.seam.before = lambda _: None
    assert result.failed == {faulty.id: "state_unavailable"}
    assert (conditions(world), len(conditions(world, "other"))) == (set(), 1)


def test_a_snapshot_whose_heartbeat_is_not_written_is_delivered_again(world: World) -> None:
    def fail(call: Call) -> None:
        if call.name == "table.write" and call.argument.key.pk == heartbeats.partition(KEY.cluster):
            raise Transient("throttled")

    world.ports.clock.advance(timedelta(minutes=9))
    at: datetime = world.now
    clean, heartbeat = snapshot(world), beat(world)
    world.ports.seam.before = fail
    assert heartbeat.id in wire_ingest(world.app).ingest([clean, heartbeat]).failed
    world.ports.seam.before = lambda _: None
    assert wire_ingest(world.app).ingest([heartbeat]).failed == {}
    start_another_worker(world)
    late = snapshot(world, "Memory system", sent_at=at - timedelta(minutes=1))
    assert deliver(world, late) == [Outcome.STALE]


def test_heartbeats_of_a_cluster_whose_policy_cannot_be_read_keep_no_other_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise Misconfigured("unknown policy version")

    monkeypatch.setattr(heartbeat_log, "rules_of", fail)
    heartbeat = beat(world)
    result = wire_ingest(world.app).ingest([heartbeat, world.message(XID_79, node="other")])
    assert list(result.failed) == [heartbeat.id]
    assert Outcome.RECORDED in result.outcomes.values()


class UnreadableRules:
    """A rulebook that cannot be read."""

    def config(self, cluster: str) -> None:
        raise Transient(f"the policy of {cluster} cannot be read")


def test_a_heartbeat_whose_log_fails_does_not_count_as_written() -> None:
    world = World()
    wire_ingest(world.app).ingest([snapshot(world), beat(world)])
    world.ports.clock.advance(timedelta(minutes=11))
    ingest = wire_ingest(world.app)
    rules: Any = UnreadableRules()
    failing = replace(ingest, heartbeats=replace(ingest.heartbeats, rulebook=rules))
    result = failing.ingest([snapshot(world), late := beat(world)])
    assert result.failed == {late.id: GiveBackReason.HEARTBEATS_UNAVAILABLE}
    assert world.node().snapshots["dcgm-health"] == world.now
