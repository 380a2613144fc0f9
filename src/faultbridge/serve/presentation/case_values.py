"""Case values: the values that sentences about a case insert, such as times, names and open breakers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from msgspec import Struct

from faultbridge.model.cluster.state import BreakerLimit, breaker_name, domain_of
from faultbridge.model.enums import BreakerScope
from faultbridge.model.event_data import CaseStatusData, NoteData
from faultbridge.model.policy import Policy
from faultbridge.model.values import replace
from faultbridge.record.entry_text import duration_text
from faultbridge.repair.registry.documents import Breaker, Case, Cluster, Node
from faultbridge.serve.presentation.entry_rows import Entries, ReadEntry
from faultbridge.serve.presentation.tones import action_text, detail_text, reason_text, why_text, words


class CaseFacts(Struct, frozen=True):
    """The documents of a case; `policy` and `failing` nodes are set only while a limit delays the repair."""

    case: Case
    node: Node
    cluster: Cluster
    entries: Sequence[ReadEntry[Any]]
    meaning: str = ""
    policy: Policy | None = None
    failing: Sequence[str] = ()

    @property
    def now(self) -> datetime:
        """The time for which the case is described: the current time of a live case, the end of a closed case."""
        return self.case.opened_at + timedelta(milliseconds=self.case.age_ms)


MAX_LISTED = 8


class Values(dict[str, Any]):
    """The values for the templates of sentences; a missing or empty value is shown as `-`."""

    def __missing__(self, _name: str) -> str:
        return "-"

    def __getitem__(self, name: str) -> object:
        found = super().__getitem__(name)
        return "-" if found is None or found == "" else found


def case_values(facts: CaseFacts) -> Values:
    """Return the values of the placeholders in sentence templates about a case, by placeholder name."""
    case, approval = facts.case, facts.case.approval
    names = ("case_id", "cluster", "node", "rule", "incident", "attempt", "code", "relapse_of")
    reason, given = why_text(case.reason, case.failure, case.detail), case.detail or case.reason
    breaker_ends = _breaker_end(facts)
    return Values(
        {name: getattr(case, name) for name in names}
        | {
            "case": case.case_id,
            "reason": reason,
            "detail": detail_text(case.reason, case.failure, case.detail),
            "denial": given,
            "incident_reason": given,
            "operator": short_name(approval.operator if approval else None),
            "breakers": ", ".join(_breaker(one, facts) for one in open_breakers(facts)) or reason,
            "breaker_end": breaker_ends[0],
            "breaker_then": breaker_ends[1],
            "not_before": _time(case.not_before),
            "next_try": _next_try(facts),
            "answer_by": _time(approval.answer_by if approval else None),
            "asked_at": _time(approval.asked_at if approval else None),
            "repair_action": action_text(case.repair_action),
            "action_name": case.repair_action,
            "mode": words(facts.cluster.mode),
            "node_status": words(facts.node.status),
            "slots": _slots(facts),
        }
    )


def short_name(operator: object) -> str:
    """Return the last part of an operator's name, which may be an ARN."""
    return str(operator or "-").rpartition("/")[2]


def open_breakers(facts: CaseFacts) -> Iterator[Breaker]:
    """Yield the breakers of the cluster and of the node's failure domain that are not closed."""
    names = {breaker_name(BreakerScope.CLUSTER), breaker_name(BreakerScope.DOMAIN, facts.node.domain)}
    return (one for one in facts.cluster.breakers if one.state != "closed" and one.name in names)


def _breaker(breaker: Breaker, facts: CaseFacts) -> str:
    domain, limit = domain_of(breaker.name), breaker_limit(breaker, facts.policy)
    text = f"the breaker of {domain or 'the cluster'}, {words(breaker.state)} since {_time(breaker.since)}"
    text += f", when {breaker.failing} of {breaker.of} nodes failed"
    return f"{text} (it opens at {limit.nodes} failed nodes, if they are {limit.percent} % of all)" if limit else text


def _breaker_end(facts: CaseFacts) -> tuple[str, str]:
    found = next(open_breakers(facts), None)
    if found is None:
        return "No breaker is open any longer.", "The next run of admission considers the case."
    return breaker_end(found, breaker_limit(found, facts.policy), facts.now)


def _slots(facts: CaseFacts) -> str:
    holders = list(facts.cluster.holders)
    limits = facts.policy.limits if facts.policy else None
    most = f" of {limits.concurrent} permitted at a time, {limits.per_hour} permitted in an hour" if limits else ""
    named = (
        f" ({', '.join(map(str, holders[:MAX_LISTED]))}{', ...' if holders[MAX_LISTED:] else ''})" if holders else ""
    )
    return f"{len(holders)}{most}{named}"


def _next_try(facts: CaseFacts) -> str:
    """Return the time of the next attempt in words: after the waiting periods of the case and its group."""
    waits = facts.case.not_before, facts.cluster.no_capacity_until.get(facts.node.group or "")
    later = max(filter(None, waits), default=facts.now)
    return f"at {later:%Y-%m-%d %H:%M} UTC or some minutes later" if later > facts.now else "within some minutes"


def _time(at: datetime | None) -> str | None:
    return f"{at:%Y-%m-%d %H:%M} UTC" if at else None


