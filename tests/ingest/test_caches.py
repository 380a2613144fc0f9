"""Item cache: what a warm process caches, and for how long a cached item may be outdated."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Put
from faultbridge.record.ports.table import UnprocessedKeys
from faultbridge.serve.ingest import caches
from faultbridge.serve.ingest.caches import ItemCache
from tests.builders import NOON
from tests.sim.fakes import FakeTable, ManualClock, Seam
from tests.sim.fakes.seam import raise_once


def setup() -> tuple[ItemCache, FakeTable, ManualClock, Seam]:
    clock, seam = ManualClock(NOON), Seam()
    table = FakeTable(clock, seam=seam)
    return ItemCache(table, clock), table, clock, seam


def reads(seam: Seam) -> list[list[keys.Key]]:
    """Return what each read asked for, whether it was consistent or not."""
    return [call.argument for call in seam.calls if call.name.startswith("table.get_many")]


def put(table: FakeTable, key: keys.Key, **attributes: str) -> None:
    table.write(Put({"pk": key.pk, "sk": key.sk, **attributes}))


def test_an_alias_is_read_once_in_ten_minutes():
    item_cache, table, clock, seam = setup()
    name = keys.alias("name", "train-a/n")
    put(table, name, target="old")
    for _ in range(3):
        assert item_cache.get(name)["target"] == "old"
        clock.advance(15)
    assert reads(seam) == [[name]]
    clock.advance(600)
    item_cache.get(name)
    assert reads(seam) == [[name]] * 2


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


def test_a_new_item_is_found_although_eventually_consistent_reads_do_not_show_it_yet():
    clock = ManualClock(NOON)
    table = FakeTable(clock, index_lag=timedelta(seconds=1))
    name = keys.alias("name", "train-a/new")
    put(table, name, target="new")
    assert table.get_many([name], consistent=False) == {}
    assert ItemCache(table, clock).get(name)["target"] == "new"


def test_a_found_item_is_not_read_consistently():
    item_cache, table, _, seam = setup()
    name = keys.alias("name", "train-a/n")
    put(table, name, target="old")
    item_cache.get(name)
    assert [call.name for call in seam.calls[1:]] == ["table.get_many_lagging"]


def test_a_read_that_exceeds_the_size_of_the_cache_still_returns_the_items_that_were_cached(monkeypatch):
    monkeypatch.setattr(caches, "MAX_CACHED_ITEMS", 2)
    item_cache, table, _, _ = setup()
    names = [keys.alias("name", f"train-a/n-{number}") for number in range(4)]
    for name in names:
        put(table, name, target="node")
    item_cache.get_many(names[:2])
    assert set(item_cache.get_many(names)) == set(names)
    assert set(item_cache.get_many(names)) == set(names)


def test_a_missing_policy_is_cached():
    item_cache, _, _, seam = setup()
    assert item_cache.get(keys.CURRENT_POLICY) is None
    assert item_cache.get(keys.CURRENT_POLICY) is None
    assert reads(seam) == [[keys.CURRENT_POLICY]]


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
    assert [len(read) for read in reads(seam)] == [2, 2]


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


def test_a_fresh_read_refreshes_only_a_few_items_because_a_consistent_read_costs_double():
    item_cache, table, clock, seam = setup()
    names = [keys.alias("name", f"train-a/{number}") for number in range(3)]
    for name in names:
        put(table, name, target="old")
    item_cache.get_many(names)
    clock.advance(300)
    for expiring, read in ((names, 1), (names[:2], 3)):
        item_cache.get_many(expiring)
        item_cache.read_fresh([keys.alias("name", "x")])
        assert len(reads(seam)[-1]) == read


def test_a_refresh_makes_no_second_call():
    item_cache, table, clock, seam = setup()
    name = keys.alias("name", "train-a/n")
    put(table, name, target="old")
    item_cache.get(name)
    clock.advance(300)
    item_cache.get(name)
    item_cache.read_fresh(keys.alias("name", f"x/{number}") for number in range(100))
    assert len(reads(seam)[-1]) == 100


def test_a_fresh_read_returns_the_stored_item():
    item_cache, table, _, _ = setup()
    name = keys.alias("name", "train-a/n")
    put(table, name, target="old")
    item_cache.get(name)
    put(table, name, target="new")
    assert item_cache.read_fresh([name])[name]["target"] == "new"
