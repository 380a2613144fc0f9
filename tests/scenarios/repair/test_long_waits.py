"""A node that waits long for capacity or a successor pages once, and its checks start no attempt and write nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from faultbridge.model.enums import CaseStatus, NodeStatus, WaitingFor
from faultbridge.model.errors import Transient
from faultbridge.model.policy import Limits
from faultbridge.model.storage import keys
from faultbridge.record.ports.compute import Capacity, CapacityEvidence
from faultbridge.record.ports.messaging import PageMessage, PageUrgency
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.successor.sources import check_capacity_waits
from faultbridge.serve.wiring.services import wire_step_runner
from tests.races import run_before_read, run_before_write, writes_to
from tests.scenarios.incidents.pages_of_incidents import pages
from tests.scenarios.world import GROUP, World, limits
from tests.sim.fakes import Call

FULL = Capacity(CapacityEvidence.RESERVATION, free=False, count=0, reason="reservation has 0 free")
FREE = Capacity(CapacityEvidence.OWN_RESERVATION)
HOUR, DAY = 60, 24 * 60


def world_without_capacity(nodes: int = 1, given: Limits | None = None) -> World:
    world = World(nodes=nodes, limits=given)
    world.provider.known_capacity = FULL
    for node in range(1, nodes + 1):
        world.fault(node)
    world.process_entries()
    return world


def waits(world: World) -> list[PageMessage]:
    """Return the pages about waits, all of which are urgent."""
    found = [page for page in pages(world) if page.key.endswith(":waiting")]
    assert {page.urgency for page in found} <= {PageUrgency.URGENT}
    return found


def states(world: World) -> list[str]:
    return [page.attributes["state"] for page in waits(world)]


def test_three_days_without_capacity_are_one_attempt_a_handful_of_entries_and_one_urgent_page() -> None:
    world = world_without_capacity()
    world.advance_minutes(3 * DAY, every=2)
    case = world.case()
    assert (world.status(), case.status, case.waiting_for) == (
        NodeStatus.QUARANTINED,
        CaseStatus.QUEUED,
        WaitingFor.CAPACITY,
    )
    assert (case.attempts, case.counted_attempts) == (1, 0)
    assert case.capacity_checks == pytest.approx(3 * DAY / 10, abs=2)
    assert len(world.bodies(1)) <= 15
    assert states(world) == ["triggered"]
    assert world.released_instances() == []


def test_the_page_about_a_wait_for_capacity_is_sent_after_the_limit_of_the_policy_and_says_what_to_do() -> None:
    world = world_without_capacity(given=limits(page_waiting_after=timedelta(minutes=30)))
    world.advance_minutes(29)
    assert waits(world) == []
    world.advance_minutes(2)
    (page,) = waits(world)
    text = page.bodies["email"]
    assert "waits for capacity" in text
    assert "reservation has 0 free" in text
    assert f"Give the group {GROUP} an instance: a reservation, a spare" in text


def test_the_page_about_a_wait_is_resolved_when_the_old_instance_is_released() -> None:
    world = world_without_capacity()
    world.advance_minutes(2 * HOUR)
    assert states(world) == ["triggered"]
    world.provider.known_capacity = FREE
    world.until(lambda: bool(world.released_instances()), 12)
    assert states(world) == ["triggered", "resolved"]
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert states(world) == ["triggered", "resolved"]


def before_the_page(world: World, act: Callable[[], object]) -> list[str]:
    """Act when a wait that is too long is about to be recorded, and return what was recorded."""
    done: list[str] = []

    def once() -> None:
        done.append("acted")
        world.clock.advance(1)
        act()

    run_before_write(world.seam, lambda write: "waits for capacity since" in repr(write), once)
    world.advance_minutes(2)
    assert done
    return world.record_history()


def test_two_sweeps_at_once_record_one_wait_that_is_too_long() -> None:
    world = world_without_capacity(given=limits(page_waiting_after=timedelta(minutes=30)))
    world.advance_minutes(29)
    assert before_the_page(world, world.sweep.run).count("note waiting overdue") == 1


def test_a_case_that_stops_to_wait_just_before_it_pages_does_not_page() -> None:
    world = world_without_capacity(given=limits(page_waiting_after=timedelta(minutes=30)))
    world.advance_minutes(29)
    recorded = before_the_page(world, lambda: world.orders.cancel(world.case().id, OperatorOrder("ada")))
    assert "note waiting overdue" not in recorded


def test_a_check_of_capacity_delays_no_case_that_was_canceled_meanwhile() -> None:
    world = world_without_capacity()
    world.advance_minutes(7)
    canceled: list[str] = []

    def cancel() -> None:
        canceled.append(world.case().id)
        world.clock.advance(1)
        world.orders.cancel(world.case().id, OperatorOrder("ada"))

    run_before_write(world.seam, writes_to(keys.node_state(world.key())), cancel)
    world.until(lambda: bool(canceled), minutes=5)
    assert world.case().capacity_checks == 0


def test_a_check_of_capacity_is_not_done_for_a_case_whose_attempt_another_sweep_has_just_permitted() -> None:
    world = world_without_capacity()
    world.advance_minutes(7)
    admitted: list[CaseStatus] = []

    def permit() -> None:
        world.provider.known_capacity = FREE
        world.sweep.run()
        world.process_entries()
        admitted.append(world.case().status)
        world.provider.known_capacity = FULL

    world.clock.advance(90)
    run_before_read(world.seam, keys.node_state(world.key()), permit)
    check_capacity_waits(wire_step_runner(world.app).tools, world.key().cluster)
    assert admitted == [CaseStatus.IN_PROGRESS]
    assert world.control().no_capacity_until == {}


def test_each_of_several_nodes_that_wait_for_capacity_pages_once() -> None:
    world = world_without_capacity(3)
    world.advance_minutes(5 * HOUR)
    assert len({page.key for page in waits(world)}) == len(waits(world)) == 3


def test_a_wait_for_a_slot_while_the_group_has_capacity_is_no_wait_for_capacity() -> None:
    world = world_without_capacity(2, limits(concurrent=1, page_waiting_after=timedelta(minutes=25)))
    world.advance_minutes(5)
    world.provider.known_capacity = FREE
    world.until(lambda: bool(world.released_instances()), 15)
    assert world.case(2).waiting_for is WaitingFor.BUDGET
    world.provider.known_capacity = FULL
    world.until(lambda: world.case(2).waiting_for is WaitingFor.CAPACITY)
    assert world.clock.now() > world.case(2).opened_at + timedelta(minutes=25)
    world.advance_minutes(5)
    assert waits(world) == []
    world.advance_minutes(30)
    assert states(world) == ["triggered"]


def test_a_wait_for_capacity_that_a_failed_launch_interrupts_again_and_again_still_pages_once() -> None:
    world = World()
    world.launch_from_template()
    world.fleet.capacity_left = 0
    world.fault_and_react()
    world.advance_minutes(DAY, every=5)
    assert (world.case().waiting_for, world.case().counted_attempts) == (WaitingFor.CAPACITY, 0)
    assert states(world) == ["triggered"]


def test_a_node_that_waits_for_a_successor_pages_once_after_an_hour_and_resolves_the_page_when_it_is_claimed() -> None:
    world = World()
    world.fleet.set_capacity(0)
    world.fault_and_react()
    world.until(lambda: world.status() is NodeStatus.PROVISIONING)
    world.advance_minutes(58)
    assert waits(world) == []
    world.advance_minutes(5 * HOUR)
    (page,) = waits(world)
    assert "waits for a successor" in page.bodies["email"]
    world.fleet.launch(GROUP)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert states(world) == ["triggered", "resolved"]


def test_a_node_whose_launches_of_a_successor_get_no_answer_pages_after_an_hour() -> None:
    world = World()
    world.launch_from_template()
    world.fleet.terminate("i-00000000000000001")

    def no_answer(call: Call) -> None:
        if call.name == "launcher.launch":
            raise Transient("connection reset")

    world.seam.before = no_answer
    world.fault_and_react(minutes=2 * HOUR)
    assert world.status() is NodeStatus.PROVISIONING
    assert states(world) == ["triggered"]


def test_a_node_whose_candidates_cannot_be_read_for_hours_pages_after_an_hour() -> None:
    world = World()
    world.fleet.set_capacity(0)
    world.fault_and_react(minutes=5)
    assert world.status() is NodeStatus.PROVISIONING

    def fail(call: Call) -> None:
        if call.name == "provider.candidates":
            raise Transient("the provider gives no answer")

    world.seam.before = fail
    world.advance_minutes(2 * HOUR)
    (page,) = waits(world)
    assert "the provider gives no answer" in page.bodies["email"]


def test_the_page_about_a_wait_for_a_successor_is_replaced_by_the_page_of_the_escalated_case() -> None:
    world = World()
    world.fleet.set_capacity(0)
    world.fault_until(CaseStatus.ESCALATED)
    kinds = [f"{page.key.rpartition(':')[2]} {page.attributes['state']}" for page in pages(world)]
    assert kinds[-3:] == ["opened resolved", "waiting resolved", "escalated triggered"]
    assert not world.case().wait_paged


def test_no_capacity_is_checked_while_repairs_are_paused() -> None:
    world = world_without_capacity()
    world.controls.pause("train-a")
    world.advance_minutes(2 * HOUR)
    assert world.case().capacity_checks == 0
