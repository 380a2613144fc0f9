"""Every stored attribute is listed with its proof, which every simulated run checks too."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, get_type_hints

import pytest

from faultbridge.domain.cases import Case
from faultbridge.domain.cluster.state import ClusterState
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.domain.times import to_text
from faultbridge.ingest.canary import LAST_RECEIVED, LAST_RECORDED
from faultbridge.ingest.mappings import MappingStore
from faultbridge.ops.backlog import LAST_SWEEP
from faultbridge.simulation import history as simulation
from faultbridge.storage import devices, findings, incidents, items, jobs, keys, policies
from faultbridge.storage.item_kinds import ITEM_KINDS, kind_of, unlisted_attributes
from faultbridge.storage.proof import Proof
from faultbridge.storage.writes import Key
from tests.archive.world import ArchiveWorld
from tests.builders import KEY, NOON
from tests.gateway.requests import ALERT, IntakeClient
from tests.world import World

ARGUMENTS: dict[Any, Any] = {
    NodeKey: NodeKey("train-a", "n-1"),
    str: "x1",
    int: 1,
    datetime: NOON,
    "partition": "CLUSTER#train-a",
    "position": "2026-02-03T12:00:00.000Z#n-1#0001#000000000001",
}
"""A value for each parameter of a key, by its name or its type."""


def product_keys() -> Iterator[Key]:
    """Yield a key from each function that builds one, and each constant key."""
    yield from (LAST_RECORDED, LAST_RECEIVED, LAST_SWEEP, keys.CURRENT_POLICY, keys.CURRENT_MAPPING)
    for module in (keys, jobs, devices, findings, incidents, policies):
        for name, build in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("_") or build.__module__ != module.__name__ or build.__annotations__["return"] != "Key":
                continue
            hints = {name: kind for name, kind in get_type_hints(build).items() if name != "return"}
            yield build(**{name: ARGUMENTS.get(name, ARGUMENTS[kind]) for name, kind in hints.items()})


@pytest.mark.parametrize("key", [*product_keys()], ids="-".join)
def test_every_key_of_the_product_is_of_exactly_one_kind(key: Key) -> None:
    assert len([kind.name for kind in ITEM_KINDS if kind.matches(key)]) == 1


@pytest.mark.parametrize(
    ("kind", "mapping", "model"),
    [("node state", "state", NodeState), ("cluster state", "state", ClusterState), ("case", "case", Case)],
)
def test_every_field_of_a_stored_model_is_listed(kind: str, mapping: str, model: Any) -> None:
    (listed,) = (one for one in ITEM_KINDS if one.name == kind)
    names = {name.partition(".")[2] for name in listed.proofs if name.startswith(f"{mapping}.")}
    assert {field.name for field in fields(model)} - names == set()


def rarely_written() -> World:
    """Return an installation in which the items were written that no simulated run writes."""
    client = IntakeClient()
    world = client.world
    client.post(ALERT.encode())
    heartbeat = world.message(json.dumps({"heartbeat": 1, "at": to_text(world.now)}), source="heartbeat")
    world.outcomes(world.message(), heartbeat, world.message("not XML", source="nvidia-smi-xml"))
    world.app.jobs.jobs.start(KEY.cluster, "j-1", [KEY.node])
    world.app.ingestion.receive_canary({"data": {"facts": {"sent_at": to_text(world.now)}}})
    MappingStore(world.ports.table, world.ports.clock).put("v1", {})
    world.app.ops.sweep()
    world.app.ops.backlog.record_sweep(unfinished=False, failures=0)
    world.app.archive.schedule()
    world.ports.clock.advance(timedelta(days=2))
    world.app.archive.schedule()
    return world


def test_every_attribute_that_is_written_is_listed() -> None:
    world = rarely_written()
    archived = ArchiveWorld()
    archived.record_history()
    archived.seal_day()
    written = [record for record in (*world.ports.table.stream, *archived.table.stream) if record.new]
    assert {name for record in written for name in unlisted_attributes(record.key, record.new or {})} == set()
    kinds = {kind.name for record in written if (kind := kind_of(record.key))}
    assert kinds >= {
        "heartbeats of a batch", "last heartbeats", "webhook request", "reject", "reject counter", "job",
        "followed job", "canary", "mapping", "current mapping", "last sweep", "last anchor", "last sealed day",
        "seal of a stream",
    }  # fmt: skip


def test_a_new_attribute_or_kind_of_item_breaks_every_simulated_run(monkeypatch: pytest.MonkeyPatch) -> None:
    original = items.state_item
    monkeypatch.setattr(items, "state_item", lambda state, now: {**original(state, now), "surprise": 1})
    broken = simulation.run(3, 5).broken
    assert "the proof of every stored attribute is listed: node state: surprise" in broken
    assert unlisted_attributes(Key("another table", "1"), ()) == ["unknown kind of item: another table 1"]


def test_an_unproven_attribute_has_an_explanation() -> None:
    for kind in ITEM_KINDS:
        unproven = [name for name, proof in kind.proofs.items() if proof is Proof.UNPROVEN]
        assert kind.limit or unproven in (["updated_at"], ["schema", "updated_at"]), kind.name
