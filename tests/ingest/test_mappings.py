"""Customer mappings: stored once, they translate the terms of every record."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from faultbridge.model.errors import Misconfigured, Rejected
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Put
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.ingest.mappings import CustomerMappings, MappingsByName, MappingStore
from faultbridge.serve.ingest.outcomes import IngestResult
from tests.world import World

MAPPINGS = {
    "alerts": {
        "node_labels": ["rack_host"],
        "rules": [{"alert": "LowDisk.{0,32}", "code": "host.storage_unhealthy"}],
    }
}


def alert(world: World) -> IngestResult:
    labels = {"alertname": "LowDiskBandwidth", "rack_host": "gpu-1"}
    body = {"version": "4", "receiver": "x", "alerts": [{"status": "firing", "labels": labels, "startsAt": None}]}
    return wire_ingest(world.app).ingest([world.message(json.dumps(body), source="alertmanager", node=None)])


def replays(world: World, count: int) -> None:
    """Deliver the PCIe replays of one GPU, a minute after the record before."""
    world.ports.clock.advance(timedelta(minutes=1))
    line = 'DCGM_FI_DEV_PCIE_REPLAY_COUNTER{gpu="0",UUID="GPU-5fd4",pci_bus_id="00000000:08:00.0"}'
    wire_ingest(world.app).ingest([world.message(f"{line} {count}\n", source="dcgm-metrics")])


def mappings(world: World) -> MappingStore:
    return MappingStore(world.ports.table, world.ports.clock)


def test_records_are_decoded_with_the_stored_mappings() -> None:
    world = World(nodes=("gpu-1",))
    key = world.node().key._replace(node="gpu-1")
    alert(world)
    assert world.node(key).conditions == {}
    mappings(world).put("v-1", MAPPINGS)
    world.ports.clock.advance(timedelta(seconds=20))
    alert(world)
    assert set(world.node(key).conditions) == {"disk.io_error@node"}


PORT = b"/sys/class/infiniband/mlx5_0/ports/1/"


@pytest.mark.parametrize(
    ("source", "body"),
    [
        ("infiniband-state", PORT + b"state: 4: ACTIVE\n" + PORT + b"rate: 200 Gb/sec (4X HDR)\n"),
        ("link-state", b"Settings for mlx5_0:\n\tSpeed: 200000Mb/s\n\tLink detected: yes\n"),
    ],
)
def test_rates_of_ports_are_compared_with_those_that_the_customer_expects(source: str, body: bytes) -> None:
    world = World()
    mappings(world).put("v-1", {"link_rates": {"c-1/mlx5_*": 400, f"{world.node().key.cluster}/mlx5_*": 400}})
    world.outcomes(world.message(body, source=source))
    assert {one.code for one in world.node().active()} == {"net.rate_below_expected"}


def test_mappings_are_read_only_for_sources_that_use_them() -> None:
    world = World()
    wire_ingest(world.app).ingest([world.message()])
    reads = [call for call in world.ports.seam.calls if "MAPPING" in repr(call)]
    assert reads == []


LIMIT = {"thresholds": {"dcgm-metrics": {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER": {"limit": 100, "seconds": 60}}}}


@pytest.mark.parametrize(
    ("own", "count", "found"), [({}, 50, True), (LIMIT, 50, False), (LIMIT, 101, True), ({}, 8, False)]
)
def test_counters_are_compared_with_the_stored_thresholds(own: MappingsByName, count: int, found: bool) -> None:
    world = World()
    mappings(world).put("v-1", own)
    replays(world, 0)
    replays(world, count)
    assert any("dcgm.pcie_replays" in one.codes for one in world.node().active()) is found


def test_thresholds_of_a_version_that_is_not_stored_are_the_packaged_ones() -> None:
    world = World()
    world.ports.table.write(Put(items.item(keys.CURRENT_MAPPING, world.now, {"version": "lost"})))
    replays(world, 0)
    replays(world, 50)
    assert any("dcgm.pcie_replays" in one.codes for one in world.node().active())


def test_the_current_mappings_have_a_version_and_every_version_stays() -> None:
    world = World()
    assert mappings(world).current() == (None, {})
    mappings(world).put("v-1", MAPPINGS)
    mappings(world).put("v-2", {})
    assert mappings(world).current() == ("v-2", {})
    assert mappings(world).read("v-1") == MAPPINGS
    with pytest.raises(Rejected, match="unknown_mapping"):
        mappings(world).read("nothing")


def test_a_record_that_needs_a_version_that_is_not_stored_is_given_back_as_misconfigured() -> None:
    world = World()
    world.ports.table.write(Put(items.item(keys.CURRENT_MAPPING, world.now, {"version": "lost"})))
    with pytest.raises(Misconfigured, match="mapping put"):
        CustomerMappings(world.ports.table).current()
    assert list(alert(world).failed.values()) == ["misconfigured"]
