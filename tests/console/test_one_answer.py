"""Console, page, `case show`, `stuck`, API and runbook give one answer in each of many situations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from faultbridge.model.cluster.config import Mode
from faultbridge.model.enums import RepairAction
from faultbridge.model.policy import Rule
from faultbridge.record.ports.compute import Verdict, Verification
from faultbridge.record.timeline import Timeline
from faultbridge.repair.registry.documents import shown_case_document, shown_node_document
from faultbridge.repair.registry.views import Views
from faultbridge.serve.console.facts import Facts
from faultbridge.serve.pager.deliver import Paging
from faultbridge.serve.presentation.case_page import case_page
from tests.architecture.project import ROOT
from tests.console.ten_cases import HISTORIES
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import FakePager

NEVER = Rule("never", repair_actions=())
ASKS = Rule("asks", approval=(RepairAction.REPLACE_NODE,), release_without_capacity=True)


def failing(*rules: Rule, minutes: int = 3, paused: bool = False, mode: Mode = Mode.ACT) -> World:
    """Return a world with one faulty node."""
    world = World(nodes=3, rules=rules)
    world.pause_repairs(paused=paused)
    world.set_mode(mode)
    world.fault_and_react(minutes=minutes)
    return world


def verification_fails() -> World:
    world = World(nodes=3)
    world.verifier.result = Verification(Verdict.FAILED, ("pcie: fail",), b"{}")
    world.fault_and_react()
    world.advance_minutes(600)
    return world


def unanswered() -> World:
    world = failing(ASKS)
    world.clock.advance(timedelta(days=2))
    world.advance_minutes(3)
    return world


SITUATIONS: dict[str, Callable[[], tuple[World, int]]] = {
    **{history.__name__: history for history in HISTORIES},
    "just queued": lambda: (failing(minutes=0), 1),
    "repairs run": lambda: (failing(), 1),
    "paused": lambda: (failing(paused=True), 1),
    "observed": lambda: (failing(mode=Mode.OBSERVE), 1),
    "dry run": lambda: (failing(mode=Mode.DRY_RUN), 1),
    "no action permitted": lambda: (failing(NEVER), 1),
    "approval asked": lambda: (failing(ASKS), 1),
    "approval unanswered": lambda: (unanswered(), 1),
    "verification failed": lambda: (verification_fails(), 1),
    "waits": lambda: (failing(Rule("waits", wait_seconds=3600)), 1),
    "waits and paused": lambda: (failing(Rule("waits", wait_seconds=3600), paused=True), 1),
    "asks and paused": lambda: (failing(ASKS, paused=True), 1),
    "escalated and observed": lambda: (_then(failing(NEVER), Mode.OBSERVE), 1),
    "queued and observed": lambda: (_then(failing(ASKS), Mode.OBSERVE), 1),
    "queued and dry run": lambda: (_then(failing(ASKS), Mode.DRY_RUN), 1),
    "healthy": lambda: (World(nodes=2), 2),
    "healthy and observed": lambda: (failing(mode=Mode.OBSERVE), 2),
    "paused and healthy": lambda: (failing(paused=True), 2),
    "denied rule": lambda: (failing(NEVER, minutes=30), 1),
    "long pause": lambda: (failing(paused=True, minutes=120), 1),
}


def _then(world: World, mode: Mode) -> World:
    world.set_mode(mode)
    return world


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_output_gives_the_same_answer(name: str) -> None:
    world, node = SITUATIONS[name]()
    views, now = Views(world.table), world.clock.now()
    view, state = views.cluster(CLUSTER), world.node(node)
    of_node = shown_node_document(state, view, now).answer
    assert (ROOT / "docs" / "runbooks" / f"{of_node.runbook}.md").is_file()
    if state.case is None:
        return
    case = views.case(state.case.id)
    answer = shown_case_document(case, state, view, now).answer
    assert state.live_case is None or answer == of_node
    documents = Facts(views, Timeline(world.table), world.clock, lambda _: world.policy).case(CLUSTER, case.case.id)
    assert documents.case.answer == answer
    page = case_page(documents, now)
    assert page.case.answer == answer


@pytest.mark.parametrize("name", ["no action permitted", "verification failed", "approval asked"])
def test_the_open_page_of_a_case_gives_the_commands_of_its_answer_in_their_order(name: str) -> None:
    world, node = SITUATIONS[name]()
    view, state, pager = Views(world.table).cluster(CLUSTER), world.node(node), FakePager()
    for body in world.bodies(node):
        Paging(world.table, pager, world.clock).deliver(body)
    email = [one.bodies["email"] for one in pager.sent if one.attributes["state"] == "triggered"][-1]
    answer = shown_node_document(state, view, world.clock.now()).answer
    places = [email.find(f"  {command}\n") for command in answer.commands]
    assert answer.needs_you
    assert places == sorted(places)
    assert places[0] >= 0
    assert f"docs/runbooks/{answer.runbook}.md" in email


def test_thirty_situations_are_compared() -> None:
    assert len(SITUATIONS) == 30
