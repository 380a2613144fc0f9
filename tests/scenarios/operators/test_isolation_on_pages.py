"""Pages state what happens about isolation: where nothing can cordon the node, the reader must act."""

from __future__ import annotations

import pytest

from faultbridge.model.enums import RepairAction
from faultbridge.model.policy import Rule
from faultbridge.repair.registry.registration import Registration
from faultbridge.serve.pager.deliver import Paging
from tests.scenarios.incidents.incidents import lose_links, world_of
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import FakePager

NOT_APPLICABLE = "isolation is not applicable: the cluster has no orchestrator"


def page_of(world: World, kind: str) -> str:
    """Return the text of the first page of a kind."""
    pager = FakePager()
    for body in world.bodies():
        Paging(world.table, pager, world.clock).deliver(body)
    return next(page.bodies["email"] for page in pager.sent if page.key.endswith(f":{kind}"))


@pytest.mark.parametrize("kind", ["opened", "approval"])
def test_a_page_of_a_cluster_without_an_orchestrator_says_that_isolation_is_not_applicable(kind: str) -> None:
    approval = frozenset({RepairAction.REPLACE_NODE}) if kind == "approval" else frozenset()
    world = World(rules=(Rule("asks", approval=approval, release_without_capacity=True),))
    world.fault_and_react()
    assert NOT_APPLICABLE in page_of(world, kind)


def test_the_urgent_page_of_a_stopped_repair_says_that_isolation_is_not_applicable() -> None:
    world = World(rules=(Rule("none", repair_actions=()),))
    world.fault_and_react()
    assert NOT_APPLICABLE in page_of(world, "escalated").replace("Isolation is", "isolation is")


def test_the_page_of_an_incident_says_that_isolation_is_not_applicable() -> None:
    world = world_of()
    lose_links(world)
    world.advance_minutes()
    pager = FakePager()
    for body in world.bodies(None):
        Paging(world.table, pager, world.clock).deliver(body)
    (page,) = (one for one in pager.sent if ":incident:" in one.key)
    assert NOT_APPLICABLE in page.bodies["email"].replace("Isolation is", "isolation is")


def test_a_page_of_a_cluster_with_an_orchestrator_says_that_the_node_is_isolated() -> None:
    world = World(orchestrated=True)
    world.fault_and_react()
    Registration(world.table, world.append, world.clock).set_cluster(
        CLUSTER, {"orchestrator": "eks", "eks_cluster": "train"}
    )
    text = page_of(world, "opened")
    assert "isolates the node, repairs it (action: replace the node)" in text
    assert NOT_APPLICABLE not in text
