"""Page of a node: why a node with faults is not repaired or not yet, and what an operator can do about it."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.domain.cases import RepairAction
from faultbridge.domain.cluster.breakers import BreakerLimit
from faultbridge.domain.cluster.config import Mode
from faultbridge.domain.policy import Rule
from faultbridge.pipeline.decide.no_repair import no_repair
from faultbridge.presentation.history import Span
from faultbridge.presentation.node_page import NodePage, node_page
from tests.builders import NOON
from tests.presentation.histories import facts_of, replaced
from tests.scenarios.world import CLUSTER, World


def page_of(world: World, node: int = 1) -> NodePage:
    found = facts_of(world).node(CLUSTER, f"node-{node}", (None, None))
    span = Span(NOON - timedelta(days=1), world.clock.now())
    return node_page(found.document, found.entries, span, older=False, jobs=found.jobs, case=found.case)


def answers(page: NodePage) -> dict[str, str]:
    return {one.question: " ".join((*one.sentences, *one.commands)) for one in page.answers}


def behind_a_breaker() -> World:
    world = World(nodes=10, breakers=(BreakerLimit(nodes=3, percent=20, trial=1),))
    for node in (1, 4, 7):
        world.fault(node)
    world.process_entries()
    world.advance_minutes(2)
    return world


def test_a_node_with_faults_and_no_case_states_why_in_the_words_of_node_show() -> None:
    world = World(nodes=2, mode=Mode.OBSERVE)
    world.fault_and_react()
    state = world.node()
    found = no_repair(state, facts_of(world).views.cluster(CLUSTER).config, world.clock.now())
    assert found is not None
    before, command, after = found.change.split("`")
    expected = f"{found.reason}. What changes this: {before}the command below{after}. {command}"
    assert answers(page_of(world))["Why was this not repaired?"].lower() == expected.lower()


def test_a_healthy_node_has_nothing_to_explain() -> None:
    assert page_of(replaced()).answers == ()


def test_a_node_under_an_open_breaker_states_the_count_the_limit_and_why_it_stays_in_service() -> None:
    page = page_of(behind_a_breaker())
    shown = answers(page)["Why is this not repaired yet?"]
    assert "3 of 10 nodes failed (limit: 3 nodes that are 20 % of the nodes)" in shown
    assert "stays in service: while a breaker is open" in shown
    assert next(one.nodes for one in page.answers if one.is_refusal) == ("node-4", "node-7")
    assert "no further node has failed for 10m 00s" in answers(page)["What happens now?"]
    assert "1 repair at a time as a trial" in answers(page)["What happens now?"]


def test_a_breaker_that_opened_too_often_is_not_said_to_close_by_itself() -> None:
    world = World(nodes=10, breakers=(BreakerLimit(nodes=3, percent=20, openings=1),))
    for node in (1, 4, 7):
        world.fault(node)
    world.process_entries()
    world.advance_minutes(2)
    assert "closes when no node fails, or an operator closes it" in answers(page_of(world))["What happens now?"]


def test_a_node_that_waits_for_an_approval_states_what_happens_when_the_request_expires() -> None:
    world = World(nodes=2, rules=(Rule("ask", approval=(RepairAction.REPLACE_NODE,)),))
    world.fault_and_react()
    world.advance_minutes(2)
    shown = answers(page_of(world))
    assert "2026-" in shown["What happens now?"]
    assert "the case is escalated: no repair starts, and an operator is paged" in shown["What happens now?"]
    assert "case approve" in shown["What should you do?"]
