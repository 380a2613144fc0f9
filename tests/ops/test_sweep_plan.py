"""The plan of a sweep: which clusters and which partitions of the work index it reads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.cluster.config import MAX_SHARDS
from faultbridge.model.errors import Transient
from faultbridge.model.storage import rejects
from faultbridge.model.storage.rejects import Reject
from faultbridge.model.storage.wire.message import Message
from faultbridge.model.storage.writes import NUMBERS, Work
from faultbridge.serve.ops.sweep import list_clusters, narrowed, numbers_to_read, plan_for
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import raise_once

QUARTER_PAST = datetime(2026, 2, 3, 12, 15, tzinfo=UTC)
names = st.text("abcdefgh-0123456789", min_size=1, max_size=12)


@given(names, st.integers(1, MAX_SHARDS), st.data(), names)
def test_a_sweep_reads_the_partition_of_every_row_of_a_registered_cluster(cluster, shards, data, name):
    shard = data.draw(st.integers(0, shards - 1))
    plan = plan_for((cluster,), {cluster: shards}, QUARTER_PAST)
    for kind in (Work.UNPUBLISHED, Work.TIMER):
        assert kind.row(cluster, shard, name, "now")["gsi4pk"] in set(plan.partitions(kind))


@given(names, st.integers(1, MAX_SHARDS), names)
def test_a_sweep_reads_the_retries_of_a_cluster_in_few_partitions_whatever_its_size(cluster, shards, record_id):
    plan = plan_for((cluster,), {cluster: shards}, QUARTER_PAST)
    message = Message(record_id, "kernel-log", cluster, QUARTER_PAST)
    row = rejects.item(Reject(cluster, message, "unknown_node", "", QUARTER_PAST, due_at=QUARTER_PAST))
    assert row["gsi4pk"] in set(plan.partitions(Work.RETRY))
    assert len(set(plan.partitions(Work.RETRY))) <= 4


@given(names)
def test_a_sweep_reads_the_retries_of_records_of_unregistered_clusters(record_id):
    row = Work.RETRY.row("-", 0, record_id, "now")
    assert row["gsi4pk"] in set(Work.RETRY.partitions(numbers_to_read({}, QUARTER_PAST)))


def test_a_small_cluster_costs_few_reads_and_a_large_one_uses_every_partition():
    assert len(numbers_to_read({"train-a": 1}, QUARTER_PAST)) <= 4
    assert sorted(numbers_to_read({"train-a": MAX_SHARDS}, QUARTER_PAST)) == list(NUMBERS)


def test_the_first_sweep_of_an_hour_reads_every_partition_because_an_earlier_release_used_others():
    for minute in range(60):
        numbers = numbers_to_read({"train-a": 1}, QUARTER_PAST.replace(minute=minute))
        assert (len(numbers) == len(NUMBERS)) is (minute == 0)


def test_the_order_of_the_partitions_changes_from_minute_to_minute():
    orders = {tuple(numbers_to_read({"a": 8}, QUARTER_PAST + timedelta(minutes=minute))) for minute in range(40)}
    assert len(orders) > 30
    assert {frozenset(order) for order in orders} == {frozenset(NUMBERS)}


def test_the_plan_has_the_registered_clusters():
    world = World()
    plan = narrowed(list_clusters(world.table, QUARTER_PAST), world.table, QUARTER_PAST)
    assert plan.clusters == [CLUSTER]
    assert 2 <= len(plan.numbers) <= 4


def test_if_a_registration_cannot_be_read_a_sweep_processes_every_partition_and_cluster():
    world = World()
    world.fault(code="xid.92")
    world.clock.advance(timedelta(minutes=75))
    world.seam.before = raise_once(("table.get_many", Transient("throttled")))
    swept = world.sweep.run()
    assert (swept.ticked, swept.clusters) == (1, 1)
    assert any("reading the sizes of the clusters" in line for line in swept.failures)
