"""The hourly repair budget: its exhaustion is recorded and paged once, until it is available again."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.enums import WaitingFor
from faultbridge.model.times import to_text
from faultbridge.serve.pager.deliver import Paging
from tests.scenarios.world import CLUSTER, World, limits
from tests.sim.fakes import FakePager


def budget(world: World) -> list[str]:
    return [line for line in world.record_history(None) if line.startswith("budget")]


def exhausted() -> World:
    """Return a world whose hourly budget is exhausted, while one more case waits."""
    world = World(nodes=4, limits=limits(concurrent=4, per_hour=2))
    for node in (1, 2, 3):
        world.fault(node)
    world.process_entries(minutes=2)
    return world


def test_an_exhausted_budget_is_recorded_once_and_so_is_its_end() -> None:
    world = exhausted()
    waiting = [world.case(node).waiting_for for node in (1, 2, 3)]
    assert waiting.count(WaitingFor.BUDGET) == 1
    assert budget(world) == ["budget available -> used_up"]
    world.advance_minutes(20)
    assert budget(world) == ["budget available -> used_up"]
    world.advance_minutes(60)
    assert budget(world) == ["budget available -> used_up", "budget used_up -> available"]


def test_an_exhausted_budget_pages_and_the_page_is_resolved() -> None:
    world = exhausted()
    world.advance_minutes(80)
    pager = FakePager()
    paging = Paging(world.table, pager, world.clock)
    for body in world.bodies(None):
        paging.deliver(body)
    pages = [(page.key, page.attributes["state"]) for page in pager.sent if page.key.endswith(":budget")]
    assert pages == [(f"{CLUSTER}:budget", "triggered"), (f"{CLUSTER}:budget", "resolved")]
    assert "2 repairs started within an hour; the limit is 2" in pager.sent[0].bodies["email"]


def test_a_budget_that_is_not_exhausted_is_not_recorded() -> None:
    world = World(nodes=2, limits=limits(concurrent=2, per_hour=3))
    world.fault_and_react(1, minutes=5)
    assert budget(world) == []


def test_a_waiting_case_names_the_limit_that_it_waits_for() -> None:
    world = World(nodes=3, limits=limits(concurrent=1, per_hour=2))
    for node in (1, 2, 3):
        world.fault(node)
    world.process_entries()
    assert "the policy's limit of concurrent repairs is reached" in {world.case(node).reason for node in (1, 2, 3)}
    world.until(lambda: len(world.control().starts) == 2 and not world.control().holders)
    world.advance_minutes()
    (waiting,) = [case for case in map(world.case, (1, 2, 3)) if case.waiting_for is WaitingFor.BUDGET]
    assert waiting.reason == "the policy's limit of repairs per hour is reached"


def test_an_exhausted_budget_is_available_again_an_hour_after_its_oldest_repair_began() -> None:
    world = exhausted()
    oldest = min(world.control().starts)
    world.advance_minutes(65)
    untils = [body["data"]["until"] for body in world.bodies(None) if body["data"].get("kind") == "budget"]
    assert untils == [to_text(oldest + timedelta(hours=1)), None]
