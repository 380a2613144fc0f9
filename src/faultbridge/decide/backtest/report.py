"""Report: totals for the record and for the tested policy, decisions that differ, and missing data."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from faultbridge.decide.backtest.record import Course, Decision, Event, Replayed, Trail, trails
from faultbridge.decide.entry_builder import gpu_time, total_gpu_time
from faultbridge.model.entries import FAULT_TYPES
from faultbridge.model.enums import EntryType, RepairAction
from faultbridge.model.fault_enums import Severity
from faultbridge.model.times import EPOCH, from_text, to_text
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
    detected = [
        (
            one["metadata"]["node"],
            one["data"]["code"],
            one["data"]["severity"],
            from_text(one["metadata"]["recorded_at"]),
        )
        for one in events
        if one["metadata"]["event_type"] == EntryType.FAULT_DETECTED.value
    ]
    end = max((from_text(one["metadata"]["recorded_at"]) for one in events), default=None)
    by_node: dict[str, list[tuple[str, str, datetime]]] = {}
    for node, code, severity, at in detected:
        by_node.setdefault(node, []).append((code, severity, at))
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

NAMING = frozenset(one.value for one in FAULT_TYPES)


@dataclass(frozen=True, slots=True)
class PoliciesInForce:
    """The policy versions that fault entries name, and the times of these entries, in order of time."""

    times: Sequence[datetime]
    versions: Sequence[str]

    @classmethod
    def of(cls, events: Iterable[Event]) -> PoliciesInForce:
        """Build the list of policies from the entries of a cluster."""
        found = sorted(
            (from_text(one["metadata"]["recorded_at"]), str(one["data"]["policy"]))
            for one in events
            if one["metadata"]["event_type"] in NAMING and one["data"].get("policy")
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


def backtest_document(cluster: str, events: Sequence[Event], replayed: Replayed, version: str) -> dict[str, Any]:
    """Return the report of a back-test as a JSON document; `version` is the tested policy's version."""
    found = trails(events)
    judgments = judge(found.values(), events)
    left = {course.trail.id for course in replayed.courses if course.trail is not None}
    end = max((from_text(one["metadata"]["recorded_at"]) for one in events), default=EPOCH)
    recorded = {name: _of_trail(trail, judgments[name], end) for name, trail in found.items()}
    others = [_of_course(course, judgments, end) for course in replayed.courses]
    after = [*(one for name, one in recorded.items() if name not in left), *others]
    same = sum(one.same for one in replayed.decisions)
    in_force = PoliciesInForce.of(events)
    differences = [_difference(one, in_force.explain(one, version)) for one in replayed.decisions if not one.same]
    explained = sum(one["explanation"] is not None for one in differences)
    times = [one["metadata"]["recorded_at"] for one in events]
    return {
        "cluster": cluster,
        "entries": len(events),
        "since": min(times, default=None),
        "until": max(times, default=None),
        "decisions": {"compared": len(replayed.decisions), "same": same, "explained": explained},
        "recorded": _totals(list(recorded.values())),
        "replayed": _totals(after),
        "differences": differences,
        "not_in_record": [{"what": text, "count": count} for text, count in sorted(replayed.gaps.items())],
    }


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a back-test as a JSON document, and the replay that the report is about."""

    document: dict[str, Any]
    replayed: Replayed


def compare(before: Report, after: Report) -> dict[str, Any]:
    """Return a back-test's report with the tested policy of `before` in place of the record.

    The differences have no explanation, because neither of their decisions was recorded.
    """
    pairs = list(_pairs(before.replayed, after.replayed))
    differences = [_difference(one, "") for one in pairs if not one.same]
    decisions = {"compared": len(pairs), "same": len(pairs) - len(differences), "explained": 0}
    recorded = before.document["replayed"]
    return {**after.document, "recorded": recorded, "differences": differences, "decisions": decisions}


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


def _difference(decision: Decision, explanation: str) -> dict[str, Any]:
    return {
        "at": to_text(decision.at),
        "node": decision.node,
        "case_id": decision.case,
        "recorded": decision.recorded,
        "replayed": decision.replayed,
        "reason": decision.reason or None,
        "explanation": explanation or None,
    }


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


def _totals(outcomes: Sequence[_Outcome]) -> dict[str, Any]:
    actions = Counter(action.value for one in outcomes for action in one.actions)
    acted = [one for one in outcomes if one.actions]
    spans = sorted(one.repaired_after for one in outcomes if one.repaired_after is not None)
    lost = total_gpu_time(one.lost for one in outcomes)
    return {
        "cases": len(outcomes),
        "actions": {action.value: actions[action.value] for action in RepairAction},
        "nodes_touched": len({one.node for one in acted}),
        "escalated": sum(one.escalated for one in outcomes),
        **{judgment.value: sum(one.judgment is judgment for one in acted) for judgment in Judgment},
        "missed": sum(one.judgment is Judgment.RIGHT for one in outcomes if not one.actions),
        "median_repair_seconds": int(spans[len(spans) // 2].total_seconds()) if spans else None,
        "gpu_hours_lost": None if lost is None else round(lost / _HOUR, 2),
        "cases_with_unknown_loss": sum(one.lost is None for one in outcomes),
    }
