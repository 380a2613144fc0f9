"""Report: totals for the record and for the tested policy, decisions that differ, and missing data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from faultbridge.backtest.course import Course, Decision, Replayed
from faultbridge.backtest.explanations import PoliciesInForce
from faultbridge.backtest.judgment import Judgment, judge
from faultbridge.backtest.record import Event, Trail, trails
from faultbridge.domain.cases import RepairAction
from faultbridge.domain.times import to_text

_HOUR = timedelta(hours=1) // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of one case, recorded or under the tested policy, for the totals of the report.

    `repaired_after` is the time from the opening of the case to its end, or None if no repair ended the case. `lost` is
    the lost GPU time in milliseconds, or None if it is unknown.
    """

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
    recorded = {name: _of_trail(trail, judgments[name]) for name, trail in found.items()}
    others = [_of_course(course, judgments) for course in replayed.courses]
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
    """Return a report that compares the tested policies of two reports about the same recorded entries.

    It has the form of a back-test's report. `recorded` contains the totals and the decisions under the tested policy of
    `before`, and `replayed` those under the tested policy of `after`. The differences have no explanation, because
    neither of their two decisions was recorded. A decision about a node that had diverged in one of the replays is not
    compared.
    """
    pairs = list(_pairs(before.replayed, after.replayed))
    differences = [_difference(one, "") for one in pairs if not one.same]
    decisions = {"compared": len(pairs), "same": len(pairs) - len(differences), "explained": 0}
    recorded = before.document["replayed"]
    return {**after.document, "recorded": recorded, "differences": differences, "decisions": decisions}


def _pairs(before: Replayed, after: Replayed) -> Iterator[Decision]:
    """Yield the decisions to compare, with the decision of `before` in place of the recorded decision.

    A decision is left out if one of the replays did not compare its commit, because the node had diverged. If a replay
    compared the commit without a decision, its tested policy decided as recorded.
    """
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


def _of_trail(trail: Trail, judgment: Judgment) -> _Outcome:
    actions = tuple(one.repair_action for one in trail.attempts)
    repaired = trail.closed_at is not None and trail.resolution in {"repaired", "replaced"}
    lost = None if trail.gpus is None else trail.lost
    return _Outcome(
        trail.node,
        actions,
        trail.escalated_at is not None,
        _span(trail.opened_at, trail.closed_at, counts=repaired),
        lost,
        judgment,
    )


def _of_course(course: Course, judgments: Mapping[str, Judgment]) -> _Outcome:
    judgment = judgments[course.trail.id] if course.trail else Judgment.UNDETERMINED
    repaired = course.end in {"repaired", "replaced"}
    escalated = course.end == "by_operator"
    span = _span(course.opened_at, course.ended_at, counts=repaired)
    return _Outcome(course.node, tuple(course.actions), escalated, span, course.lost, judgment)


def _span(since: datetime, until: datetime | None, *, counts: bool) -> timedelta | None:
    return until - since if counts and until is not None else None


def _totals(outcomes: Sequence[_Outcome]) -> dict[str, Any]:
    actions = Counter(action.value for one in outcomes for action in one.actions)
    acted = [one for one in outcomes if one.actions]
    spans = sorted(one.repaired_after for one in outcomes if one.repaired_after is not None)
    known = [one.lost for one in outcomes if one.lost is not None]
    return {
        "cases": len(outcomes),
        "actions": {action.value: actions[action.value] for action in RepairAction},
        "nodes_touched": len({one.node for one in acted}),
        "escalated": sum(one.escalated for one in outcomes),
        **{judgment.value: sum(one.judgment is judgment for one in acted) for judgment in Judgment},
        "missed": sum(one.judgment is Judgment.RIGHT for one in outcomes if not one.actions),
        "median_repair_seconds": int(spans[len(spans) // 2].total_seconds()) if spans else None,
        "gpu_hours_lost": round(sum(known) / _HOUR, 2),
        "cases_with_unknown_loss": len(outcomes) - len(known),
    }
