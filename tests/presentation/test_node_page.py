"""Page of a node: why a node with faults is not repaired or not yet, and what an operator can do about it."""

from __future__ import annotations

import re
from datetime import timedelta

from faultbridge.decide.answers import node_answer
from faultbridge.model.cluster.config import Mode
from faultbridge.model.cluster.state import BreakerLimit
from faultbridge.model.enums import RepairAction
from faultbridge.model.fault_enums import Severity
from faultbridge.model.policy import Rule
from faultbridge.serve.presentation.history import Span
from faultbridge.serve.presentation.node_page import NodePage, node_page
from tests.builders import NOON
from tests.presentation.builders import behind_a_breaker
from tests.presentation.histories import facts_of, replaced
from tests.scenarios.world import CLUSTER, World


def page_of(world: World, node: int = 1) -> NodePage:
    found = facts_of(world).node(CLUSTER, f"node-{node}", (None, None))
    span = Span(NOON - timedelta(days=1), world.clock.now())
    return node_page(found.document, found.entries, span, older=False, jobs=found.jobs, case=found.case)


def answers(page: NodePage) -> dict[str, str]:
    found = {one.question: " ".join(one.sentences) for one in page.answers}
    answer = page.node.answer
    return found | {"What should you do?": " ".join((answer.action if answer.you else answer.system, *answer.commands))}


def test_a_node_with_faults_and_no_case_states_why_in_the_words_of_node_show() -> None:
    world = World(nodes=2, mode=Mode.OBSERVE)
    world.fault_and_react()
    state = world.node()
    view = facts_of(world).views.cluster(CLUSTER)
    found = node_answer(state, view.config, view.control, world.clock.now())
    shown = answers(page_of(world))
    assert shown["Why was this not repaired?"] == found.what
    assert shown["What should you do?"] == f"{found.action} {found.commands[0]}"


def test_a_healthy_node_states_that_it_has_no_fault_and_how_its_last_case_ended() -> None:
    world = replaced()
    first, last = page_of(world).answers[0].sentences
    assert first == "No fault of this node is active. Its status is healthy."
    closed = f"{world.case().closed_at:%Y-%m-%d %H:%M} UTC"
    assert (
        f"Its last case {world.case().id}, GPU has fallen off the bus (xid.79, fatal), was closed at {closed}" in last
    )
    assert "replaced" in last
    assert answers(page_of(world))["What should you do?"] == "Nothing: jobs may run on the node."
    assert page_of(world, 2).answers[0].sentences[1] == "No case of this node is recorded."


def test_a_node_with_a_live_case_states_first_what_happened() -> None:
    world = World(nodes=2)
    world.fault_and_react()
    page = page_of(world)
    assert page.answers[0].question == "What happened?"
    assert page.answers[0].sentences[0] == "GPU has fallen off the bus (xid.79, fatal) on gpu 0000:c1:00 of node-1."
    assert "What was done?" in answers(page)


def test_a_node_with_faults_and_no_case_states_the_worst_of_them_first() -> None:
    world = World(nodes=2, mode=Mode.OBSERVE)
    world.fault(1, "xid.63", severity=Severity.WARNING, message="row remapping")
    world.fault_and_react(1, message="GPU 3 is gone")
    first, more, _ = page_of(world).answers[0].sentences
    assert re.fullmatch(r"Xid\.79 \(fatal\) on gpu .* since 2026-02-03 1[0-9:]+ UTC: GPU 3 is gone\.", first)
    assert more == "1 other fault is active: see the active conditions."


def test_a_node_under_an_open_breaker_states_the_count_and_the_limit() -> None:
    page = page_of(behind_a_breaker())
    shown = answers(page)["Why is this not repaired yet?"]
    assert shown.startswith("Too many nodes failed at once (3 of 10)")
    assert next(one.nodes for one in page.answers if one.is_refusal) == ("node-4", "node-7")
    assert "until no further node has failed for some time" in answers(page)["What happens now?"]


def test_a_breaker_that_opened_too_often_is_not_said_to_close_by_itself() -> None:
    world = World(nodes=10, breakers=(BreakerLimit(nodes=3, percent=20, openings=1),))
    for node in (1, 4, 7):
        world.fault(node)
    world.process_entries(minutes=2)
    assert (
        "keeps the breaker open until no node fails, or an operator closes it"
        in answers(page_of(world))["What happens now?"]
    )


def test_a_node_that_waits_for_an_approval_states_what_happens_when_the_request_expires() -> None:
    world = World(nodes=2, rules=(Rule("ask", approval=(RepairAction.REPLACE_NODE,)),))
    world.fault_and_react(minutes=2)
    shown = answers(page_of(world))
    assert "2026-" in shown["What happens now?"]
    assert "it starts no repair and escalates the case" in shown["What happens now?"]
    assert "case approve" in shown["What should you do?"]
