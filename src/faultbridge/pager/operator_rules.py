"""Pages about repairs that an operator stopped: a denied approval, or a node that was quarantined.

These pages have the urgency `notice`, because an operator is already aware of the fault.
"""

from __future__ import annotations

from dataclasses import replace

from faultbridge.domain.entries import EntryType
from faultbridge.pager.page_rule import CASE_SHOW, TIMELINE, PageKind, PageRule
from faultbridge.ports import PageUrgency

_CASE, _COMMANDS = EntryType.CASE_STATUS.value, (TIMELINE, CASE_SHOW)
_OPENED = PageKind("opened", _CASE, _COMMANDS, "stuck-case", PageUrgency.NOTICE)
_STOPPED = PageKind("stopped", _CASE, _COMMANDS, "stuck-case", PageUrgency.NOTICE)
_TO_ESCALATED = {"to": frozenset({"escalated"})}

OPERATOR_RULES: tuple[PageRule, ...] = (
    replace(
        _OPENED.resolved(_TO_ESCALATED, "repair stopped by an operator", "Stops the automatic repair ({reason})."),
        by_operator=True,
    ),
    replace(
        _STOPPED.triggered(
            _TO_ESCALATED,
            "repair stopped by an operator",
            "No further automatic action ({reason}). Node status: {status}.",
            "Return (faultbridge node return {node} --cluster {cluster}) or replace the node when you can.",
        ),
        by_operator=True,
    ),
    _STOPPED.resolved(
        {"to": frozenset({"resolved", "expired", "queued", "absorbed"})},
        "case is {to}",
        "The case is {to} ({reason}).",
    ),
)
