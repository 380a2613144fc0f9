"""Sweep: performs due and unfinished work; a failed part does not stop the others."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace

from faultbridge.model.enums import CaseStatus, NodeStatus, ProviderFailure
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.policy import Match, Rule
from faultbridge.model.storage import keys
from faultbridge.model.storage.items import config_item, item
from faultbridge.model.storage.writes import Key, Put, Work
from faultbridge.model.values import replace
from faultbridge.record.queries import cluster_config
from faultbridge.serve.ops.sweep import Sweep, list_clusters, narrowed
from tests.jobs.builders import repaired
from tests.jobs.resume import changes
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import Call


def test_a_condition_without_new_reports_ends_after_its_time():
    world = World()
    world.fault(code="xid.92")
    assert world.status() is NodeStatus.DEGRADED
    world.advance_minutes(61)
    assert world.status() is NodeStatus.HEALTHY


def test_a_case_is_queued_when_its_waiting_period_ends():
    world = World(rules=(Rule("wait-90-seconds", Match(codes=("xid.79",)), wait_seconds=90),))
    world.fault_and_react(minutes=1)
    assert world.case().status is CaseStatus.OPEN
    world.advance_minutes()
    assert world.case().status is not CaseStatus.OPEN


def test_an_entry_that_the_stream_lost_is_published_after_two_minutes():
    world = World()
    world.clock.advance(timedelta(minutes=2) - timedelta(seconds=1))
    assert world.sweep.run().published == 0
    world.clock.advance(1)
    assert world.sweep.run().published == 2  # the registration of the node and the first status of the cluster
    assert world.sweep.run().published == 0
    assert {key.pk for key in world.published} == {"NODE#train-a#node-1", "CLUSTER#train-a"}
    assert all(key.sk.startswith(keys.ENTRY) for key in world.published)


def test_a_due_reject_is_retried():
    world = World()
    retried: list[Key] = []
    key = keys.reject("-", world.clock.now(), "r-1")
    due = Work.RETRY.row("-", 0, "r-1", "2026-02-03T12:00:00.000Z")
    world.table.write(Put(item(key, world.clock.now(), due)))
    sweep = replace(world.sweep, retry_reject=retried.append)
    assert sweep.run().rejects == 1
    assert retried == [key]


def test_a_failed_part_is_reported_and_logged_and_the_others_run(caplog):
    world = World(nodes=2)

    def refuse(_: object) -> None:
        raise Transient("the bus is down")

    world.fault(1, code="xid.92")
    world.clock.advance(timedelta(hours=2))
    swept = replace(world.sweep, publish=refuse).run()
    assert all("the bus is down" in line for line in swept.failures)
    assert swept.failures
    lines = [line for line in caplog.records if line.message == "part_failed"]
    assert [f"{line.part}: {line.reason}" for line in lines] == swept.failures
    assert (swept.ticked, swept.clusters) == (1, 1)


def test_the_sweep_starts_a_repair_whose_trigger_was_lost():
    world = World()
    world.fault()
    world.sweep.run()
    assert world.case().status is CaseStatus.IN_PROGRESS


def test_a_sweep_without_time_stops_and_reports_itself_unfinished():
    world = World()
    world.fault(code="xid.92")
    world.clock.advance(timedelta(hours=2))
    swept = world.sweep.run(seconds=0)
    assert (swept.unfinished, swept.ticked) == (True, 0)
    assert world.sweep.run().unfinished is False


def test_a_node_of_an_unregistered_cluster_is_reported_and_stops_no_other_work():
    world = World(nodes=1)
    lost = keys.node_state(world.key(9)._replace(cluster="gone"))
    due = Work.TIMER.row("gone", 0, "gone/node-9", "2026-02-03T12:00:00.000Z")
    world.table.write(Put(item(lost, world.clock.now(), due)))
    swept = world.sweep.run()
    assert any(Misconfigured.__name__ in line for line in swept.failures)
    assert swept.clusters == 1


def overloaded(world: World, clusters: int) -> tuple[Sweep, list[str]]:
    """Return a sweep in which each cluster takes half a minute, and the list of clusters in the order processed."""
    processed: list[str] = []

    def slow(cluster: str) -> None:
        processed.append(cluster)
        world.clock.advance(30)

    for number in range(clusters):
        key = keys.cluster_listed(f"train-{number}")
        world.table.write(Put(item(key, world.clock.now(), {"cluster": key.sk})))
    updates, dispatch = SimpleNamespace(update=slow), SimpleNamespace(admit_cases=lambda _: ())
    steps = replace(world.sweep.cluster_steps, breakers=updates, rollup=updates, dispatch=dispatch)
    return replace(world.sweep, cluster_steps=steps), processed


def test_under_overload_every_cluster_is_processed_although_no_sweep_finishes():
    world = World()
    sweep, processed = overloaded(world, 12)
    for _ in range(120):
        assert sweep.run().unfinished
        world.clock.advance(timedelta(minutes=1))
    assert set(processed) == {f"train-{number}" for number in range(12)} | {"train-a"}
    assert len(processed) < 13 * 120 / 2


def test_slow_publication_leaves_every_other_part_its_share_of_time():
    world = World(nodes=24)
    for node in range(1, 25):
        world.fault(node, code="xid.92")
    world.clock.advance(timedelta(hours=2))
    swept = replace(world.sweep, publish=lambda _: world.clock.advance(15)).run()
    assert swept.unfinished
    assert (swept.ticked, swept.clusters) == (24, 1)


def test_under_overload_every_partition_of_retries_is_processed_eventually():
    world = World()
    now = world.clock.now()
    for number in range(12):
        config = replace(cluster_config(world.table, CLUSTER), cluster=f"train-{number}")
        listed = keys.cluster_listed(config.cluster)
        world.table.write(Put(config_item(config, now)))
        world.table.write(Put(item(listed, now, {"cluster": listed.sk})))
    at_no_full_hour = now.replace(minute=30)
    plan = narrowed(list_clusters(world.table, at_no_full_hour), world.table, at_no_full_hour)
    used = set(plan.partitions(Work.RETRY))
    assert len(used) > 10
    for partition in used:
        key = keys.reject("-", now, partition)
        world.table.write(Put(item(key, now, {"gsi4pk": partition, "gsi4sk": "2026-02-03T12:00:00.000Z"})))
    retried: set[str] = set()

    def slow(key: Key) -> None:
        retried.add(key.sk)
        world.clock.advance(30)

    sweep = replace(world.sweep, retry_reject=slow)
    for _ in range(100):
        assert sweep.run().rejects <= 3
        world.clock.advance(timedelta(minutes=1))
    assert len(retried) == len(used)


def test_after_the_time_of_its_part_a_sweep_delivers_the_callbacks_of_no_further_cluster():
    world = World()
    for name in ("train-b", "train-c"):
        config = replace(cluster_config(world.table, CLUSTER), cluster=name)
        world.table.write(Put(config_item(config, world.clock.now())))
        world.table.write(Put(item(keys.cluster_listed(name), world.clock.now(), {"cluster": name})))
    delivered: list[str] = []

    def slow(cluster: str, _until: datetime) -> None:
        delivered.append(cluster)
        world.clock.advance(30)

    steps = replace(world.sweep.cluster_steps, has_callbacks=lambda _: True)
    swept = replace(world.sweep, cluster_steps=steps, deliver_callbacks=slow).run()
    assert (len(swept.with_callbacks), len(delivered), swept.unfinished) == (3, 1, True)


def test_after_the_time_of_its_part_a_sweep_isolates_no_further_node_and_runs_the_other_steps():
    world = World(nodes=3, orchestrated=True)
    world.pause_repairs(paused=True)
    for node in (1, 2, 3):
        world.fault(node)

    def take_half_a_minute(call: Call) -> None:
        if call.name == "orchestrator.cordon":
            world.clock.advance(30)

    world.seam.before = take_half_a_minute
    swept = world.sweep.run()
    assert (world.orchestrator.cordoned, swept.unfinished) == ({"node-1"}, True)
    assert swept.node_counts[CLUSTER] == {"quarantined": 1, "degraded": 2}
    for _ in range(2):
        world.sweep.run()
    assert world.orchestrator.cordoned == {"node-1", "node-2", "node-3"}


def test_rejects_are_retried_after_all_nodes_and_clusters_and_leave_them_their_time():
    world = World()
    world.fault(code="xid.92")
    for number in range(50):
        key = keys.reject("-", world.clock.now(), str(number))
        due = Work.RETRY.row("-", 0, str(number), "2026-02-03T12:00:00.000Z")
        world.table.write(Put(item(key, world.clock.now(), due)))
    world.clock.advance(timedelta(hours=2))
    swept = replace(world.sweep, retry_reject=lambda _: world.clock.advance(5)).run()
    assert (swept.ticked, swept.clusters, swept.unfinished) == (1, 1, True)
    assert 0 < swept.rejects < 50


def test_a_sweep_without_work_reads_each_shard_of_a_cluster_once():
    world = World(nodes=3)
    world.fault(code="xid.92")
    world.advance_minutes(2)
    world.seam.calls.clear()
    world.sweep.run()
    shard = keys.shard_partition("train-a", 0)
    assert [call.argument for call in world.seam.calls if call.name == "table.query" and call.argument[0] == shard] == [
        (shard, None)
    ]


def test_a_sweep_reads_the_registration_and_the_policy_of_a_cluster_in_one_call():
    world = World(nodes=3)
    world.advance_minutes(2)
    world.seam.calls.clear()
    world.sweep.run()
    alone = {call.argument for call in world.seam.calls if call.name == "table.get"}
    assert alone.isdisjoint({keys.cluster_config("train-a"), keys.CURRENT_POLICY})


def test_repairs_start_before_job_callbacks_are_delivered_because_a_receiver_may_be_slow():
    world = repaired("webhook", failures=[ProviderFailure.TIMEOUT] * 1000)
    world.until(lambda: "resumable" in changes(world))
    world.fault(2)
    seen = []
    replace(world.sweep, deliver_callbacks=lambda cluster, _: seen.append((cluster, world.case(2).status))).run()
    assert seen == [(CLUSTER, CaseStatus.IN_PROGRESS)]
