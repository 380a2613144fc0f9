"""The close of a case: a fault after the verification revokes it, and the node gets the status of what remains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from faultbridge.model.cases import EXTERNAL
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, RepairAction, Resolution
from faultbridge.model.policy import Rule
from faultbridge.record.ports.compute import Capacity, CapacityEvidence
from faultbridge.repair.case_orders import OperatorOrder
from tests.scenarios.provider.external_replacement import ExternalReplacement
from tests.scenarios.provider.provider_repair import followed_world, repair_calls
from tests.scenarios.repair.builders import FAILED
from tests.scenarios.threads.relapses import RESET
from tests.scenarios.world import World

ADA = OperatorOrder("arn:aws:iam::123456789012:user/ada", "false alarm")


def fail_before_close(world: World) -> list[str]:
    """Report another fault just before the case of a node closes, and pause all further repairs.

    Returns the codes of the faults that were reported so far.
    """
    handler = world.workflow.handler
    reported: list[str] = []

    def report(payload: Mapping[str, Any]) -> Any:
        if payload["step"] == "close" and not reported:
            reported.append("xid.48")
            world.fault(code="xid.48")
            world.pause_repairs(paused=True)
        return handler(payload)

    world.workflow.handler = report
    return reported


@pytest.mark.parametrize(
    ("orchestrated", "isolation", "cordoned"),
    [(True, Isolation.CONFIRMED, {"node-1"}), (False, Isolation.NOT_APPLICABLE, set())],
)
def test_a_node_that_fails_before_its_case_closes_is_isolated_again_before_its_next_repair(
    orchestrated: bool, isolation: Isolation, cordoned: set[str]
) -> None:
    world = World(orchestrated=orchestrated)
    reported = fail_before_close(world)
    world.fault_and_react()
    world.until(lambda: bool(reported))
    world.until(world.case_is(CaseStatus.QUEUED), minutes=30)
    assert (world.status(), world.node().isolation) == (NodeStatus.QUARANTINED, isolation)
    assert world.orchestrator.cordoned == cordoned


def test_a_node_of_a_followed_repair_that_fails_before_its_case_closes_is_not_recorded_as_cordoned() -> None:
    world = World(orchestrated=True)
    reported = fail_before_close(world)
    followed_world(world)
    world.advance_minutes(3)
    world.clear()
    world.until(lambda: bool(reported))
    world.until(world.case_is(CaseStatus.ESCALATED))
    assert (world.status(), repair_calls(world)) == (NodeStatus.FAILED, [])
    assert world.node().isolation is not Isolation.CONFIRMED


@pytest.mark.parametrize(("code", "status"), [("xid.92", NodeStatus.DEGRADED), ("xid.31", NodeStatus.HEALTHY)])
def test_a_repaired_node_is_degraded_if_a_warning_remains_and_healthy_if_only_a_notice_does(
    code: str, status: NodeStatus
) -> None:
    world = World(rules=(RESET,))
    world.fault_and_react(code="xid.48")
    world.until(lambda: "verify begun" in world.record_history())
    world.fault(code=code)
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=60)
    moved = [body["data"] for body in world.bodies() if body["data"].get("from") == "validating"]
    assert [one["to"] for one in moved] == [status.value]
    remains = ", a condition remains" if status is NodeStatus.DEGRADED else ""
    assert moved[0]["reason"] == f"verification passed{remains}"


def test_a_warning_that_remains_after_a_repair_postpones_no_case() -> None:
    world = World(rules=(RESET,))
    world.fault_and_react(code="xid.48")
    world.until(lambda: "verify begun" in world.record_history())
    world.fault(code="xid.92")
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=60)
    assert [one.code for one in world.node().active()] == ["xid.92"]
    assert world.node().case_deferred_until is None


def test_a_repaired_node_is_on_probation_and_a_canceled_case_starts_none() -> None:
    world = World(rules=(RESET,))
    world.fault_until_resolved(code="xid.48")
    assert [one.code for one in world.node().probations] == ["xid.48"]
    canceled = World()
    canceled.pause_repairs(paused=True)
    canceled.fault_and_react()
    canceled.orders.cancel(canceled.case().id, ADA)
    canceled.pause_repairs(paused=False)
    canceled.until(canceled.case_is(CaseStatus.RESOLVED))
    assert (canceled.case().resolution, "verify passed" in canceled.record_history()) == (Resolution.CANCELLED, True)
    assert canceled.node().probations == ()


def test_a_case_that_another_tool_began_is_replaced_if_faultbridge_replaced_the_instance_in_the_end() -> None:
    world = World()
    world.provider.known_capacity = Capacity(CapacityEvidence.LAUNCH_FIRST)
    external = ExternalReplacement(world)
    bad = external.replace_instance()
    world.verifier.results[bad] = FAILED
    external.run_inventory()
    assert EXTERNAL in world.case().marks
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert (world.released_instances(), world.case().resolution) == ([bad], Resolution.REPLACED)


def test_a_late_fault_of_a_successor_opens_a_case_after_an_operator_returned_its_node() -> None:
    asking = Rule("ask", approval=(RepairAction.REPLACE_NODE,))
    world = World(rules=(asking,))
    world.fault_and_react()
    world.orders.deny(world.case().id, ADA)
    successor = ExternalReplacement(world).replace_instance()
    world.node_orders.return_node(world.key(), ADA)
    world.process_entries()
    world.until(lambda: world.instance() == successor)
    seen = world.clock.now()
    world.until(lambda: world.record_history()[-1] == "verify begun")
    world.advance_minutes(1)
    world.fault(code="xid.48", seen=seen)
    first = world.case().id
    world.until(lambda: world.case().id != first, minutes=60)
    assert world.case().code == "xid.48"
