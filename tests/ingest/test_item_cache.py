"""Lookups: what a warm worker remembers, and for how long it may be wrong."""

from __future__ import annotations

from faultbridge.ingest.caches import ItemCache
from faultbridge.simulation.fakes import FakeTable, ManualClock, Seam
from faultbridge.storage import keys
from faultbridge.storage.writes import Put
from tests.builders import NOON


def bench() -> tuple[ItemCache, FakeTable, ManualClock, Seam]:
    clock, seam = ManualClock(NOON), Seam()
    table = FakeTable(clock, seam=seam)
    return ItemCache(table, clock), table, clock, seam


def put(table: FakeTable, key: keys.Key, **attributes: str) -> None:
    table.write(Put({"pk": key.pk, "sk": key.sk, **attributes}))


def test_a_name_is_looked_up_once_in_ten_minutes():
    item_cache, table, clock, seam = bench()
    name = keys.alias("name", "train-a/n")
    put(table, name, leads="here")
    for _ in range(3):
        assert item_cache.get(name)["leads"] == "here"
        clock.advance(15)
    assert len(seam.named("table.get_many")) == 1
    clock.advance(600)
    item_cache.get(name)
    assert len(seam.named("table.get_many")) == 2


def test_a_registration_takes_effect_within_seconds():
    item_cache, table, clock, _ = bench()
    config = keys.cluster_config("train-a")
    put(table, config, mode="observe")
    item_cache.get(config)
    put(table, config, mode="act")
    clock.advance(15)
    assert item_cache.get(config)["mode"] == "act"


def test_a_node_that_is_registered_now_is_known_now():
    item_cache, table, _, _ = bench()
    name = keys.alias("name", "train-a/late")
    assert item_cache.get(name) is None
    put(table, name, leads="here")
    assert item_cache.get(name) is not None


def test_that_nobody_put_a_policy_is_remembered():
    item_cache, _, _, seam = bench()
    assert item_cache.get(keys.CURRENT_POLICY) is None
    assert item_cache.get(keys.CURRENT_POLICY) is None
    assert len(seam.named("table.get_many")) == 1


def test_what_is_soon_forgotten_is_renewed_with_the_next_read_of_anything_else():
    item_cache, table, clock, seam = bench()
    name, config, other = keys.alias("name", "train-a/n"), keys.cluster_config("train-a"), keys.alias("name", "x")
    for key in (name, config, other):
        put(table, key, leads="here")
    item_cache.get_many([name, config])
    clock.advance(8)
    item_cache.get_many([name, config])
    put(table, config, leads="there")
    assert set(item_cache.read([other])) == {other, config}
    clock.advance(12)
    assert item_cache.get(config)["leads"] == "there"
    assert [len(call.argument) for call in seam.named("table.get_many")] == [2, 2]


def test_a_read_renews_no_more_than_fits_into_one_call():
    item_cache, table, clock, seam = bench()
    names = [keys.alias("name", f"train-a/{number}") for number in range(150)]
    for name in names:
        put(table, name, leads="here")
    item_cache.get_many(names)
    clock.advance(300)
    item_cache.get_many(names)
    item_cache.read(keys.alias("name", f"x/{number}") for number in range(60))
    assert len(seam.named("table.get_many")[-1].argument) == 100
    item_cache.read(keys.alias("name", f"x/{number}") for number in range(120))
    assert len(seam.named("table.get_many")[-1].argument) == 120


def test_a_read_tells_what_is_stored_now():
    item_cache, table, _, _ = bench()
    name = keys.alias("name", "train-a/n")
    put(table, name, leads="here")
    item_cache.get(name)
    put(table, name, leads="there")
    assert item_cache.read([name])[name]["leads"] == "there"
