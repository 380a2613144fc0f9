"""Which events send a page, how urgent it is, and which runbook it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faultbridge.model.enums import EntryType, ProviderFailure
from faultbridge.record.ports.messaging import PageUrgency
from faultbridge.serve.pager.rules import RULES
from tests.pager.sending import sent
from tests.pages import ESCALATED, QUEUED, case_event, event

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"


@pytest.mark.parametrize(
    "quiet",
    [
        case_event("open"),
        case_event("queued", severity="error", **{"from": "open"}),
        case_event("queued", action="contact_support", **{"from": "open"}),
        case_event("queued", **{"from": "in_progress"}),
        case_event("absorbed", **{"from": "open"}),
        event(EntryType.NODE_STATUS, **{"from": "validating", "to": "failed", "reason": "its case is escalated"}),
        event(EntryType.FAULT_DETECTED, severity="fatal"),
        event(EntryType.CASE_STATUS),
    ],
)
def test_an_event_that_needs_no_operator_sends_no_page(quiet: dict[str, Any]) -> None:
    assert sent(quiet) == []


def test_an_automatic_repair_sends_a_notice_and_an_escalation_sends_an_urgent_page() -> None:
    assert [(page.urgency, page.attributes["state"]) for page in sent(QUEUED, ESCALATED)] == [
        (PageUrgency.NOTICE, "triggered"),
        (PageUrgency.NOTICE, "resolved"),
        (PageUrgency.URGENT, "triggered"),
    ]


def test_a_repair_that_an_operator_stopped_sends_a_notice_and_no_urgent_page() -> None:
    denied = case_event("escalated", 12, **{"from": "queued", "reason": "denied: a job runs"})
    denied["metadata"]["recorded_by"] = "cli"
    returned = case_event("queued", 13, **{"from": "escalated", "reason": "returned by an operator"})
    pages = [(page.key.rpartition(":")[2], page.urgency, page.attributes["state"]) for page in sent(QUEUED, denied)]
    assert pages == [
        ("opened", PageUrgency.NOTICE, "triggered"),
        ("opened", PageUrgency.NOTICE, "resolved"),
        ("stopped", PageUrgency.NOTICE, "triggered"),
    ]
    last = sent(QUEUED, denied, returned)[3:]
    assert ("stopped", PageUrgency.NOTICE, "resolved") in [
        (page.key.rpartition(":")[2], page.urgency, page.attributes["state"]) for page in last
    ]
    assert {page.urgency for page in last} == {PageUrgency.NOTICE}


def test_every_kind_of_page_has_a_trigger_and_a_resolve() -> None:
    by_state = {state: {rule.kind for rule in RULES if rule.state == state} for state in ("triggered", "resolved")}
    assert by_state["triggered"] == by_state["resolved"]


def test_every_rule_names_an_existing_runbook() -> None:
    for rule in RULES:
        assert (RUNBOOKS / f"{rule.runbook}.md").is_file(), rule.runbook


@pytest.mark.parametrize("failure", ProviderFailure)
def test_an_escalation_names_the_runbook_of_its_failure_reason(failure: ProviderFailure) -> None:
    name = f"reason-{failure.value.lower().replace('_', '-')}"
    (page,) = sent(case_event("escalated", failure=failure.value))
    assert f"docs/runbooks/{name}.md" in page.bodies["email"]
    assert (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8").startswith(f"# {failure.value}: ")
