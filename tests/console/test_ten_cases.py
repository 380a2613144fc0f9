"""The page of a case states cause, action taken and why a repair was refused, each in the first sentence there."""

from __future__ import annotations

import pytest

from faultbridge.serve.presentation.case_page import case_page
from tests.console.ten_cases import HISTORIES, TenCases, ten_cases

pytestmark = pytest.mark.slow

CAUSE, DONE, REFUSED, DELAYED = (
    "What happened?", "What was done?", "Why was this not repaired?", "What delayed the repair?"
)  # fmt: skip
NOT_YET = "Why is this not repaired yet?"
LOST = "GPU has fallen off the bus (xid.79, fatal)"
TRUTH: dict[str, dict[str, str]] = {
    "no_capacity": {
        CAUSE: "Double bit ECC error (xid.48, fatal)",
        DONE: "tried and not completed",
        REFUSED: "no capacity for a successor: the capacity reservation cr-0f3 is in use",
    },
    "replaced": {CAUSE: LOST, DONE: "i-00000000000000004 was replaced by i-00000000000000011"},
    "held_by_incident": {
        CAUSE: "network interface has no link",
        DONE: "No repair was started",
        REFUSED: "8 of 8 nodes of rack rack-1 have network faults",
    },
    "denied": {
        CAUSE: LOST,
        DONE: "No repair",
        REFUSED: "ada denied the repair (replace the node): the job",
    },
    "rebooted": {CAUSE: LOST, DONE: "The node was rebooted and verified"},
    "second_fault_in_a_day": {CAUSE: LOST, DONE: "No repair", REFUSED: "came back during the probation"},
    "refused_by_breaker": {CAUSE: LOST, DONE: "No repair", REFUSED: "Too many nodes failed at once"},
    "bad_successor": {
        CAUSE: LOST,
        DONE: "in 2 attempts",
        DELAYED: "diagnostics failed on instance i-00000000000000011",
    },
    "waits_for_approval": {
        CAUSE: LOST,
        DONE: "No repair",
        REFUSED: "an operator approves this repair first",
    },
    "quarantined_by_operator": {
        CAUSE: 'Operator lin ordered "quarantine" for node-11: loss spikes',
        DONE: "No repair",
        REFUSED: "An operator keeps the node out of service",
    },
}


@pytest.fixture(scope="module")
def cases() -> TenCases:
    return ten_cases()


@pytest.mark.parametrize("name", [history.__name__ for history in HISTORIES])
def test_the_first_sentences_state_cause_action_and_refusal(cases: TenCases, name: str) -> None:
    facts = cases.pages.facts
    _, _, cluster, _, case_id = cases.paths[name].split("/")
    found = facts.case(cluster, case_id)
    page = case_page(found, facts.clock.now())
    first = {one.question: one.sentences[0] for one in page.answers}
    first = {REFUSED if question == NOT_YET else question: text for question, text in first.items()}
    assert {question for question in first if question in {REFUSED, DELAYED}} == set(TRUTH[name]) - {CAUSE, DONE}
    assert {question: text for question, text in TRUTH[name].items() if text not in first[question]} == {}, first


def test_the_case_of_an_operator_names_no_repair_action_of_a_rule(cases: TenCases) -> None:
    facts = cases.pages.facts
    _, _, cluster, _, case_id = cases.paths["quarantined_by_operator"].split("/")
    found = facts.case(cluster, case_id)
    shown = case_page(found, facts.clock.now())
    assert not {"Repair action", "Rule"}.intersection(name for name, _ in shown.facts)
