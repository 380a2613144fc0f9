"""Builders of incidents that several test modules use."""

from __future__ import annotations

from collections.abc import Iterable

from faultbridge.model.cluster.incidents import Incident
from faultbridge.model.cluster.state import BreakerLimit
from faultbridge.model.enums import BreakerScope, CaseStatus
from faultbridge.model.policy import Match, Rule
from faultbridge.model.storage import incidents as stored_incidents
from faultbridge.model.storage import keys
from tests.scenarios.world import CLUSTER, World, limits

NETWORK_WAITS = Rule("network-waits", Match(codes=("net.*",)), wait_seconds=90, release_without_capacity=True)

BREAKERS = (BreakerLimit(nodes=5, percent=20), BreakerLimit(BreakerScope.DOMAIN, nodes=4, percent=50))

RACK = range(1, 9)

PER_RACK = 8


def rack(number: int) -> str:
    return f"rack-{(number - 1) // PER_RACK + 1}"


def world_of(nodes: int = 64, **others) -> World:
    given = {"rules": (NETWORK_WAITS,), "breakers": BREAKERS, "domain": rack, "limits": limits(concurrent=2)}
    return World(nodes=nodes, **(given | others))


def lose_links(world: World, nodes: Iterable[int] = RACK) -> None:
    for node in nodes:
        world.fault(node, "net.link_down", source="link-state")
    world.process_entries()


def restore_links(world: World, nodes: Iterable[int] = RACK) -> None:
    for node in nodes:
        world.clear(node, "net.link_down", source="link-state")
    world.process_entries()


def incidents(world: World) -> list[Incident]:
    rows = world.table.query(keys.cluster_partition(CLUSTER), prefix=stored_incidents.INCIDENT).items
    return sorted((stored_incidents.read_incident(row) for row in rows), key=lambda one: one.opened_at)


def incident_changes(world: World) -> list[str]:
    return [
        body["data"]["change"]
        for body in world.bodies(None)
        if body["metadata"]["event_type"] == "Cluster Incident Change"
    ]


def cases(world: World, nodes: Iterable[int] = RACK) -> set[CaseStatus]:
    return {world.case(node).status for node in nodes}
