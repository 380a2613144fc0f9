"""What an operator decided about a node stays as it is when an incident begins and ends."""

from __future__ import annotations

from faultbridge.model.enums import CaseStatus, NodeStatus, RepairAction
from faultbridge.model.policy import Match, Rule
from faultbridge.model.recorded import read_event
from faultbridge.record.ports.messaging import PageUrgency
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.serve.pager.page import PageState
from faultbridge.serve.pager.rules import rules_for
from tests.scenarios.incidents.incidents import NETWORK_WAITS, lose_links, restore_links, world_of
from tests.scenarios.world import World

ADA = OperatorOrder("arn:aws:iam::111122223333:role/ada", "burnt smell")
ASK = Rule("ask", Match(codes=("xid.79",)), approval=(RepairAction.REPLACE_NODE,))


def urgent_pages(world: World, node: int) -> list[str]:
    rules = [rule for body in world.bodies(node) for rule in rules_for(read_event(body))]
    return [one.kind for one in rules if (one.state, one.urgency) == (PageState.TRIGGERED, PageUrgency.URGENT)]


def decided(world: World) -> tuple[CaseStatus, str]:
    return world.case(3).status, world.case(3).reason


def is_held(world: World) -> bool:
    return any(hold.holding for hold in world.control().holds.values())


def pass_an_incident(world: World) -> None:
    lose_links(world)
    world.advance_minutes(5)
    assert is_held(world)
    restore_links(world)
    world.advance_minutes(30)
    assert not is_held(world)


def test_an_incident_neither_moves_nor_pages_for_a_node_that_an_operator_quarantined() -> None:
    world = world_of()
    world.node_orders.quarantine(world.key(3), ADA)
    world.process_entries()
    pass_an_incident(world)
    assert decided(world) == (CaseStatus.ESCALATED, "taken out of service by an operator: burnt smell")
    assert urgent_pages(world, 3) == []


def test_an_incident_neither_moves_nor_pages_for_a_repair_that_an_operator_denied() -> None:
    world = world_of(rules=(ASK, NETWORK_WAITS))
    world.fault_and_react(3, minutes=2)
    world.orders.deny(world.case(3).id, ADA)
    world.process_entries()
    pass_an_incident(world)
    assert decided(world) == (CaseStatus.ESCALATED, "denied: burnt smell")
    assert "escalated" not in urgent_pages(world, 3)


def test_a_node_that_waits_for_an_incident_can_be_quarantined_and_then_returned() -> None:
    world = world_of(orchestrated=True)
    lose_links(world)
    world.advance_minutes(2)
    assert world.case(3).status is CaseStatus.ABSORBED
    world.node_orders.quarantine(world.key(3), ADA)
    restore_links(world)
    world.advance_minutes(60)
    assert (*decided(world), world.status(3)) == (
        CaseStatus.ESCALATED,
        "taken out of service by an operator: burnt smell",
        NodeStatus.QUARANTINED,
    )
    assert urgent_pages(world, 3) == []
    world.node_orders.return_node(world.key(3), ADA)
    world.until(world.case_is(CaseStatus.RESOLVED, 3))
    assert (world.status(3), world.released_instances()) == (NodeStatus.HEALTHY, [])
