"""The kinds of pages about a whole cluster: incidents, and controls that hold repairs."""

from __future__ import annotations

from faultbridge.domain.entries import EntryType
from faultbridge.pager.page import PageState
from faultbridge.pager.page_rule import CLUSTER_SHOW, CLUSTER_TIMELINE, INCIDENT_SHOW, PageRule

_SAFETY, _INCIDENT = EntryType.CLUSTER_SAFETY.value, EntryType.CLUSTER_INCIDENT.value
_TRIGGERED, _RESOLVED = PageState.TRIGGERED, PageState.RESOLVED
_CLUSTER_COMMANDS = (CLUSTER_TIMELINE, CLUSTER_SHOW)
_INCIDENT_COMMANDS = (CLUSTER_TIMELINE, INCIDENT_SHOW)

CLUSTER_RULES: tuple[PageRule, ...] = (
    PageRule(
        kind="incident",
        event_type=_INCIDENT,
        when={"change": frozenset({"opened"})},
        state=_TRIGGERED,
        headline="cluster incident: {reason}",
        system_action="Holds the repairs of its nodes ({nodes}); each case continues when the incident closes.",
        action_required="Fix the common cause. Do not replace the nodes one by one.",
        commands=_INCIDENT_COMMANDS,
        runbook="incident",
    ),
    PageRule(
        kind="incident",
        event_type=_INCIDENT,
        when={"change": frozenset({"expired"})},
        state=_RESOLVED,
        headline="cluster incident reached its maximum age, another page follows",
        system_action="Continues the cases that it held, the oldest first.",
        commands=_INCIDENT_COMMANDS,
        runbook="incident",
    ),
    PageRule(
        kind="incident-expired",
        event_type=_INCIDENT,
        when={"change": frozenset({"expired"})},
        state=_TRIGGERED,
        headline="cluster incident not over: {reason}",
        system_action="Repairs the nodes that are still faulty ({nodes}) within the repair limits, oldest case first.",
        action_required="If they share one cause, pause repairs (faultbridge pause --cluster {cluster}) and fix it.",
        commands=_INCIDENT_COMMANDS,
        runbook="incident",
    ),
    *(
        PageRule(
            kind=kind,
            event_type=_INCIDENT,
            when={"change": frozenset({"closed"})},
            state=_RESOLVED,
            headline="cluster incident closed: {reason}",
            system_action="Repairs the nodes that are still faulty, one by one.",
            commands=_INCIDENT_COMMANDS,
            runbook="incident",
        )
        for kind in ("incident", "incident-expired")
    ),
    PageRule(
        kind="safety",
        event_type=_SAFETY,
        # Not `held`: the incident behind a hold has a page of its own.
        when={"to": frozenset({"open", "half_open", "used_up", "paused"})},
        state=_TRIGGERED,
        headline="repairs on hold: {kind} is {to}",
        system_action="Holds repairs ({reason}).",
        action_required="Check for one cause behind many faults before you allow repairs again.",
        commands=_CLUSTER_COMMANDS,
        runbook="stuck-case",
    ),
    PageRule(
        kind="safety",
        event_type=_SAFETY,
        when={"to": frozenset({"closed", "available", "running"})},
        state=_RESOLVED,
        headline="repairs continue: {kind} is {to}",
        system_action="Continues repairs ({reason}).",
        commands=_CLUSTER_COMMANDS,
        runbook="stuck-case",
    ),
)
"""Pages about a whole cluster. The hourly limit does not apply to them."""
