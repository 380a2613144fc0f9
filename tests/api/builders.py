"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from faultbridge.model.cluster.config import DeclaredDomain
from faultbridge.model.enums import DomainKind, RepairAction
from faultbridge.model.findings import Finding, finding_id
from faultbridge.model.nodes import NodeKey
from faultbridge.model.policy import Policy, Rule
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.codec import dump
from faultbridge.model.storage.writes import Put
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.wiring.services import wire_registration
from tests.api.gateway import Gateway
from tests.world import World

START: dict[str, Any] = {"change": "start", "job_id": "88213", "nodes": ["n-[1-2]"], "ranks_per_node": 8}


def finding(world: World) -> Finding:
    made = finding_id("train-a", "n-1", "nvlink-crc", world.now)
    return Finding(made, "train-a", "n-1", "nvlink-crc", world.now, value=300, median=2, score=900, peers=11)


C = "/clusters/train-a"

RACK = tuple(f"gpu-{number:02}" for number in range(1, 9))

LINK_DOWN = '{"kind": "fault", "code": "net.link_down", "component": {"type": "nic", "name": "ib0"}, "message": "down"}'


def lose_links(gateway: Gateway) -> None:
    """Declare the rack, and let each of its nodes report a lost link, which opens an incident."""
    app, world = gateway.world.app, gateway.world
    rack = DeclaredDomain(DomainKind.RACK, "r-7", "gpu-[01-08]")
    wire_registration(app).set_cluster("train-a", {"domains": (rack,)})
    wire_ingest(app).ingest([world.message(LINK_DOWN, source="faultbridge", node=name) for name in RACK])
    wire_react(app).run([("train-a", name) for name in RACK])


def incident_of(gateway: Gateway) -> str:
    (incident,) = gateway.get(f"{C}/incidents").json["items"]
    return str(incident["incident_id"])


N1, N2 = NodeKey("train-a", "n-1"), NodeKey("train-a", "n-2")


def case_of(gateway: Gateway, key: NodeKey = N1) -> str:
    case = gateway.world.node(key).live_case
    assert case is not None
    return case.id


ANSWER = {"attempt": 1, "repair_action": "replace_node"}

BY_APPROVAL = Policy("by-approval", (Rule("careful", approval=tuple(RepairAction)),))


def waiting(gateway: Gateway) -> str:
    """Return the case of another node, under a policy that requires approval for every repair action."""
    app, world = gateway.world.app, gateway.world
    world.ports.table.write(Put(items.item(keys.policy(BY_APPROVAL.version), world.now, {"policy": dump(BY_APPROVAL)})))
    wire_registration(app).set_cluster("train-a", {"policy": BY_APPROVAL.version})
    world.ports.clock.advance(timedelta(hours=1))
    wire_ingest(app).ingest([world.message(node="n-2")])
    wire_sweep(app).run()
    return case_of(gateway, N2)
