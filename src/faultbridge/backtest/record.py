"""The record for a back-test: commits in the order of time, and the course of each recorded case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from faultbridge.domain.cases import RepairAction
from faultbridge.domain.edges import Actor, CaseStatus
from faultbridge.domain.entries import EntryType
from faultbridge.domain.times import from_text

Event = Mapping[str, Any]
"""A recorded entry as its published event: `metadata` and `data`."""


@dataclass(frozen=True, slots=True)
class Commit:
    """The entries that one writer recorded at one time about one node, or about the cluster (`node` None)."""

    at: datetime
    node: str | None
    actor: Actor
    events: tuple[Event, ...]

    def of_type(self, kind: EntryType) -> list[Event]:
        """Return the entries of one type in this commit."""
        return [one for one in self.events if one["metadata"]["event_type"] == kind.value]

    def notes(self, kind: str) -> list[Event]:
        """Return the entries of this commit that are notes of one kind, such as `approval`."""
        return [one for one in self.of_type(EntryType.NOTE) if one["data"]["kind"] == kind]


@dataclass(slots=True)
class RecordedAttempt:
    """One repair attempt: its action, its start and end, and the status of the case after it."""

    repair_action: RepairAction
    admitted_at: datetime
    ended_at: datetime | None = None
    status: CaseStatus | None = None

    @property
    def repaired(self) -> bool:
        """Return True if the attempt resolved the case."""
        return self.status is CaseStatus.RESOLVED


@dataclass(slots=True)
class Trail:
    """The recorded course of one case.

    `complete` is True if the record contains the opening of the case. `verdicts` are the results of the case's
    diagnostics in order of time, True for passed. `lost` is the lost GPU time in milliseconds, or None if it is not
    recorded.
    """

    id: str
    node: str
    code: str
    opened_at: datetime
    complete: bool
    attempts: list[RecordedAttempt] = field(default_factory=list)
    verdicts: list[bool] = field(default_factory=list)
    escalated_at: datetime | None = None
    closed_at: datetime | None = None
    resolution: str | None = None
    relapse_of: str | None = None
    gpus: int | None = None
    lost: int | None = None

    def attempt_with(self, action: RepairAction) -> RecordedAttempt | None:
        """Return the first finished attempt with this repair action; None if there is none."""
        return next((one for one in self.attempts if one.repair_action is action and one.ended_at), None)


def commits(events: Iterable[Event]) -> Iterator[Commit]:
    """Group entries with an equal time, node and writer into commits, and yield these in order of time.

    One run of admission starts some cases and refuses others at the same time. Of the commits of one time, those with
    refusals come last, so that a replay occupies the repair slots of the started cases before it compares the refusals.
    """
    found = [
        Commit(from_text(recorded), node or None, Actor(actor), tuple(group))
        for (recorded, node, actor), group in groupby(sorted(events, key=_order), key=_writer)
    ]
    yield from sorted(found, key=lambda one: (one.at, bool(one.notes("refused"))))


def _order(event: Event) -> tuple[str, str, int, int]:
    metadata = event["metadata"]
    return metadata["recorded_at"], metadata["node"] or "", metadata["epoch"], metadata["sequence"]


def _writer(event: Event) -> tuple[str, str, str]:
    metadata = event["metadata"]
    return metadata["recorded_at"], metadata["node"] or "", metadata["recorded_by"]


def trails(events: Iterable[Event]) -> dict[str, Trail]:
    """Return the recorded course (`Trail`) of each case, by case id."""
    found: dict[str, Trail] = {}
    for event in sorted(events, key=_order):
        metadata = event["metadata"]
        kind, case = metadata["event_type"], metadata["case_id"]
        if kind == EntryType.CASE_STATUS.value:
            _follow(found, metadata, event["data"])
        elif kind == EntryType.REPLACEMENT_STEP.value and case in found:
            verified = event["data"]["step"] == "verify" and event["data"]["outcome"] in {"passed", "failed"}
            found[case].verdicts += [event["data"]["outcome"] == "passed"] if verified else []
    return found


def _follow(found: dict[str, Trail], metadata: Event, data: Event) -> None:
    at, case, status = from_text(metadata["recorded_at"]), metadata["case_id"], CaseStatus(data["to"])
    opened_at = from_text(data["opened_at"])
    new = Trail(case, metadata["node"], data["cause"]["code"], opened_at, complete=data["from"] is None)
    trail = found.setdefault(case, new)
    trail.relapse_of = data.get("relapse_of") or trail.relapse_of
    trail.gpus = data["gpus"] or trail.gpus
    if data["from"] == CaseStatus.IN_PROGRESS.value and trail.attempts:
        trail.attempts[-1].ended_at, trail.attempts[-1].status = at, status
    if status is CaseStatus.IN_PROGRESS:
        trail.attempts.append(RecordedAttempt(RepairAction(data["repair_action"]), at))
    elif status is CaseStatus.ESCALATED:
        trail.escalated_at = at
    elif not status.live:
        trail.closed_at, trail.resolution, trail.lost = at, data["resolution"], data["gpu_time_lost"]


def typical_durations(found: Iterable[Trail]) -> dict[RepairAction, timedelta]:
    """Return the median duration of the successful recorded attempts, by repair action."""
    durations: dict[RepairAction, list[timedelta]] = {}
    for trail in found:
        for one in trail.attempts:
            if one.repaired and one.ended_at is not None:
                durations.setdefault(one.repair_action, []).append(one.ended_at - one.admitted_at)
    return {action: sorted(times)[len(times) // 2] for action, times in durations.items()}
