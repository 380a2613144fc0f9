"""Builders of heartbeat monitor that several test modules use."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.storage import items
from faultbridge.model.storage.writes import Put
from faultbridge.model.times import to_text
from faultbridge.record.rulebook import rules_of
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.ingest.canary import LAST_RECORDED
from faultbridge.serve.wiring.services import wire_heartbeat_log
from tests.builders import KEY
from tests.world import World


def beat(world: World, *nodes: str, **others: object) -> None:
    body = json.dumps({"heartbeat": 1, "at": to_text(world.now)})
    for node in nodes or (KEY.node,):
        wire_ingest(world.app).ingest([world.message(body, source="heartbeat", node=node, **others)])


def pass_time(world: World, minutes: float, *alive: str) -> None:
    """Run a sweep each minute while some nodes keep sending heartbeats."""
    for _ in range(round(minutes)):
        world.ports.clock.advance(timedelta(minutes=1))
        if alive:
            beat(world, *alive)
        assert wire_sweep(world.app).run().failures == []


def record_canary(world: World) -> None:
    sent = {"sent_at": to_text(world.now)}
    world.ports.table.write(Put(items.item(LAST_RECORDED, world.now, sent)))


def config(world: World) -> ClusterConfig:
    return rules_of(world.app.rulebook, KEY.cluster).config


def stored(world: World) -> dict[str, datetime]:
    """Return the last stored heartbeat of each node."""
    return dict(wire_heartbeat_log(world.app).read(config(world)).last)
