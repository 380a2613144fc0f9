"""The sweep finds what time brings about and what was left undone, and no failure keeps it from the rest."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.policy import Match, Rule
from faultbridge.errors import Misconfigured, Transient
from faultbridge.ops.sweep import Sweep
from faultbridge.storage import keys
from faultbridge.storage.items import item
from faultbridge.storage.writes import Key, Put
from tests.scenarios.world import World


def test_a_quiet_condition_ends_when_its_time_is_over():
    world = World()
    world.fault(code="xid.92")
    assert world.status() is NodeStatus.DEGRADED
    world.advance_minutes(61)
    assert world.status() is NodeStatus.HEALTHY


def test_a_case_is_queued_when_its_wait_is_over():
    world = World(rules=(Rule("patient", Match(codes=("xid.79",)), wait_seconds=90),))
    world.fault()
    world.process_entries()
    world.advance_minutes()
    assert world.case().status is CaseStatus.OPEN
    world.advance_minutes()
    assert world.case().status is not CaseStatus.OPEN


def test_an_entry_that_the_stream_missed_is_published_after_two_minutes():
    world = World()
    world.clock.advance(timedelta(minutes=2) - timedelta(seconds=1))
    assert world.sweep().published == 0
    world.clock.advance(1)
    assert world.sweep().published == 2  # the node's registration and the cluster's first word
    assert world.sweep().published == 0
    assert {key.pk for key in world.published} == {"NODE#train-a#node-1", "CLUSTER#train-a"}
    assert all(key.sk.startswith(keys.ENTRY) for key in world.published)


def test_a_reject_whose_time_has_come_is_tried_again():
    world = World()
    tried: list[Key] = []
    place = keys.reject("-", world.clock.now(), "r-1")
    due = {"gsi4pk": keys.due("r-1"), "gsi4sk": "2026-02-03T12:00:00.000Z"}
    world.table.write(Put(item(place, world.clock.now(), due)))
    sweep = replace(world.sweep, retry_reject=tried.append)
    assert sweep().rejects == 1
    assert tried == [place]


def test_a_part_that_fails_is_reported_and_the_others_are_done():
    world = World(nodes=2)

    def refuse(_: object) -> None:
        raise Transient("the bus is down")

    world.fault(1, code="xid.92")
    world.clock.advance(timedelta(hours=2))
    swept = replace(world.sweep, publish=refuse)()
    assert all("the bus is down" in line for line in swept.failures)
    assert swept.failures
    assert (swept.ticked, swept.clusters) == (1, 1)


def test_a_doorbell_that_was_lost_is_answered_by_the_sweep():
    world = World()
    world.fault()
    world.sweep()
    assert world.case().status is CaseStatus.IN_PROGRESS


def test_a_sweep_stops_in_time_and_says_so():
    world = World()
    world.fault(code="xid.92")
    world.clock.advance(timedelta(hours=2))
    swept = world.sweep(seconds=0)
    assert (swept.unfinished, swept.ticked) == (True, 0)
    assert world.sweep().unfinished is False


def test_a_node_of_a_cluster_that_is_gone_is_reported_and_stops_nobody():
    world = World(nodes=1)
    lost = keys.node_state(world.key(9)._replace(cluster="gone"))
    due = {"gsi4pk": keys.due("gone/node-9"), "gsi4sk": "2026-02-03T12:00:00.000Z"}
    world.table.write(Put(item(lost, world.clock.now(), due)))
    swept = world.sweep()
    assert any(Misconfigured.__name__ in line for line in swept.failures)
    assert swept.clusters == 1


def overloaded(world: World, clusters: int) -> tuple[Sweep, list[str]]:
    """A sweep in which each cluster takes half a minute, and the clusters in the order in which it came to them."""
    looked_after: list[str] = []

    def slow(cluster: str) -> None:
        looked_after.append(cluster)
        world.clock.advance(30)

    for number in range(clusters):
        place = keys.cluster_listed(f"train-{number}")
        world.table.write(Put(item(place, world.clock.now(), {"cluster": place.sk})))
    return replace(world.sweep, guard=slow, release=lambda _: (), rollup=slow, dispatch=lambda _: ()), looked_after


def test_under_overload_every_cluster_has_its_turn_even_if_every_second_sweep_is_lost():
    world = World()
    sweep, looked_after = overloaded(world, 12)
    for _ in range(120):
        assert sweep().unfinished
        world.clock.advance(timedelta(minutes=1))
    assert set(looked_after) == {f"train-{number}" for number in range(12)} | {"train-a"}
    assert len(looked_after) < 13 * 120 / 2


def test_entries_that_take_all_the_time_leave_each_other_part_its_share():
    world = World(nodes=24)
    for node in range(1, 25):
        world.fault(node, code="xid.92")
    world.clock.advance(timedelta(hours=2))
    swept = replace(world.sweep, publish=lambda _: world.clock.advance(15))()
    assert swept.unfinished
    assert (swept.ticked, swept.clusters) == (24, 1)


def test_under_overload_no_shard_of_the_timers_waits_for_ever():
    world = World()
    for shard in keys.TIMERS:
        place = keys.reject("-", world.clock.now(), shard)
        world.table.write(Put(item(place, world.clock.now(), {"gsi4pk": shard, "gsi4sk": "2026-02-03T12:00:00.000Z"})))
    tried: set[str] = set()

    def slow(place: Key) -> None:
        tried.add(place.sk)
        world.clock.advance(30)

    sweep = replace(world.sweep, retry_reject=slow)
    for _ in range(100):
        assert sweep().rejects <= 2
        world.clock.advance(timedelta(minutes=1))
    assert len(tried) == len(keys.TIMERS)
