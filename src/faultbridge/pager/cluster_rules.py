"""What pages tell of a cluster as a whole: its incidents, and what holds its repairs back. Never limited."""

from __future__ import annotations

from faultbridge.domain.entries import EntryType
from faultbridge.pager.page import PageState
from faultbridge.pager.page_rule import CLUSTER_SHOW, CLUSTER_TIMELINE, PageRule
from faultbridge.ports import PageUrgency

_SAFETY, _INCIDENT = EntryType.CLUSTER_SAFETY.value, EntryType.CLUSTER_INCIDENT.value
_COMMANDS = (CLUSTER_TIMELINE, CLUSTER_SHOW)

CLUSTER_RULES: tuple[PageRule, ...] = (
    PageRule(
        transition="incident",
        event_type=_INCIDENT,
        when={"change": frozenset({"opened"})},
        state=PageState.TRIGGERED,
        urgency=PageUrgency.URGENT,
        headline="one trouble of many nodes: {reason}",
        doing="Repairs of its nodes wait for it; each case goes on when it closes.",
        reader="Mend what the nodes have in common. Do not replace the nodes one by one.",
        commands=_COMMANDS,
        runbook="incident",
    ),
    PageRule(
        transition="incident",
        event_type=_INCIDENT,
        when={"change": frozenset({"closed"})},
        state=PageState.RESOLVED,
        urgency=PageUrgency.URGENT,
        headline="the cluster incident is over: {reason}",
        doing="What is still wrong with single nodes is repaired one by one.",
        reader="Nothing.",
        commands=_COMMANDS,
        runbook="incident",
    ),
    PageRule(
        transition="safety",
        event_type=_SAFETY,
        when={"to": frozenset({"open", "half_open", "used_up", "paused", "held"})},
        state=PageState.TRIGGERED,
        urgency=PageUrgency.URGENT,
        headline="repairs are held back: {kind} is {to}",
        doing="Repairs wait ({reason}).",
        reader="Judge whether one cause is behind many faults before you let repairs go on.",
        commands=_COMMANDS,
        runbook="stuck-case",
    ),
    PageRule(
        transition="safety",
        event_type=_SAFETY,
        when={"to": frozenset({"closed", "available", "running", "released"})},
        state=PageState.RESOLVED,
        urgency=PageUrgency.URGENT,
        headline="repairs go on: {kind} is {to}",
        doing="Repairs go on ({reason}).",
        reader="Nothing.",
        commands=_COMMANDS,
        runbook="stuck-case",
    ),
)
