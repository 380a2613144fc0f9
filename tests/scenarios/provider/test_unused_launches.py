"""Unused launches: terminated in the first minute of an hour, and only where Faultbridge repairs the nodes."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.model.cluster.config import Mode, RepairOwner
from faultbridge.model.enums import CaseStatus
from faultbridge.model.storage import keys
from faultbridge.repair.registry.registration import Registration
from faultbridge.repair.successor.unused import end_unused_launches
from tests.scenarios.provider.builders import NEW, faulty, launched_and_then_retired
from tests.scenarios.world import CLUSTER
from tests.sim.fakes import Call


def test_an_unused_launch_is_terminated_in_the_first_minute_of_the_next_hour() -> None:
    world = launched_and_then_retired()
    world.until(lambda: world.clock.now().minute == 59)
    assert world.live_instances() == [NEW]
    world.advance_minutes()
    assert world.live_instances() == []


@pytest.mark.parametrize("changes", [{"mode": Mode.DRY_RUN}, {"repair_owner": RepairOwner.PROVIDER}])
def test_a_cluster_that_faultbridge_does_not_repair_keeps_its_unused_launches(changes: dict[str, Any]) -> None:
    world = launched_and_then_retired()
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, changes)
    world.advance_minutes(120)
    assert world.live_instances() == [NEW]


def test_an_instance_that_is_claimed_while_unused_launches_are_searched_is_kept() -> None:
    """The claims are read after the cases: a case that was read as closed can claim no instance any more."""
    world = faulty()
    world.process_entries()
    assert NEW in world.live_instances()
    case = keys.case(world.case().id)

    def claims_and_closes(call: Call) -> None:
        if call.name == "table.get_many" and case in call.argument:
            world.seam.before = lambda _: None
            world.until(world.case_is(CaseStatus.RESOLVED))

    world.seam.before = claims_and_closes
    end_unused_launches(world.step_runner.tools, CLUSTER)
    assert world.case().status is CaseStatus.RESOLVED
    assert (world.live_instances(), world.launcher.terminated) == ([NEW], [])
