"""Waits: each time that a case waited before or between repairs, what it waited for, and the reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby

from faultbridge.dataclass import dataclass
from faultbridge.presentation.entry_rows import Document, occurred_at
from faultbridge.presentation.history import CASE_STATUS, NOTE, of_type
from faultbridge.presentation.wording import without_code

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


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait of a case: its start, its end (None if it lasts), what the case waited for, and the reason.

    `times` is the number of successive waits for the same reason that are combined in this wait.
    """

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


def case_waits(entries: Iterable[Document]) -> tuple[Wait, ...]:
    """Return the waits of a case, oldest first, without waits that ended after less than `SHORTEST`.

    A wait begins with an entry for which `begins_wait` is True. A wait ends with the next entry that changes the case's
    status, records what a queued case waits for (a refusal), or is about an approval. Successive waits for the same
    reason are combined.
    """
    changes = [one for one in of_type(entries, CASE_STATUS, NOTE) if _is_boundary(one)]
    ends = [*(occurred_at(one) for one in changes[1:]), None]
    waits = (_wait(change, end) for change, end in zip(changes, ends, strict=False) if begins_wait(change))
    long = [one for one in waits if one.end is None or one.end - one.start >= SHORTEST]
    same = (list(found) for _, found in groupby(long, key=lambda one: (one.waiting_for, one.reason, one.rule)))
    return tuple(replace(found[0], end=found[-1].end, times=len(found)) for found in same)


def _is_boundary(entry: Document) -> bool:
    return entry["metadata"]["event_type"] == CASE_STATUS or entry["data"].get("kind") in {"refused", "approval"}


def begins_wait(entry: Document) -> bool:
    """Return whether an entry begins a wait of a case.

    Such an entry changes the status to one in which the case waits (open, queued, absorbed), records why a queued case
    was not admitted (a refusal), or is about an approval.
    """
    data = entry["data"]
    return data.get("to") in {"open", "queued", "absorbed"} or data.get("kind") in {"refused", "approval"}


def _wait(entry: Document, end: datetime | None) -> Wait:
    data, facts = entry["data"], entry["data"].get("facts") or {}
    reason = str(data.get("text") or data.get("reason") or "")
    return Wait(
        start=occurred_at(entry),
        end=end,
        waiting_for=waited_for(entry),
        reason=without_code(reason),
        rule=str(data.get("rule") or facts.get("rule") or ""),
        target=f"#e-{entry['metadata']['event_id']}",
    )


def waited_for(entry: Document) -> str:
    """Return a text about what a case waits for, from the entry that begins the wait."""
    data, facts = entry["data"], entry["data"].get("facts") or {}
    waiting = str(data.get("waiting_for") or facts.get("waiting_for") or _DEFAULTS.get(_state(data), "admission"))
    return WAITING_TEXTS.get(waiting, waiting)


_DEFAULTS = {"open": "wait", "absorbed": "incident", "begun": "approval"}


def _state(data: Document) -> str:
    return str(data.get("to") or data.get("stage"))
