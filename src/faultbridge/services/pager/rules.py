"""Which events want a person, as data: one row a kind of page.

A trouble that the machine cures by itself is a notice at most. What it cannot cure is urgent, always.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from faultbridge.domain.entries import EntryType
from faultbridge.ports import PageUrgency
from faultbridge.services.pager.page import PageState

Data = Mapping[str, Any]

_CASE = EntryType.CASE_STATUS.value
_NODE = EntryType.NODE_STATUS.value
_SAFETY = EntryType.CLUSTER_SAFETY.value
_NOTE = EntryType.NOTE.value

TIMELINE = "faultbridge timeline --cluster {cluster} --case {case}"
CASE_SHOW = "faultbridge case show {case}"
NODE_SHOW = "faultbridge node show {node} --cluster {cluster}"
CLUSTER_SHOW = "faultbridge cluster show {cluster}"
CLUSTER_TIMELINE = "faultbridge timeline --cluster {cluster} --since 1h"


@dataclass(frozen=True, slots=True)
class PageRule:
    """One kind of page: which events trigger it, what it says, and which key it has.

    `when` holds the values that fields of `data` must have, None standing for any. The texts may name `{reason}`,
    `{resolution}`, `{kind}`, `{to}`, `{rung}`, `{case}`, `{cluster}` and `{node}`.
    """

    transition: str
    event_type: str
    when: Mapping[str, frozenset[str]]
    state: PageState
    urgency: PageUrgency
    headline: str
    doing: str
    reader: str
    commands: tuple[str, ...]
    runbook: str
    proof: str | None = None

    def covers(self, event_type: str, data: Data) -> bool:
        """Tell whether an event is of this kind."""
        return (
            event_type == self.event_type
            and all(data.get(field) in allowed for field, allowed in self.when.items())
            and (self.proof is None or self.proof in (data.get("phases") or {}))
        )

    def key(self, event: Mapping[str, Any]) -> str:
        """Name the trouble: the same for its repetitions and for its end."""
        metadata, data = event["metadata"], event["data"]
        if self.event_type == _SAFETY:
            parts = (metadata["cluster"], str(data.get("kind")), data.get("domain"))
            return ":".join(part for part in parts if part)
        return f"{metadata.get('case_id') or metadata['stream']}:{self.transition}"


# What somebody other than a machine must do is not announced as a repair: it is escalated at once.
_REPAIRABLE = {
    "severity": frozenset({"fatal"}),
    "action": frozenset({"run_diagnostics", "reset_gpu", "reboot_node", "replace_node"}),
}
_ENDED = frozenset({"resolved", "expired"})
_URGENT, _NOTICE = PageUrgency.URGENT, PageUrgency.NOTICE
_CASE_COMMANDS = (TIMELINE, CASE_SHOW)
_CLUSTER_COMMANDS = (CLUSTER_TIMELINE, CLUSTER_SHOW)

RULES: tuple[PageRule, ...] = (
    PageRule(
        transition="escalated",
        event_type=_CASE,
        when={"to": frozenset({"escalated"})},
        state=PageState.TRIGGERED,
        urgency=_URGENT,
        headline="repair stopped, a person is needed",
        doing="Nothing more happens by itself ({reason}).",
        reader="Find out why, mend the node or replace it, then return it. Until then it takes no work.",
        commands=_CASE_COMMANDS,
        runbook="stuck-case",
    ),
    PageRule(
        transition="opened",
        event_type=_CASE,
        when={"to": frozenset({"open"}), **_REPAIRABLE},
        state=PageState.TRIGGERED,
        urgency=_NOTICE,
        headline="a node became unusable, a case is open",
        doing="As far as the cluster's mode allows: isolation, repair ({rung}), verification, back to work.",
        reader="Nothing now. You are paged urgently if the repair needs you.",
        commands=_CASE_COMMANDS,
        runbook="node-failed",
    ),
    PageRule(
        transition="failed",
        event_type=_NODE,
        when={"to": frozenset({"failed"})},
        state=PageState.TRIGGERED,
        urgency=_URGENT,
        headline="the node failed and stays out of service",
        doing="Nothing more happens by itself ({reason}).",
        reader="Mend or replace the node by hand, then return it. It takes no work and is not replaced meanwhile.",
        commands=(TIMELINE, NODE_SHOW),
        runbook="node-failed",
    ),
    PageRule(
        transition="safety",
        event_type=_SAFETY,
        when={"to": frozenset({"open", "half_open", "used_up", "paused", "held"})},
        state=PageState.TRIGGERED,
        urgency=_URGENT,
        headline="repairs are held back: {kind} is {to}",
        doing="Repairs wait ({reason}).",
        reader="Judge whether one cause is behind many faults before you let repairs go on.",
        commands=_CLUSTER_COMMANDS,
        runbook="stuck-case",
    ),
    PageRule(
        transition="opened",
        event_type=_CASE,
        when={"to": _ENDED, **_REPAIRABLE},
        state=PageState.RESOLVED,
        urgency=_NOTICE,
        headline="case closed: {resolution}",
        doing="Done ({reason}).",
        reader="Nothing.",
        commands=_CASE_COMMANDS,
        runbook="node-failed",
    ),
    PageRule(
        transition="escalated",
        event_type=_CASE,
        when={"to": _ENDED},
        proof="escalated",
        state=PageState.RESOLVED,
        urgency=_URGENT,
        headline="case closed: {resolution}",
        doing="Done ({reason}).",
        reader="Nothing.",
        commands=_CASE_COMMANDS,
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
        commands=_CASE_COMMANDS,
        runbook="stuck-case",
    ),
    PageRule(
        transition="failed",
        event_type=_NODE,
        when={"from": frozenset({"failed"})},
        state=PageState.RESOLVED,
        urgency=_URGENT,
        headline="the node is no longer failed, but {to}",
        doing="It goes on ({reason}).",
        reader="Nothing.",
        commands=(TIMELINE, NODE_SHOW),
        runbook="node-failed",
    ),
    PageRule(
        transition="safety",
        event_type=_SAFETY,
        when={"to": frozenset({"closed", "available", "running", "released"})},
        state=PageState.RESOLVED,
        urgency=_URGENT,
        headline="repairs go on: {kind} is {to}",
        doing="Repairs go on ({reason}).",
        reader="Nothing.",
        commands=_CLUSTER_COMMANDS,
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
        commands=_CASE_COMMANDS,
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
        commands=_CASE_COMMANDS,
        runbook="approval",
    ),
    PageRule(
        transition="isolation",
        event_type=_NOTE,
        when={"kind": frozenset({"isolation"}), "stage": frozenset({"overdue"})},
        state=PageState.TRIGGERED,
        urgency=_URGENT,
        headline="work cannot be kept off a faulty node",
        doing="The orchestrator is asked again each minute ({text}).",
        reader="Mend the orchestrator or its permissions, or drain the node by hand: jobs still land on it.",
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
)

EVENT_TYPES = tuple(dict.fromkeys(rule.event_type for rule in RULES))


def rules_for(event: Mapping[str, Any]) -> Iterator[PageRule]:
    """Find every page that an event asks for."""
    event_type, data = str(event["metadata"]["event_type"]), event.get("data") or {}
    return (rule for rule in RULES if data and rule.covers(event_type, data))
