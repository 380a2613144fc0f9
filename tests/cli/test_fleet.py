"""`faultbridge fleet create` during a synchronization, `faultbridge incident` and failure domains."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from faultbridge.cli.commands.embedded.stack import NO_PROVIDER, add_fleet
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.nodes import Instance, NodeKey
from faultbridge.model.values import replace
from faultbridge.repair.registry.views import Views
from faultbridge.serve.entrypoints.inventory import wire_inventory
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.wiring.services import wire_registration
from tests.builders import KEY
from tests.cli.builders import RACK, rack_incident
from tests.cli.desk import OPERATOR, Desk
from tests.sim.fakes.inventory import FakeInventory
from tests.world import World


def test_an_inventory_sync_during_the_creation_of_a_fleet_adds_no_node_under_another_name() -> None:
    world, config = World(), ClusterConfig("lab", mode=Mode.ACT, repair_owner=RepairOwner.FAULTBRIDGE)
    world.ports.inventories[config.provider] = inventory = FakeInventory(world.ports.fleet)
    registration, sync = wire_registration(world.app), wire_inventory(world.app).sync_all
    registration.add_cluster(replace(config, provider=NO_PROVIDER))
    for _ in range(3):
        world.ports.fleet.launch("lab")

    def listed() -> Iterator[Instance]:
        for instance in inventory.serving_instances(config, "lab"):
            yield instance
            sync()

    add_fleet(registration, config, listed())
    sync()
    assert [state.key.node for state in Views(world.ports.table).nodes("lab")] == ["gpu-1", "gpu-2", "gpu-3"]
    assert registration.cluster("lab").provider == config.provider


def test_an_incident_is_listed_shown_and_closed_with_the_operator_and_its_cases_continue(desk: Desk) -> None:
    incident = rack_incident(desk)
    shown = desk.json("incident", "show", incident)
    assert (shown["domain"], shown["affected"], shown["nodes"]) == ({"type": "rack", "name": "r-7"}, 8, list(RACK))
    assert sorted(shown["held_cases"]) == list(RACK)
    assert desk.json("cluster", "show", KEY.cluster)["incidents"] == [incident]
    assert desk.json("case", "show", shown["held_cases"]["gpu-01"])["incident"] == incident
    closed = desk.json("incident", "close", incident, "--reason", "not the switch")
    assert (closed["status"], closed["operator"], closed["held_cases"]) == ("closed", OPERATOR, {})
    desk.world.ports.clock.advance(timedelta(minutes=1))
    assert wire_sweep(desk.world.app).run().failures == []
    assert desk.json("incident", "list") == []
    assert len(desk.json("incident", "list", "--all")) == 1
    assert {desk.world.node(NodeKey(KEY.cluster, name)).live_case.status for name in RACK} <= {"queued", "in_progress"}


def test_a_closed_incident_lists_no_held_cases_and_states_that_they_continue(desk: Desk) -> None:
    incident = rack_incident(desk)
    assert "gpu-01: c-" in desk("incident", "show", incident).out
    closed = desk("incident", "close", incident)
    assert ": c-" not in closed.out
    assert closed.err.splitlines()[0] == "faultbridge: cases that continue within a minute, within the repair limits: 8"
    assert [one["held_cases"] for one in desk.json("incident", "list", "--all")] == [{}]


def test_a_closed_or_unknown_incident_cannot_be_closed(desk: Desk) -> None:
    incident = rack_incident(desk)
    desk.json("incident", "close", incident)
    again = desk("incident", "close", incident)
    assert again.code != 0
    assert "no open incident" in again.err
    assert "unknown incident: inc-a" in desk("incident", "show", "inc-aaaaaaaaaaaaaaaa").err


@pytest.mark.parametrize("wrong", ["rack=n-1", "shelf/r-1=n-1", "rack/r 1=n-1", "rack/r-1=n-[1", "cluster/x=n-1"])
def test_an_invalid_failure_domain_is_wrong_usage(desk: Desk, wrong: str) -> None:
    assert desk("cluster", "set", KEY.cluster, "--domain", wrong).code == 2
