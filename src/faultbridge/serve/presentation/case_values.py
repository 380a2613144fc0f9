"""Case values: the values that sentences about a case insert, such as times, names and open breakers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from msgspec import Struct

from faultbridge.decide.answers import detail_text, reason_text
from faultbridge.model.cluster.state import BreakerLimit, domain_of
from faultbridge.model.enums import BreakerScope
from faultbridge.model.event_data import CaseStatusData, NoteData
from faultbridge.model.policy import Policy
from faultbridge.model.values import replace
from faultbridge.record.entry_text import duration_text
from faultbridge.repair.registry.documents import Breaker, Cluster, Node, ShownCase
from faultbridge.serve.presentation.entry_rows import Entries, ReadEntry


class CaseFacts(Struct, frozen=True):
    """The documents of a case; `policy` and `failing` nodes are set only while a limit delays the repair."""

    case: ShownCase
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


def short_name(operator: object) -> str:
    """Return the last part of an operator's name, which may be an ARN."""
    return str(operator or "-").rpartition("/")[2]


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
