"""A customer's own words for faults: put once, and every record is read with them."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from faultbridge.errors import Misconfigured, Rejected
from faultbridge.ingest.mappings import Mappings
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Put
from tests.world import World

WORDS = {
    "alerts": {
        "node_labels": ["rack_host"],
        "rules": [{"alert": "LowDisk.{0,32}", "code": "host.storage_unhealthy"}],
    }
}


def alert(world: World) -> None:
    labels = {"alertname": "LowDiskBandwidth", "rack_host": "gpu-1"}
    body = {"version": "4", "receiver": "x", "alerts": [{"status": "firing", "labels": labels, "startsAt": None}]}
    world.app.ingestion.ingest([world.message(json.dumps(body), source="alertmanager", node=None)])


def mappings(world: World) -> Mappings:
    return Mappings(world.ports.table, world.ports.clock)


def test_records_are_read_with_the_words_that_were_put() -> None:
    world = World(nodes=("gpu-1",))
    key = world.node().key._replace(node="gpu-1")
    alert(world)
    assert world.node(key).conditions == {}
    mappings(world).put("v-1", WORDS)
    world.ports.clock.advance(timedelta(seconds=20))
    alert(world)
    assert set(world.node(key).conditions) == {"host.storage_unhealthy@node"}


def test_only_sources_that_need_them_cost_a_look_for_words() -> None:
    world = World()
    world.app.ingestion.ingest([world.message()])
    asked = [call for call in world.ports.seam.calls if "MAPPING" in repr(call)]
    assert asked == []


def test_what_holds_is_shown_with_its_version_and_each_version_stays() -> None:
    world = World()
    assert mappings(world).current() == (None, {})
    mappings(world).put("v-1", WORDS)
    mappings(world).put("v-2", {})
    assert mappings(world).current() == ("v-2", {})
    assert mappings(world).words("v-1") == WORDS
    with pytest.raises(Rejected, match="unknown_mapping"):
        mappings(world).words("nothing")


def test_words_that_are_named_and_not_kept_are_an_operators_to_mend() -> None:
    world = World()
    world.ports.table.write(Put(items.item(keys.CURRENT_MAPPING, world.now, {"version": "lost"})))
    with pytest.raises(Misconfigured, match="mapping put"):
        alert(world)
