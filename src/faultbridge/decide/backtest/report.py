"""Report: totals for the record and for the tested policy, decisions that differ, and missing data."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from faultbridge.decide.backtest.record import Course, Decision, Event, Replayed, Trail, trails
from faultbridge.decide.entry_builder import gpu_time, total_gpu_time
from faultbridge.model.enums import EntryType, RepairAction
from faultbridge.model.event_data import FaultData
from faultbridge.model.fault_enums import Severity
from faultbridge.model.times import EPOCH, to_text
from faultbridge.model.values import replace

RELAPSE_WITHIN = timedelta(days=7)


class Judgment(StrEnum):
    """Whether later entries show that a recorded case needed its repair.

    `right` means that at least one of these is true:

    - Diagnostics of the case failed.
    - A fault of severity `fatal` was detected on the node after the case was opened and before its first reset, reboot
      or replacement (before it was closed, if it has none of these).
    - The fault code of the case was detected on the node again within seven days after the case was closed.
    - A later case is recorded as a relapse of this case.

    `needless` means that diagnostics passed, that the entries cover these seven days, and that the case is not `right`.
    Any other case is `undetermined`.
    """

    RIGHT = "right"
    NEEDLESS = "needless"
    UNDETERMINED = "undetermined"


def judge(found: Iterable[Trail], events: Sequence[Event]) -> dict[str, Judgment]:
    """Return the judgment of each recorded case, by case id."""
    cases = list(found)
    relapses = {one.relapse_of for one in cases if one.relapse_of}
    end = max((one.metadata.recorded_at for one in events), default=None)
    by_node: dict[str, list[tuple[str, str, datetime]]] = {}
    for one in events:
        if one.metadata.event_type == EntryType.FAULT_DETECTED:
            detected = (one.data.code, one.data.severity, one.metadata.recorded_at)
            by_node.setdefault(one.metadata.node or "", []).append(detected)
    return {one.id: _judge(one, by_node.get(one.node, []), end, relapsed=one.id in relapses) for one in cases}


def _judge(trail: Trail, faults: list[tuple[str, str, datetime]], end: datetime | None, *, relapsed: bool) -> Judgment:
    closed = trail.closed_at
    until = (closed or trail.opened_at) + RELAPSE_WITHIN
    # Until the first repair, the node has the hardware that the case is about.
    first = next((one.admitted_at for one in trail.attempts if one.repair_action.needs_slot), closed)
    hard = any(
        severity == Severity.FATAL.value and trail.opened_at < at and (first is None or at < first)
        for _, severity, at in faults
    )
    again = closed is not None and any(code == trail.code and closed < at <= until for code, _, at in faults)
    if relapsed or hard or again or False in trail.verdicts:
        return Judgment.RIGHT
    watched = closed is not None and end is not None and until <= end
    return Judgment.NEEDLESS if trail.verdicts and watched else Judgment.UNDETERMINED


# No entry records when a policy was published. A policy may have been in force since the last entry that names another.


@dataclass(frozen=True, slots=True)
class PoliciesInForce:
    """The policy versions that fault entries name, and the times of these entries, in order of time."""

    times: Sequence[datetime]
    versions: Sequence[str]

    @classmethod
    def of(cls, events: Iterable[Event]) -> PoliciesInForce:
        """Build the list of policies from the entries of a cluster."""
        found = sorted(
            (one.metadata.recorded_at, one.data.policy)
            for one in events
            if isinstance(one.data, FaultData) and one.data.policy
        )
        return cls([at for at, _ in found], [version for _, version in found])

    def explain(self, decision: Decision, version: str) -> str:
        """Return why a decision differs: another policy was or may have been in force; else ""."""
        if decision.same or version not in self.versions:
            return ""
        index = bisect_right(self.times, decision.at)
        before = self.versions[index - 1] if index else None
        if before not in {None, version}:
            return f"recorded under policy {before}"
        after = self.versions[index] if index < len(self.versions) else None
        if after in {None, version}:
            return ""
        since = f" between {to_text(self.times[index - 1])} and" if index else " by"
        return f"policy {after} was put{since} {to_text(self.times[index])}; the record does not contain when"


_HOUR = timedelta(hours=1) // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of one case for the totals; `lost` GPU time is in milliseconds, None if unknown."""

    node: str
    actions: tuple[RepairAction, ...]
    escalated: bool
    repaired_after: timedelta | None
    lost: int | None
    judgment: Judgment


class Totals(Struct, frozen=True):
    """What a policy did about all cases: the repairs, how they were judged, and the work that was lost."""

    cases: int
    actions: dict[str, int]
    nodes_touched: int
    escalated: int
    right: int
    needless: int
    undetermined: int
    missed: int
    median_repair_seconds: int | None
    gpu_hours_lost: float | None
    cases_with_unknown_loss: int


class Compared(Struct, frozen=True):
    """How many decisions were compared, are the same, and differ because another policy was in force."""

    compared: int
    same: int
    explained: int


class Difference(Struct, frozen=True):
    """A decision that the tested policy makes otherwise, and why."""

    at: datetime
    node: str
    case_id: str | None
    recorded: str
    replayed: str
    reason: str | None
    explanation: str | None


class Gap(Struct, frozen=True):
    """Missing data, and how many decisions or cases need it."""

    what: str
    count: int


