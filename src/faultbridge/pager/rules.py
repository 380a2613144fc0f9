"""All kinds of pages: those of cases here, of operators' orders in `operator_rules`, of clusters in `cluster_rules`.

A fault that Faultbridge repairs by itself sends a notice only. A fault that needs an operator sends an urgent page.
A case has one open key at a time. Its urgent page covers the failed node: a node fails only together with its case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.domain.entries import EntryType
from faultbridge.pager.cluster_rules import CLUSTER_RULES
from faultbridge.pager.operator_rules import OPERATOR_RULES
from faultbridge.pager.page import PageState
from faultbridge.pager.page_rule import CASE_SHOW, NODE_SHOW, TIMELINE, PageRule
from faultbridge.ports import PageUrgency

_CASE, _NOTE = EntryType.CASE_STATUS.value, EntryType.NOTE.value
_TRIGGERED, _RESOLVED = PageState.TRIGGERED, PageState.RESOLVED
_CASE_COMMANDS = (TIMELINE, CASE_SHOW)
_NODE_COMMANDS = (TIMELINE, NODE_SHOW)
_CLOSED = frozenset({"resolved", "expired"})
_CASE_IS = "The case is {to} ({reason})."
_CASE_CLOSED = "No further action: the case is {to} ({reason})."

_REPAIRABLE = {
    "severity": frozenset({"fatal"}),
    "action": frozenset({"run_diagnostics", "reset_gpu", "reboot_node", "replace_node"}),
}
"""Faults that Faultbridge can repair. A fault with another action is escalated at once and needs no notice."""

CASE_RULES: tuple[PageRule, ...] = (
    PageRule(
        kind="opened",
        event_type=_CASE,
        # Not at `open`: a case that a cluster incident absorbs during its wait must send no page of its own.
        when={"from": frozenset({"open", "escalated", "absorbed"}), "to": frozenset({"queued"}), **_REPAIRABLE},
        state=_TRIGGERED,
        urgency=PageUrgency.NOTICE,
        headline="node unusable, repair queued",
        system_action="{isolates}, runs {repair_action}, verifies the node and returns it to service, "
        "as far as the cluster's mode allows.",
        action_required="{meanwhile} An urgent page follows if the repair needs you.",
        commands=_CASE_COMMANDS,
        runbook="node-failed",
    ),
    PageRule(
        kind="opened",
        event_type=_CASE,
        when={"to": _CLOSED, **_REPAIRABLE},
        state=_RESOLVED,
        urgency=PageUrgency.NOTICE,
        headline="case closed, resolution: {resolution}",
        system_action=_CASE_CLOSED,
        commands=_CASE_COMMANDS,
        runbook="node-failed",
    ),
    PageRule(
        kind="opened",
        event_type=_CASE,
        when={"to": frozenset({"escalated"}), **_REPAIRABLE},
        by_operator=False,
        state=_RESOLVED,
        urgency=PageUrgency.NOTICE,
        headline="repair stopped, an urgent page follows",
        system_action="Stops the automatic repair ({reason}).",
        action_required="None, unless you receive urgent pages.",
        commands=_CASE_COMMANDS,
        runbook="stuck-case",
    ),
    PageRule(
        kind="opened",
        event_type=_CASE,
        when={"to": frozenset({"absorbed"}), **_REPAIRABLE},
        state=_RESOLVED,
        urgency=PageUrgency.NOTICE,
        headline="case absorbed by a cluster incident",
        system_action="Holds the repair until the incident closes ({reason}).",
        action_required="None: the incident has a page of its own.",
        commands=_CASE_COMMANDS,
        runbook="incident",
    ),
    PageRule(
        kind="escalated",
        event_type=_CASE,
        when={"to": frozenset({"escalated"})},
        by_operator=False,
        state=_TRIGGERED,
        headline="repair stopped, operator needed",
        system_action="No further automatic action ({reason}). Node status: {status}.",
        action_required="Find the cause, fix or replace the node, then return it to service.",
        commands=_CASE_COMMANDS,
        runbook="stuck-case",
    ),
    PageRule(
        kind="escalated",
        event_type=_CASE,
        when={"to": _CLOSED},
        state=_RESOLVED,
        headline="case closed, resolution: {resolution}",
        system_action=_CASE_CLOSED,
        commands=_CASE_COMMANDS,
        runbook="stuck-case",
    ),
    PageRule(
        kind="escalated",
        event_type=_CASE,
        when={"from": frozenset({"escalated"}), "to": frozenset({"queued"})},
        state=_RESOLVED,
        headline="automation resumed",
        system_action="Continues the case: it is {to} ({reason}).",
        commands=_CASE_COMMANDS,
        runbook="stuck-case",
    ),
    PageRule(
        kind="escalated",
        event_type=_CASE,
        when={"from": frozenset({"escalated"}), "to": frozenset({"absorbed"})},
        state=_RESOLVED,
        headline="case absorbed by a cluster incident",
        system_action="Holds the case until the incident closes ({reason}).",
        action_required="None: the incident has a page of its own.",
        commands=_CASE_COMMANDS,
        runbook="incident",
    ),
    PageRule(
        kind="approval",
        event_type=_NOTE,
        when={"kind": frozenset({"approval"}), "stage": frozenset({"begun"})},
        state=_TRIGGERED,
        headline="approval required",
        system_action="Keeps the node {isolated} and waits for an answer ({text}).",
        action_required="Approve (faultbridge case approve {case}) or deny (faultbridge case deny {case}) the repair.",
        commands=_CASE_COMMANDS,
        runbook="approval",
    ),
    PageRule(
        kind="approval",
        event_type=_NOTE,
        when={"kind": frozenset({"approval"}), "stage": frozenset({"over"})},
        state=_RESOLVED,
        headline="approval no longer required",
        system_action="The approval request is closed ({text}).",
        commands=_CASE_COMMANDS,
        runbook="approval",
    ),
    PageRule(
        kind="approval",
        event_type=_CASE,
        when={"to": _CLOSED | {"escalated", "absorbed"}},
        state=_RESOLVED,
        headline="approval no longer required",
        system_action=_CASE_IS,
        commands=_CASE_COMMANDS,
        runbook="approval",
    ),
    PageRule(
        kind="isolation",
        event_type=_NOTE,
        when={"kind": frozenset({"isolation"}), "stage": frozenset({"overdue"})},
        state=_TRIGGERED,
        headline="faulty node not isolated",
        system_action="Retries until the orchestrator answers ({text}).",
        action_required="Fix the orchestrator or its permissions, or drain the node. New jobs may start on it.",
        commands=_NODE_COMMANDS,
        runbook="isolation",
    ),
    PageRule(
        kind="isolation",
        event_type=_NOTE,
        when={"kind": frozenset({"isolation"}), "stage": frozenset({"over"})},
        state=_RESOLVED,
        headline="orchestrator responds again",
        system_action="The isolation request is closed ({text}).",
        commands=_NODE_COMMANDS,
        runbook="isolation",
    ),
    PageRule(
        kind="isolation",
        event_type=_CASE,
        when={"to": _CLOSED},
        state=_RESOLVED,
        headline="isolation no longer required",
        system_action=_CASE_IS,
        commands=_NODE_COMMANDS,
        runbook="isolation",
    ),
)

RULES: tuple[PageRule, ...] = (*CASE_RULES, *OPERATOR_RULES, *CLUSTER_RULES)
EVENT_TYPES = tuple(dict.fromkeys(rule.event_type for rule in RULES))


def rules_for(event: Mapping[str, Any]) -> Iterator[PageRule]:
    """Return the rules that apply to an event, resolves first.

    With resolves first, a case has one open key at a time.
    """
    found = (rule for rule in RULES if rule.applies_to(event))
    return iter(sorted(found, key=lambda rule: rule.state is _TRIGGERED))
