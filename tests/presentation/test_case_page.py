"""The page of a case: the five answers, why a repair was refused, its phases and its course."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.cluster.config import Mode
from faultbridge.model.cluster.state import BreakerLimit
from faultbridge.model.enums import CaseStatus, DomainKind
from faultbridge.model.errors import Misconfigured
from faultbridge.model.event_data import Domain
from faultbridge.model.policy import Policy, Rule
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Capacity, CapacityEvidence, Verdict, Verification
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.serve.presentation.case_page import CasePage, case_page, case_reason
from faultbridge.serve.presentation.cluster_page import cluster_page
from faultbridge.serve.presentation.grid import GridNode
from faultbridge.serve.presentation.history import Span
from faultbridge.serve.presentation.tones import Tone
from tests.builders import NOON
from tests.presentation.builders import approval
from tests.presentation.histories import case_of, facts_of, replaced
from tests.scenarios.incidents.incidents import lose_links, world_of
from tests.scenarios.world import CLUSTER, World, limits

OPEN: dict[str, Any] = {"resolution": None, "closed_at": None}


def page_of(world: World, node: int = 1) -> CasePage:
    return case_page(case_of(world, node), world.clock.now())


def refusal_of(page: CasePage) -> str:
    """Return why the node was not repaired, or what delayed its repair."""
    return next((" ".join(one.sentences) for one in page.answers if one.is_refusal), "")


def answers(page: CasePage) -> dict[str, str]:
    found = {one.question: " ".join(one.sentences) for one in page.answers}
    answer = page.case.answer
    return found | {"What should you do?": " ".join((answer.action if answer.you else answer.system, *answer.commands))}


def test_a_replaced_node_has_all_answers_and_nothing_to_do() -> None:
    page = page_of(replaced())
    assert list(answers(page)) == [
        "What happened?", "Why this action?", "What was done?", "What should you do?",
    ]  # fmt: skip
    assert "(xid.79, fatal)" in answers(page)["What happened?"]
    assert "replace the node" in answers(page)["Why this action?"]
    assert "was replaced by" in answers(page)["What was done?"]
    todo = answers(page)["What should you do?"]
    assert todo.startswith("Nothing. If the fault comes back during the probation, an operator is paged")
    assert (page.status.text, page.status.tone, page.live) == ("resolved: replaced", Tone.GOOD, False)


def test_the_course_shows_node_condition_case_and_attempt() -> None:
    names = [lane.name for lane in page_of(replaced()).lanes.lanes]
    assert names[0] == "node"
    assert {"case", "attempt 1"} <= set(names)
    assert any(name.startswith("xid.79") for name in names)


def denied() -> World:
    world = approval()
    world.orders.deny(world.case().id, OperatorOrder("ada", "the job must finish"))
    world.process_entries()
    return world


def paused() -> World:
    world = World(nodes=3)
    world.pause_repairs(paused=True)
    world.fault_and_react(minutes=2)
    return world


def busy() -> World:
    world = World(nodes=3, limits=limits(concurrent=1))
    world.fault_and_react(2)
    world.fault_and_react(1, minutes=1)
    return world


def dry_run() -> World:
    world = World(nodes=3, mode=Mode.DRY_RUN)
    world.fault_and_react(minutes=2)
    return world


def absorbed() -> World:
    world = world_of()
    lose_links(world)
    world.advance_minutes(3)
    return world


def failing_once() -> World:
    world = World(nodes=3)
    world.verifier.results[f"i-{4:017x}"] = Verification(Verdict.FAILED, ("pcie: fail",), b"{}")
    world.fault_until_resolved()
    return world


CASES: dict[str, tuple[Callable[[], World], str, str, str]] = {
    # what happened: (world, status, why it was not repaired, what to do)
    "an approval is missing": (
        approval,
        "queued: approval",
        "requires that an operator approves this repair first",
        "case approve",
    ),
    "an operator denied it": (denied, "escalated", "the job must finish", "node return"),
    "repairs are paused": (
        paused,
        "queued: pause",
        "Repairs of cluster train-a are paused.",
        "faultbridge resume",
    ),
    "the budget is used up": (
        busy,
        "queued: budget",
        "limit of concurrent repairs is reached",
        "starts the repair when",
    ),
    "the mode is dry_run": (dry_run, "resolved: dry run", "was recorded and not carried out", "Nothing:"),
    "many nodes share a cause": (absorbed, "absorbed: incident", "The node is part of incident", "incident close"),
}


QUESTIONS = {
    replaced: "Why this action?",
    approval: "Which action is planned?",
    paused: "Which action is planned?",
    absorbed: "Which action is planned?",
    denied: "Which action was planned?",
    dry_run: "Which action was planned?",
}


@pytest.mark.parametrize("build", QUESTIONS)
def test_why_an_action_was_taken_is_asked_only_after_an_action(build: Callable[[], World]) -> None:
    assert [one for one in answers(page_of(build())) if "action" in one] == [QUESTIONS[build]]


@pytest.mark.parametrize("name", CASES)
def test_the_page_states_why_a_node_was_not_repaired_and_what_to_do(name: str) -> None:
    build, status, reason, action = CASES[name]
    page = page_of(build())
    assert page.status.text == status
    assert reason in refusal_of(page)
    assert {"Why was this not repaired?", "Why is this not repaired yet?"} & set(answers(page))
    assert action in answers(page)["What should you do?"]


def test_the_waits_of_a_repair_are_listed_with_their_reasons() -> None:
    world = approval()
    world.clock.advance(timedelta(minutes=5))
    world.orders.approve(world.case().id, OperatorOrder("ada", "checked"))
    world.until(world.case_is(CaseStatus.RESOLVED))
    page = page_of(world)
    (waits,) = [lane.bars for lane in page.lanes.lanes if lane.name == "waits for"]
    assert "approval by an operator" in {wait.text for wait in waits}
    assert all(not wait.running and wait.end > wait.start for wait in waits)
    assert "approval by an operator" in answers(page)["What delayed the repair?"]
    assert "ada approved the request of this case: replace the node" in answers(page)["Why this action?"]


def test_a_case_without_a_free_slot_names_the_limit_and_the_repairs_that_hold_the_slots() -> None:
    world = busy()
    shown = refusal_of(page_of(world))
    assert f"Repairs that hold a slot of the cluster: {world.case(2).id}." in shown


def test_an_approval_that_an_attempt_asked_for_is_not_said_to_be_required_by_a_rule() -> None:
    world = World(rules=(Rule("keep", release_without_capacity=False),))
    unread = "reading reservation cr-1 requires approval of its owner"
    world.provider.known_capacity = Capacity(reason=unread)
    world.fault_and_react()
    shown = refusal_of(page_of(world))
    assert shown.startswith(
        "An operator must approve the repair first: no evidence of capacity for a replacement instance:"
    )
    assert unread in shown
    assert "Rule" not in shown


def test_a_case_that_waits_for_capacity_states_the_time_of_the_next_try() -> None:
    world = World(nodes=2, rules=(Rule("keep", release_without_capacity=False),))
    world.provider.known_capacity = Capacity(CapacityEvidence.RESERVATION, free=False, reason="it is in use")
    world.fault_and_react(minutes=8)
    tried = world.case().capacity_checks
    shown = answers(page_of(world))
    found = re.search(r"tries again at ([-0-9]+ [0-9:]+) UTC", shown["What happens now?"])
    assert found is not None
    while f"{world.clock.now() + timedelta(minutes=2):%Y-%m-%d %H:%M}" < found[1]:
        assert world.case().capacity_checks == tried
        world.advance_minutes(1)
    world.advance_minutes(2)
    assert world.case().capacity_checks == tried + 1
    assert "no capacity for a successor: it is in use" in shown["Why is this not repaired yet?"]
    assert shown["What should you do?"].endswith(f"faultbridge case cancel {world.case().id}")
    world.orders.cancel(world.case().id, OperatorOrder("ada", "fixed"))


def test_no_answer_and_no_entry_of_a_case_shows_a_raw_name() -> None:
    for build in (replaced, approval, denied, paused, busy, dry_run, failing_once):
        page = page_of(build())
        shown = " ".join(sentence for one in page.answers for sentence in one.sentences)
        shown += " ".join(f"{row.what} {row.why}" for row in page.rows)
        assert not re.search(r"\b(replace_node|in_progress|not_applicable|VERIFY_FAILED|CAPACITY|none_left)\b", shown)


def test_a_list_of_cases_gives_the_reason_in_words() -> None:
    world = approval()
    span = Span(NOON, world.clock.now())
    (row,) = cluster_page(facts_of(world).cluster(CLUSTER, (None, None)), span).live_cases
    assert case_reason(row) == "node replacement requires approval: rule ask-first"


def test_a_case_whose_entries_have_expired_still_has_a_page() -> None:
    found = case_of(replaced())
    page = case_page(replace(found, entries=()), NOON + timedelta(days=900))
    assert (page.status.text, page.rows) == ("resolved: replaced", ())
    assert "(xid.79, fatal)" in answers(page)["What happened?"]


def test_a_live_case_grows_and_a_closed_one_does_not() -> None:
    world = approval()
    before = page_of(world)
    world.clock.advance(timedelta(hours=1))
    assert page_of(world).phases.end > before.phases.end
    closed = replaced()
    ended = page_of(closed).phases.end
    closed.clock.advance(timedelta(hours=1))
    assert page_of(closed).phases.end == ended


def test_an_incident_shows_its_nodes_its_growth_and_its_cases() -> None:
    from faultbridge.serve.presentation.incident_page import incident_page

    world = absorbed()
    facts = facts_of(world)
    (view,) = facts.views.incidents(CLUSTER)
    found, cluster, nodes = facts.incident(CLUSTER, view.incident.id)
    page = incident_page(found.document, cluster, nodes, found.entries, world.clock.now(), older=False)
    (part,) = page.parts
    assert (page.incident.affected, part.mark.text, len(part.nodes), page.unlisted) == (8, "8 of 8 affected", 8, 0)
    assert set(part.nodes) == set(page.incident.nodes) == set(page.incident.held_cases)
    assert [bar.text for lane in page.growth.lanes for bar in lane.bars if bar.running or bar.end > bar.start]
    assert page.answer.commands[1] == f"faultbridge incident close {view.incident.id}"


@pytest.mark.parametrize(("racks", "shown"), [(4, 4), (1200, 1)])
def test_a_wide_failure_domain_is_shown_by_its_parts_with_the_affected_nodes_marked(racks: int, shown: int) -> None:
    from faultbridge.serve.presentation.incident_page import incident_page

    world = absorbed()
    facts = facts_of(world)
    (view,) = facts.views.incidents(CLUSTER)
    found, cluster, _ = facts.incident(CLUSTER, view.incident.id)
    nodes = [GridNode(f"n-{number}", domain=f"rack-{number // 2 + 1}") for number in range(2 * racks)]
    spine = Domain(type=DomainKind.NETWORK_NODE_3, name="spine-1")
    document = replace(
        found.document, nodes=("n-0", "n-1"), held_cases={}, affected=2, domain_nodes=2 * racks, domain=spine
    )
    page = incident_page(document, cluster, nodes, (), world.clock.now(), older=False)
    marks = [("rack-1", "2 of 2 affected"), ("rack-2", "0 of 2 affected")]
    assert [(one.name, one.mark.text) for one in page.parts[:2]] == marks[:shown]
    assert (len(page.parts), page.parts[0].nodes) == (shown, ("n-0", "n-1"))
    assert page.unlisted == 2 * racks - 2 * shown


def test_an_attempt_whose_steps_are_not_on_the_page_counts_as_a_repair() -> None:
    found = case_of(failing_once())
    case = replace(found.case, **OPEN, status="in_progress", waiting_for=None)
    page = case_page(replace(found, case=case, entries=[]), found.now)
    assert answers(page)["What was done?"].startswith("A repair runs")


def test_a_case_that_waits_for_a_breaker_has_a_page_although_its_policy_cannot_be_read() -> None:
    world = World(nodes=10, breakers=(BreakerLimit(nodes=3, percent=20),))
    for node in (1, 4, 7):
        world.fault(node)
    world.process_entries(minutes=2)
    facts = facts_of(world)

    def unreadable(_: object) -> Policy:
        raise Misconfigured("policy 7 is not stored")

    facts.policy = unreadable
    found = facts.case(CLUSTER, world.case(1).id)
    assert "circuit breaker" in refusal_of(case_page(found, world.clock.now()))
