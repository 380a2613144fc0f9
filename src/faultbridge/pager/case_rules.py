"""What pages tell of a case: one notice while the machine repairs, one urgent page while only people can.

A case has one live key at a time. The urgent one covers its failed node too: a node fails only together with its case.
"""

from __future__ import annotations

from faultbridge.domain.entries import EntryType
from faultbridge.pager.page import PageState
from faultbridge.pager.page_rule import CASE_SHOW, NODE_SHOW, TIMELINE, PageRule
from faultbridge.ports import PageUrgency

_CASE, _NOTE = EntryType.CASE_STATUS.value, EntryType.NOTE.value
_URGENT, _NOTICE = PageUrgency.URGENT, PageUrgency.NOTICE
_COMMANDS = (TIMELINE, CASE_SHOW)
_ENDED = frozenset({"resolved", "expired"})
_OVER = {"to": _ENDED | {"escalated", "absorbed"}}

_NOTICED = {
    "severity": frozenset({"fatal"}),
    "action": frozenset({"run_diagnostics", "reset_gpu", "reboot_node", "replace_node"}),
}
"""What somebody other than a machine must do is not announced as a repair: it is escalated at once."""

CASE_RULES: tuple[PageRule, ...] = (
    PageRule(
        transition="opened",
        event_type=_CASE,
        # Not when it opens: what a cluster incident absorbs during its wait is told by the incident alone.
        when={"from": frozenset({"open", "escalated"}), "to": frozenset({"queued"}), **_NOTICED},
        state=PageState.TRIGGERED,
        urgency=_NOTICE,
        headline="a node became unusable and waits for its repair",
        doing="As far as the cluster's mode allows: isolation, repair ({repair action}), verification, back to work.",
        reader="Nothing now. You are paged urgently if the repair needs you.",
        commands=_COMMANDS,
        runbook="node-failed",
    ),
    PageRule(
        transition="opened",
        event_type=_CASE,
        when={"to": _ENDED, **_NOTICED},
        state=PageState.RESOLVED,
        urgency=_NOTICE,
        headline="case closed: {resolution}",
        doing="Done ({reason}).",
        reader="Nothing.",
        commands=_COMMANDS,
        runbook="node-failed",
    ),
    PageRule(
        transition="opened",
        event_type=_CASE,
        when={"to": frozenset({"escalated"}), **_NOTICED},
        state=PageState.RESOLVED,
        urgency=_NOTICE,
        headline="the repair stopped; an urgent page says why",
        doing="Nothing more happens by itself ({reason}).",
        reader="Nothing, unless the urgent page is yours.",
        commands=_COMMANDS,
        runbook="stuck-case",
    ),
    PageRule(
        transition="opened",
        event_type=_CASE,
        when={"to": frozenset({"absorbed"}), **_NOTICED},
        state=PageState.RESOLVED,
        urgency=_NOTICE,
        headline="a cluster incident takes the case",
        doing="The case waits for the incident ({reason}).",
        reader="Nothing: the incident has a page of its own.",
        commands=_COMMANDS,
        runbook="incident",
    ),
    PageRule(
        transition="escalated",
        event_type=_CASE,
        when={"to": frozenset({"escalated"})},
        state=PageState.TRIGGERED,
        urgency=_URGENT,
        headline="repair stopped, a person is needed",
        doing="Nothing more happens by itself ({reason}). The node's status is {status}.",
        reader="Find out why, mend the node or replace it, then return it.",
        commands=_COMMANDS,
        runbook="stuck-case",
    ),
    PageRule(
        transition="escalated",
        event_type=_CASE,
        when={"to": _ENDED},
        state=PageState.RESOLVED,
        urgency=_URGENT,
        headline="case closed: {resolution}",
        doing="Done ({reason}).",
        reader="Nothing.",
        commands=_COMMANDS,
        runbook="stuck-case",
    ),
    PageRule(
        transition="escalated",
        event_type=_CASE,
        when={"from": frozenset({"escalated"}), "to": frozenset({"queued", "absorbed"})},
        state=PageState.RESOLVED,
        urgency=_URGENT,
        headline="the case goes on without you",
        doing="It waits for its turn ({reason}).",
        reader="Nothing.",
        commands=_COMMANDS,
        runbook="stuck-case",
    ),
    PageRule(
        transition="approval",
        event_type=_NOTE,
        when={"kind": frozenset({"approval"}), "stage": frozenset({"begun"})},
        state=PageState.TRIGGERED,
        urgency=_URGENT,
        headline="a repair waits for your word",
        doing="The node is kept off work and waits ({text}).",
        reader="Approve it (faultbridge case approve {case}) or deny it (faultbridge case deny {case}).",
        commands=_COMMANDS,
        runbook="approval",
    ),
    PageRule(
        transition="approval",
        event_type=_NOTE,
        when={"kind": frozenset({"approval"}), "stage": frozenset({"over"})},
        state=PageState.RESOLVED,
        urgency=_URGENT,
        headline="the repair waits for your word no more",
        doing="It goes on as told ({text}).",
        reader="Nothing.",
        commands=_COMMANDS,
        runbook="approval",
    ),
    PageRule(
        transition="approval",
        event_type=_CASE,
        when=_OVER,
        state=PageState.RESOLVED,
        urgency=_URGENT,
        headline="the repair waits for your word no more",
        doing="The case is {to} ({reason}).",
        reader="Nothing.",
        commands=_COMMANDS,
        runbook="approval",
    ),
    PageRule(
        transition="isolation",
        event_type=_NOTE,
        when={"kind": frozenset({"isolation"}), "stage": frozenset({"overdue"})},
        state=PageState.TRIGGERED,
        urgency=_URGENT,
        headline="work cannot be kept off a faulty node",
        doing="The orchestrator is asked again and again ({text}).",
        reader="Mend the orchestrator or its permissions, or drain the node by hand: jobs may still land on it.",
        commands=(TIMELINE, NODE_SHOW),
        runbook="isolation",
    ),
    PageRule(
        transition="isolation",
        event_type=_NOTE,
        when={"kind": frozenset({"isolation"}), "stage": frozenset({"over"})},
        state=PageState.RESOLVED,
        urgency=_URGENT,
        headline="the orchestrator answers again",
        doing="Done ({text}).",
        reader="Nothing.",
        commands=(TIMELINE, NODE_SHOW),
        runbook="isolation",
    ),
    PageRule(
        transition="isolation",
        event_type=_CASE,
        when={"to": _ENDED},
        state=PageState.RESOLVED,
        urgency=_URGENT,
        headline="the node need not be kept off work any more",
        doing="The case is {to} ({reason}).",
        reader="Nothing.",
        commands=(TIMELINE, NODE_SHOW),
        runbook="isolation",
    ),
)
