"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from faultbridge.model.cluster.config import ClusterConfig, DeclaredDomain
from faultbridge.model.enums import DomainKind, RepairAction
from faultbridge.model.findings import Finding, finding_id
from faultbridge.model.nodes import NodeKey
from faultbridge.model.policy import Policy, Rule
from faultbridge.model.storage import findings as stored
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.codec import dump
from faultbridge.model.storage.writes import Put
from faultbridge.serve.api.routes import ROUTES, Route
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.orders import ORDERS
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


WRITES = [route for route in ROUTES if route.method not in {"GET", "HEAD"}]
BODIES: dict[str, dict[str, Any]] = {
    **{kind.operation: {} for kind in ORDERS.values()},
    "approveCase": ANSWER,
    "denyCase": ANSWER,
    "resumeRepairs": {"force": True},
    "addSilence": {"reason": "cable work", "until": "2026-02-05T00:00:00Z"},
    "markFinding": {"mark": "right"},
    "reportJob": START,
}


def cluster_with_something_to_change() -> Gateway:
    """Return a cluster with a case that waits for approval, an open incident and a finding."""
    made = Gateway(World(nodes=("n-1", "n-2", *RACK, *(f"other-{number}" for number in range(24)))))
    world = made.world
    wire_registration(world.app).add_cluster(ClusterConfig("secret-b"))
    waiting(made)
    lose_links(made)
    world.ports.table.write(Put(stored.finding_item(finding(world), world.now)))
    for path, body in (
        ("/nodes/n-1/quarantine", {}),
        (f"/nodes/{RACK[0]}/quarantine", {}),
        ("/pause", {}),
        ("/silences", BODIES["addSilence"]),
    ):
        assert made.post(f"{C}{path}", body, person="ada").status == 200
    return made


def path_of(route: Route, gateway: Gateway) -> str:
    """Return the path of a route, with the case, incident or finding that the route can change."""
    (listed,) = gateway.get(f"{C}/findings").json["items"]
    (silence,) = gateway.get(f"{C}/silences").json["items"]
    ids = {"case": case_of(gateway, N2), "incident": incident_of(gateway), "finding": listed["finding_id"]}
    node = "n-1" if route.name == "returnNode" else "n-2"
    return route.path.format(cluster="train-a", node=node, domain="r-7", silence=silence["id"], **ids)


def body_of(route: Route, gateway: Gateway) -> dict[str, Any]:
    if route.name == "replaceNode":
        return {"instance": gateway.get(f"{C}/nodes/n-2").json["instance_id"]}
    return BODIES[route.name]
