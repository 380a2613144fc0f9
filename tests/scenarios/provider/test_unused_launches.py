"""Unused launches: terminated in the first minute of an hour, and only where Faultbridge repairs the nodes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.cluster.config import Mode, RepairOwner
from faultbridge.model.enums import CaseStatus, ProviderFailure
from faultbridge.model.errors import Transient
from faultbridge.model.storage import keys
from faultbridge.model.values import replace
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.registration import Registration
from faultbridge.repair.successor.launch import end_unused_launches
from tests.scenarios.provider.builders import NEW, OLD, faulty, launched_and_then_retired, pool, world_with_ready
from tests.scenarios.world import CLUSTER, GROUP
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


def test_a_case_closes_without_an_answer_of_the_provider_and_its_unused_launch_is_terminated_later() -> None:
    world = faulty()
    world.provider.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.until_case(CaseStatus.ESCALATED)

    def gives_no_answer(call: Call) -> None:
        if call.name == "launcher.terminate":
            raise Transient("no answer")

    world.seam.before = gives_no_answer
    world.node_orders.return_node(world.key(), OperatorOrder("jane"))
    world.until_case(CaseStatus.RESOLVED)
    assert world.live_instances() == [OLD, NEW]
    world.seam.before = lambda _: None
    world.advance_minutes(60)
    assert world.live_instances() == [OLD]


def test_of_two_instances_with_the_tag_of_a_ready_spare_the_one_that_the_pool_does_not_have_is_terminated() -> None:
    """Only while a spare is launching does its tag alone keep an instance."""
    world = world_with_ready(1)
    (spare,) = pool(world)
    second = world.fleet.launch(GROUP, at=world.clock.now())
    world.fleet.instances[second] = replace(world.fleet.instances[second], case=spare.owner)
    world.clock.advance_to(world.clock.now().replace(minute=0) + timedelta(hours=1))
    end_unused_launches(world.step_runner.tools, CLUSTER)
    assert world.live_instances() == [OLD, spare.instance_id]
