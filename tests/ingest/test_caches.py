"""Item cache: what a warm process caches, and for how long a cached item may be outdated."""

from __future__ import annotations

from faultbridge.ingest.caches import ItemCache
from faultbridge.ports import UnprocessedKeys
from faultbridge.simulation.fakes import FakeTable, ManualClock, Seam
from faultbridge.simulation.fakes.seam import raise_once
from faultbridge.storage import keys
from faultbridge.storage.writes import Put
from tests.builders import NOON


def setup() -> tuple[ItemCache, FakeTable, ManualClock, Seam]:
    clock, seam = ManualClock(NOON), Seam()
    table = FakeTable(clock, seam=seam)
    return ItemCache(table, clock), table, clock, seam


def put(table: FakeTable, key: keys.Key, **attributes: str) -> None:
    table.write(Put({"pk": key.pk, "sk": key.sk, **attributes}))


def test_an_alias_is_read_once_in_ten_minutes():
    item_cache, table, clock, seam = setup()
    name = keys.alias("name", "train-a/n")
    put(table, name, target="old")
    for _ in range(3):
        assert item_cache.get(name)["target"] == "old"
        clock.advance(15)
    assert len(seam.named("table.get_many")) == 1
    clock.advance(600)
    item_cache.get(name)
    assert len(seam.named("table.get_many")) == 2


def test_a_registration_takes_effect_within_seconds():
    item_cache, table, clock, _ = setup()
    config = keys.cluster_config("train-a")
    put(table, config, mode="observe")
    item_cache.get(config)
    put(table, config, mode="act")
    clock.advance(15)
    assert item_cache.get(config)["mode"] == "act"


def test_a_newly_registered_node_is_found_at_once():
    item_cache, table, _, _ = setup()
    name = keys.alias("name", "train-a/late")
    assert item_cache.get(name) is None
    put(table, name, target="old")
    assert item_cache.get(name) is not None


def test_a_missing_policy_is_cached():
    item_cache, _, _, seam = setup()
    assert item_cache.get(keys.CURRENT_POLICY) is None
    assert item_cache.get(keys.CURRENT_POLICY) is None
    assert len(seam.named("table.get_many")) == 1


def test_an_item_that_expires_soon_is_refreshed_with_the_next_fresh_read():
    item_cache, table, clock, seam = setup()
    name, config, other = keys.alias("name", "train-a/n"), keys.cluster_config("train-a"), keys.alias("name", "x")
    for key in (name, config, other):
        put(table, key, target="old")
    item_cache.get_many([name, config])
    clock.advance(8)
    item_cache.get_many([name, config])
    put(table, config, target="new")
    assert set(item_cache.read_fresh([other])) == {other, config}
    clock.advance(12)
    assert item_cache.get(config)["target"] == "new"
    assert [len(call.argument) for call in seam.named("table.get_many")] == [2, 2]


def test_an_item_that_a_read_left_out_is_not_taken_as_missing():
    item_cache, table, clock, seam = setup()
    name, other = keys.alias("name", "train-a/n"), keys.alias("name", "x")
    for key in (name, other):
        put(table, key, target="old")
    item_cache.get(name)
    clock.advance(300)
    item_cache.get(name)
    partial = UnprocessedKeys("throttled", {other: {"target": "old"}}, [name])
    seam.before = raise_once(("table.get_many", partial))
    assert set(item_cache.read_fresh([other])) == {other}
    assert item_cache.get(name) is not None


def test_a_fresh_read_refreshes_no_more_items_than_fit_in_one_call():
    item_cache, table, clock, seam = setup()
    names = [keys.alias("name", f"train-a/{number}") for number in range(150)]
    for name in names:
        put(table, name, target="old")
    item_cache.get_many(names)
    clock.advance(300)
    item_cache.get_many(names)
    item_cache.read_fresh(keys.alias("name", f"x/{number}") for number in range(60))
    assert len(seam.named("table.get_many")[-1].argument) == 100
    item_cache.read_fresh(keys.alias("name", f"x/{number}") for number in range(120))
    assert len(seam.named("table.get_many")[-1].argument) == 120


def test_a_fresh_read_returns_the_stored_item():
    item_cache, table, _, _ = setup()
    name = keys.alias("name", "train-a/n")
    put(table, name, target="old")
    item_cache.get(name)
    put(table, name, target="new")
    assert item_cache.read_fresh([name])[name]["target"] == "new"
