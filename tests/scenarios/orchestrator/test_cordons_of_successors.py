"""The cordon of a successor confirms an isolation that the orchestrator did not confirm for the old instance."""

from __future__ import annotations

from faultbridge.model.enums import Isolation
from tests.scenarios.orchestrator.unreachable_orchestrator import DEAD, PROCEED, pages, unreachable_world


def test_a_cordoned_successor_is_isolated_and_ends_the_page_before_its_verification_starts() -> None:
    world = unreachable_world(PROCEED, code=DEAD[0], source=DEAD[1])
    world.advance_minutes(60)
    assert (world.node().isolation, pages(world)) == (Isolation.REQUESTED, ["note isolation overdue"])
    world.orchestrator.unreachable_until = None
    world.until(lambda: "verify begun" in world.record_history(), minutes=30)
    assert (world.node().isolation, world.orchestrator.cordoned) == (Isolation.CONFIRMED, {"node-1"})
    assert pages(world) == ["note isolation overdue", "note isolation over"]
    assert world.node().orchestrator_lost_at is None