WAITING_TEXTS = {
    "wait": "waiting period of the rule",
    "admission": "the next run of admission",
    "approval": "approval by an operator",
    "window": "maintenance window",
    "budget": "a free repair slot",
    "breaker": "circuit breaker",
    "capacity": "capacity of the provider",
    "incident": "end of an incident",
    "pause": "end of a pause",
    "update": "end of an update of its group",
    "correlation": "comparison with the faults of other nodes",
    "isolation_budget": "room in the isolation budget",
    "idle": "end of the work on the node",
}


SHORTEST = timedelta(seconds=10)
"""Shorter waits are the normal time of processing."""


class Wait(Struct, frozen=True):
    """One wait of a case; `times` is the number of successive waits for the same reason in it."""

    start: datetime
    end: datetime | None
    waiting_for: str
    reason: str
    rule: str
    target: str
    times: int = 1

    @property
    def milliseconds(self) -> int | None:
        """The duration of the wait in milliseconds; None while it lasts."""
        return None if self.end is None else int((self.end - self.start).total_seconds() * 1000)


def case_waits(entries: Entries) -> tuple[Wait, ...]:
    """Return the waits of a case, oldest first, without waits that ended after less than `SHORTEST`.

    A wait ends with the next change of status, refusal or approval. Successive waits for the same reason are combined.
    """
    changes = sorted(filter(_is_boundary, entries), key=lambda one: one.at)
    ends = [*(one.at for one in changes[1:]), None]
    waits = (_wait(change, end) for change, end in zip(changes, ends, strict=False) if begins_wait(change))
    long = [one for one in waits if one.end is None or one.end - one.start >= SHORTEST]
    same = (list(found) for _, found in groupby(long, key=lambda one: (one.waiting_for, one.reason, one.rule)))
    return tuple(replace(found[0], end=found[-1].end, times=len(found)) for found in same)


def _is_boundary(entry: ReadEntry[Any]) -> bool:
    return isinstance(entry.data, CaseStatusData) or _is_refusal(entry)


def _is_refusal(entry: ReadEntry[Any]) -> bool:
    """Return whether an entry is a note that a repair was refused, or about a request for approval."""
    return isinstance(entry.data, NoteData) and entry.data.kind in {"refused", "approval"}


def begins_wait(entry: ReadEntry[Any]) -> bool:
    """Return whether an entry begins a wait: a waiting status, a refusal, or an approval request."""
    return _is_refusal(entry) or getattr(entry.data, "to", None) in {"open", "queued", "absorbed"}


def _wait(entry: ReadEntry[Any], end: datetime | None) -> Wait:
    data = entry.data
    is_note = isinstance(data, NoteData)
    return Wait(
        start=entry.at,
        end=end,
        waiting_for=waited_for(entry),
        reason=reason_text(data.text) if is_note else detail_text(data.reason, data.failure, data.detail),
        rule=str(data.facts.get("rule") or "") if is_note else data.rule,
        target=entry.target,
    )


def waited_for(entry: ReadEntry[Any]) -> str:
    """Return a text about what a case waits for, from the entry that begins the wait."""
    data = entry.data
    if isinstance(data, NoteData):
        found, state = data.facts.get("waiting_for"), data.stage
    else:
        found, state = getattr(data, "waiting_for", None), getattr(data, "to", "")
    waiting = str(found or _DEFAULTS.get(str(state), "admission"))
    return WAITING_TEXTS.get(waiting, waiting)


_DEFAULTS = {"open": "wait", "absorbed": "incident", "begun": "approval"}


def breaker_limit(breaker: Breaker, policy: Policy | None) -> BreakerLimit | None:
    """Return the limit that a policy, if there is one, sets for the scope of a breaker, or None."""
    scope = BreakerScope.CLUSTER if domain_of(breaker.name) is None else BreakerScope.DOMAIN
    return next((one for one in policy.breakers if one.scope is scope), None) if policy else None


def breaker_end(breaker: Breaker, limit: BreakerLimit | None, now: datetime) -> tuple[str, str]:
    """Return two texts about an open or half-open breaker: what ends this state, and what follows."""
    trial = f"{limit.trial} repair{'s' if limit.trial > 1 else ''}" if limit else "a few repairs"
    if breaker.state == "half_open":
        return (
            f"The breaker permits {trial} at a time as a trial, until fewer nodes fail than its limit.",
            "If another node or a repair fails before, it opens again. An operator can close it.",
        )
    if breaker.stays_open:
        return (
            "The breaker stays open until no node fails, or an operator closes it.",
            "It opened too often within a day, so no further trial starts by itself.",
        )
    quiet, earliest = "for some time", ""
    if limit:
        quiet = f"for {duration_text(limit.quiet // timedelta(milliseconds=1))}"
        at = breaker.since + limit.quiet
        earliest = f", at least until {at:%Y-%m-%d %H:%M} UTC" if at > now else ""
    return (
        f"The breaker stays open until no further node has failed {quiet}{earliest}.",
        f"It then closes if fewer nodes fail than its limit, and otherwise permits {trial} at a time as a trial. "
        "An operator can close it before.",
    )
