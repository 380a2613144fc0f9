"""Pages about repairs that an operator stopped: a denied approval, or a node that an operator quarantined.

These pages are notices, because an operator already knows.
"""

from __future__ import annotations

from faultbridge.domain.entries import EntryType
from faultbridge.pager.page import PageState
from faultbridge.pager.page_rule import CASE_SHOW, TIMELINE, PageRule
from faultbridge.ports import PageUrgency

_COMMANDS = (TIMELINE, CASE_SHOW)
_CASE = EntryType.CASE_STATUS.value
_TO_ESCALATED = {"to": frozenset({"escalated"})}

OPERATOR_RULES: tuple[PageRule, ...] = (
    PageRule(
        kind="opened",
        event_type=_CASE,
        when=_TO_ESCALATED,
        by_operator=True,
        state=PageState.RESOLVED,
        urgency=PageUrgency.NOTICE,
        headline="repair stopped by an operator",
        system_action="Stops the automatic repair ({reason}).",
        commands=_COMMANDS,
        runbook="stuck-case",
    ),
    PageRule(
        kind="stopped",
        event_type=_CASE,
        when=_TO_ESCALATED,
        by_operator=True,
        state=PageState.TRIGGERED,
        urgency=PageUrgency.NOTICE,
        headline="repair stopped by an operator",
        system_action="No further automatic action ({reason}). Node status: {status}.",
        action_required="Return (faultbridge node return {node} --cluster {cluster}) or replace the node when you can.",
        commands=_COMMANDS,
        runbook="stuck-case",
    ),
    PageRule(
        kind="stopped",
        event_type=_CASE,
        when={"to": frozenset({"resolved", "expired", "queued", "absorbed"})},
        state=PageState.RESOLVED,
        urgency=PageUrgency.NOTICE,
        headline="case is {to}",
        system_action="The case is {to} ({reason}).",
        commands=_COMMANDS,
        runbook="stuck-case",
    ),
)
