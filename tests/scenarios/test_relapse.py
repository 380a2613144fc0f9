"""A node that breaks again between its verification and its return does not come back to work as it is."""

from __future__ import annotations

import pytest

from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.errors import Transient
from faultbridge.simulation.fakes import Call
from tests.scenarios.world import World


class BreaksAgain:
    """A hook that lets a fault be seen on the node at the first call to let it back to work."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen = False

    def __call__(self, call: Call) -> None:
        if call.name == "orchestrator.uncordon" and not self.seen:
            self.seen = True
            self.world.fault(code="xid.48")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_fault_after_the_verification_keeps_the_node_out_of_service(moment: str) -> None:
    world = World(orchestrated=True)
    world.fault()
    breaks = BreaksAgain(world)
    setattr(world.seam, moment, breaks)
    world.until(lambda: breaks.seen, minutes=120)
    assert world.status() is NodeStatus.QUARANTINED or world.case().status is not CaseStatus.RESOLVED
    assert world.orchestrator.cordoned == {"node-1"}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_it_is_repaired_like_any_other_or_handed_to_a_person(moment: str) -> None:
    world = World(orchestrated=True)
    world.fault()
    setattr(world.seam, moment, BreaksAgain(world))
    world.until(lambda: not world.case().status.live or world.case().status is CaseStatus.ESCALATED, minutes=240)
    assert world.case().status is CaseStatus.ESCALATED or not any(
        one.action.opens_case for one in world.node().active()
    )
    assert world.control().holders == {}


def test_a_node_that_was_let_back_unnoticed_is_closed_to_work_before_its_work_leaves_again() -> None:
    world = World(orchestrated=True)
    world.fault()
    breaks = BreaksAgain(world)

    def let_back_unnoticed(call: Call) -> None:
        if call.name == "orchestrator.uncordon" and not breaks.seen:
            breaks(call)
            raise Transient("the answer was lost")

    world.seam.after = let_back_unnoticed
    world.until(lambda: breaks.seen, minutes=120)
    closed_at_give_up = []

    def look(call: Call) -> None:
        if call.name == "provider.replace":
            closed_at_give_up.append(set(world.orchestrator.cordoned))

    world.seam.before = look
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=240)
    assert closed_at_give_up == [{"node-1"}]


def test_what_a_successor_said_before_it_was_proven_good_is_no_trouble_when_it_comes_late() -> None:
    world = World()
    world.fault()
    world.until(lambda: world.status() is NodeStatus.VALIDATING, minutes=120)
    before = world.clock.now()
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=120)
    world.minute(120)
    world.fault(code="xid.48", seen=before)
    world.minute()
    assert (list(world.node().active()), world.status()) == ([], NodeStatus.HEALTHY)


def test_what_was_seen_while_it_was_proven_counts_however_late_it_comes() -> None:
    world = World()
    world.fault()
    world.until(lambda: "verify begun" in world.story(), minutes=120)
    world.minute(2)
    during = world.clock.now()
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=120)
    world.fault(code="xid.48", seen=during)
    assert [one.code for one in world.node().active()] == ["xid.48"]
