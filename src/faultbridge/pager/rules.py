"""All rules that decide which event triggers or resolves which page.

The rules about cases are in this module. The rules about operators' orders are in `operator_rules`, and the rules about
clusters are in `cluster_rules`.

- A fatal fault that Faultbridge can repair sends a notice when its repair is queued.
- A fault that needs an operator sends an urgent page.
- A case has at most one open page about its status. Pages about its approval and isolation may be open too.
- No rule is about the status of a node, because the rules about its case send the pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from faultbridge.domain.entries import EntryType
from faultbridge.pager.cluster_rules import CLUSTER_RULES
from faultbridge.pager.operator_rules import OPERATOR_RULES
from faultbridge.pager.page import PageState
from faultbridge.pager.page_rule import CASE_SHOW, NODE_SHOW, TIMELINE, Condition, PageKind, PageRule
from faultbridge.ports import PageUrgency

_CASE, _NOTE = EntryType.CASE_STATUS.value, EntryType.NOTE.value
_CASE_COMMANDS = (TIMELINE, CASE_SHOW)
_CLOSED = frozenset({"resolved", "expired"})
_CASE_IS = "The case is {to} ({reason})."
_CASE_CLOSED = "No further action: the case is {to} ({reason})."
_INCIDENT_PAGES = "None: the incident has a page of its own."

_REPAIRABLE: Condition = {
    "severity": frozenset({"fatal"}),
    "action": frozenset({"run_diagnostics", "reset_gpu", "reboot_node", "replace_node"}),
}
"""Faults that Faultbridge can repair. A fault with another action is escalated at once and needs no notice."""

_OPENED = PageKind("opened", _CASE, _CASE_COMMANDS, "node-failed", PageUrgency.NOTICE)
_ESCALATED = PageKind("escalated", _CASE, _CASE_COMMANDS, "stuck-case")
_APPROVAL = PageKind("approval", _NOTE, _CASE_COMMANDS, "approval")
_WAITING = PageKind("waiting", _NOTE, _CASE_COMMANDS, "reason-capacity")
_ISOLATION = PageKind("isolation", _NOTE, (TIMELINE, NODE_SHOW), "isolation")


def _to(*statuses: str) -> Condition:
    return {"to": frozenset(statuses)}


def _note(kind: str, stage: str) -> Condition:
    return {"kind": frozenset({kind}), "stage": frozenset({stage})}


CASE_RULES: tuple[PageRule, ...] = (
    _OPENED.triggered(
        # Not at `open`: a case that a cluster incident absorbs during its wait must send no page of its own.
        {"from": frozenset({"open", "escalated", "absorbed"}), **_to("queued"), **_REPAIRABLE},
        "node unusable, repair queued",
        "{isolates}, runs {repair_action}, verifies the node and returns it to service, "
        "as far as the cluster's mode allows.",
        "{meanwhile} An urgent page follows if the repair needs you.",
    ),
    _OPENED.resolved({**_to(*_CLOSED), **_REPAIRABLE}, "case closed, resolution: {resolution}", _CASE_CLOSED),
    replace(
        _OPENED.resolved(
            {**_to("escalated"), **_REPAIRABLE},
            "repair stopped, an urgent page follows",
            "Stops the automatic repair ({reason}).",
            "None, unless you receive urgent pages.",
        ),
        by_operator=False,
        runbook="stuck-case",
    ),
    replace(
        _OPENED.resolved(
            {**_to("absorbed"), **_REPAIRABLE},
            "case absorbed by a cluster incident",
            "Holds the repair until the incident closes ({reason}).",
            _INCIDENT_PAGES,
        ),
        runbook="incident",
    ),
    replace(
        _ESCALATED.triggered(
            _to("escalated"),
            "repair stopped, operator needed",
            "No further automatic action ({reason}). Node status: {status}.{not_isolated}",
            "Find the cause, fix or replace the node, then return it to service.",
        ),
        by_operator=False,
    ),
    _ESCALATED.resolved(_to(*_CLOSED), "case closed, resolution: {resolution}", _CASE_CLOSED),
    _ESCALATED.resolved(
        {"from": frozenset({"escalated"}), **_to("queued")},
        "automation resumed",
        "Continues the case: it is {to} ({reason}).",
    ),
    replace(
        _ESCALATED.resolved(
            {"from": frozenset({"escalated"}), **_to("absorbed")},
            "case absorbed by a cluster incident",
            "Holds the case until the incident closes ({reason}).",
            _INCIDENT_PAGES,
        ),
        runbook="incident",
    ),
    _APPROVAL.triggered(
        _note("approval", "begun"),
        "approval required",
        "Keeps the node {isolated} and waits for an answer ({text}).",
        "Approve (faultbridge case approve {case} --repair-action {repair_action}) or deny "
        "(faultbridge case deny {case} --repair-action {repair_action}) the repair.",
    ),
    _APPROVAL.resolved(
        _note("approval", "over"), "approval no longer required", "The approval request is closed ({text})."
    ),
    replace(
        _APPROVAL.resolved(_to(*_CLOSED, "escalated", "absorbed"), "approval no longer required", _CASE_IS),
        event_type=_CASE,
    ),
    _WAITING.triggered(
        _note("waiting", "overdue"),
        "node out of service, waits for {waiting_for}",
        "Keeps the node {isolated} and continues the repair as soon as an instance is free ({text}).",
        "Give the group {group} an instance: a reservation, a spare, a higher quota or desired size. Or allow another "
        "source in the policy (`capacity`).",
    ),
    _WAITING.resolved(_note("waiting", "over"), "node no longer waits", "Continues the repair ({text})."),
    replace(
        _WAITING.resolved(_to(*_CLOSED, "escalated", "absorbed"), "node no longer waits", _CASE_IS), event_type=_CASE
    ),
    _ISOLATION.triggered(
        _note("isolation", "overdue"),
        "faulty node not isolated",
        "Retries until the orchestrator answers ({text}).",
        "Fix the orchestrator or its permissions, or drain the node. New jobs may start on it.",
    ),
    _ISOLATION.resolved(
        _note("isolation", "over"), "orchestrator responds again", "The isolation request is closed ({text})."
    ),
    replace(
        _ISOLATION.resolved(_to(*_CLOSED), "isolation no longer required", _CASE_IS),
        event_type=_CASE,
    ),
)

RULES: tuple[PageRule, ...] = (*CASE_RULES, *OPERATOR_RULES, *CLUSTER_RULES)
EVENT_TYPES = tuple(dict.fromkeys(rule.event_type for rule in RULES))


def rules_for(event: Mapping[str, Any]) -> Iterator[PageRule]:
    """Return the rules that apply to an event; those that resolve a page precede those that trigger one.

    An event can resolve one page of a case and trigger another. In this order, the first page is resolved before the
    second page is triggered.
    """
    found = (rule for rule in RULES if rule.applies_to(event))
    return iter(sorted(found, key=lambda rule: rule.state is PageState.TRIGGERED))