class BacktestDocument(Struct, frozen=True):
    """The report of a back-test of one cluster, as `faultbridge policy backtest --json` prints it."""

    cluster: str
    entries: int
    since: datetime | None
    until: datetime | None
    decisions: Compared
    recorded: Totals
    replayed: Totals
    differences: list[Difference]
    not_in_record: list[Gap]


def backtest_document(cluster: str, events: Sequence[Event], replayed: Replayed, version: str) -> BacktestDocument:
    """Return the report of a back-test; `version` is the tested policy's version."""
    found = trails(events)
    judgments = judge(found.values(), events)
    left = {course.trail.id for course in replayed.courses if course.trail is not None}
    times = [one.metadata.recorded_at for one in events]
    end = max(times, default=EPOCH)
    recorded = {name: _of_trail(trail, judgments[name], end) for name, trail in found.items()}
    others = [_of_course(course, judgments, end) for course in replayed.courses]
    after = [*(one for name, one in recorded.items() if name not in left), *others]
    same = sum(one.same for one in replayed.decisions)
    in_force = PoliciesInForce.of(events)
    differences = [_difference(one, in_force.explain(one, version)) for one in replayed.decisions if not one.same]
    explained = sum(one.explanation is not None for one in differences)
    return BacktestDocument(
        cluster=cluster,
        entries=len(events),
        since=min(times, default=None),
        until=max(times, default=None),
        decisions=Compared(len(replayed.decisions), same, explained),
        recorded=_totals(list(recorded.values())),
        replayed=_totals(after),
        differences=differences,
        not_in_record=[Gap(text, count) for text, count in sorted(replayed.gaps.items())],
    )


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a back-test, and the replay that the report is about."""

    document: BacktestDocument
    replayed: Replayed


def compare(before: Report, after: Report) -> BacktestDocument:
    """Return a back-test's report with the tested policy of `before` in place of the record.

    The differences have no explanation, because neither of their decisions was recorded.
    """
    pairs = list(_pairs(before.replayed, after.replayed))
    differences = [_difference(one, "") for one in pairs if not one.same]
    decisions = Compared(len(pairs), len(pairs) - len(differences), 0)
    recorded = before.document.replayed
    return replace(after.document, recorded=recorded, differences=differences, decisions=decisions)


def _pairs(before: Replayed, after: Replayed) -> Iterator[Decision]:
    """Yield the decisions of two replays of commits that both compared, `before` as the recorded one."""
    replays = [(one, _by_commit(one.decisions)) for one in (before, after)]
    for key in sorted({key for _, found in replays for key in found}):
        if any(key not in found and key[:2] in replay.not_compared for replay, found in replays):
            continue
        decided = [found.get(key) for _, found in replays]
        shown = min(filter(None, reversed(decided)), key=lambda one: one.same)
        old, new = (one.replayed if one else shown.recorded for one in decided)
        yield replace(shown, recorded=old, replayed=new)


def _by_commit(decisions: Iterable[Decision]) -> dict[tuple[datetime, str, str, int], Decision]:
    found: dict[tuple[datetime, str, str, int], Decision] = {}
    counts: Counter[tuple[datetime, str, str]] = Counter()
    for one in decisions:
        place = (one.at, one.node, one.recorded)
        found[*place, counts[place]] = one
        counts[place] += 1
    return found


def _difference(one: Decision, explanation: str) -> Difference:
    reason = one.reason or None
    return Difference(one.at, one.node, one.case, one.recorded, one.replayed, reason, explanation or None)


def _of_trail(trail: Trail, judgment: Judgment, until: datetime) -> _Outcome:
    actions = tuple(one.repair_action for one in trail.attempts)
    repaired = trail.closed_at is not None and trail.resolution in {"repaired", "replaced"}
    lost = trail.lost if trail.closed_at else gpu_time(trail.gpus, trail.out_since, until)
    return _Outcome(
        trail.node,
        actions,
        trail.escalated_at is not None,
        _span(trail.opened_at, trail.closed_at, counts=repaired),
        lost,
        judgment,
    )


def _of_course(course: Course, judgments: Mapping[str, Judgment], until: datetime) -> _Outcome:
    judgment = judgments[course.trail.id] if course.trail else Judgment.UNDETERMINED
    repaired = course.end in {"repaired", "replaced"}
    escalated = course.end == "by_operator"
    span = _span(course.opened_at, course.ended_at, counts=repaired)
    return _Outcome(course.node, tuple(course.actions), escalated, span, course.lost(until), judgment)


def _span(since: datetime, until: datetime | None, *, counts: bool) -> timedelta | None:
    return until - since if counts and until is not None else None


def _totals(outcomes: Sequence[_Outcome]) -> Totals:
    actions = Counter(action.value for one in outcomes for action in one.actions)
    acted = [one for one in outcomes if one.actions]
    spans = sorted(one.repaired_after for one in outcomes if one.repaired_after is not None)
    lost = total_gpu_time(one.lost for one in outcomes)
    return Totals(
        cases=len(outcomes),
        actions={action.value: actions[action.value] for action in RepairAction},
        nodes_touched=len({one.node for one in acted}),
        escalated=sum(one.escalated for one in outcomes),
        **{judgment.value: sum(one.judgment is judgment for one in acted) for judgment in Judgment},
        missed=sum(one.judgment is Judgment.RIGHT for one in outcomes if not one.actions),
        median_repair_seconds=int(spans[len(spans) // 2].total_seconds()) if spans else None,
        gpu_hours_lost=None if lost is None else round(lost / _HOUR, 2),
        cases_with_unknown_loss=sum(one.lost is None for one in outcomes),
    )
