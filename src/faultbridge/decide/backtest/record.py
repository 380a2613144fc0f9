"""The record for a back-test: commits in the order of time, and the course of each recorded case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from faultbridge.decide.entry_builder import gpu_time
from faultbridge.decide.fold.changes import Change, ChangeKind
from faultbridge.decide.governing_rules import start_probation
from faultbridge.model.cases import Approval, Case
from faultbridge.model.catalog import Catalog
from faultbridge.model.conditions import Condition, Reporter, condition_key, counted_at, reporter_key
from faultbridge.model.entries import FAULT_TYPES
from faultbridge.model.enums import (
    Actor,
    CaseStatus,
    EntryType,
    Isolation,
    NodeStatus,
    RepairAction,
    Resolution,
    WaitingFor,
)
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import Component
from faultbridge.model.nodes import Ignored, Incarnation, NodeState, Placement
from faultbridge.model.policy import Limits, Policy
from faultbridge.model.times import from_text
from faultbridge.model.values import replace

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
    """The recorded course of one case; `verdicts` of its diagnostics, `lost` GPU time in milliseconds.

    `out_since` is the first time at which its node was out of service while the case was live.
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
    out_since: datetime | None = None

    def attempt_with(self, action: RepairAction) -> RecordedAttempt | None:
        """Return the first finished attempt with this repair action; None if there is none."""
        return next((one for one in self.attempts if one.repair_action is action and one.ended_at), None)


def commits(events: Iterable[Event]) -> Iterator[Commit]:
    """Group entries with an equal time, node and writer into commits, and yield these in order of time.

    Of the commits of one time, those with refusals come last: the started cases must occupy their repair slots first.
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
    out: dict[str, bool] = {}
    for event in sorted(events, key=_order):
        metadata = event["metadata"]
        kind, case, node = metadata["event_type"], metadata["case_id"], metadata["node"]
        if kind == EntryType.NODE_STATUS.value:
            out[node] = not NodeStatus(event["data"]["to"]).in_service
        if kind == EntryType.CASE_STATUS.value:
            _follow(found, metadata, event["data"])
        if case in found and out.get(node) and found[case].out_since is None:
            found[case].out_since = from_text(metadata["recorded_at"])
        if kind == EntryType.CASE_STATUS.value:
            continue
        if kind == EntryType.REPLACEMENT_STEP.value and case in found:
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


REQUEUED = frozenset({WaitingFor.ADMISSION.value})
"""What a case waits for after a failed attempt."""

_PROVEN = frozenset({Resolution.RECOVERED, Resolution.REPAIRED, Resolution.REPLACED})


def follow_case(state: NodeState, commit: Commit, limits: Limits, catalog: Catalog) -> NodeState:
    """Return a node with a commit's changes of its case; a verified node starts its probation."""
    for event in commit.of_type(EntryType.CASE_STATUS):
        state = replace(state, case=_moved(state.case, event))
        case = state.case
        verified = event["data"]["from"] == CaseStatus.IN_PROGRESS.value
        if case is not None and case.resolution in _PROVEN and verified:
            state = start_probation(state, case, catalog.row(case.code).family, limits, commit.at)
    for event in commit.notes("approval"):
        state = _answered(state, event)
    for event in commit.notes("operator"):
        state = ordered(state, str(event["data"]["facts"].get("order")))
    return state


def ordered(state: NodeState, order: str) -> NodeState:
    """Return a node after the order `replace`, `return` or `cancelled` changed its live case."""
    case = state.live_case
    if case is None:
        return state
    if order == "replace":
        case = replace(case, cancelled=False)
    elif order == "return":
        case = replace(case, cancelled=True, uncounted=case.attempts, approval=None)
    elif order == "cancelled" and case.status is CaseStatus.IN_PROGRESS:
        case = replace(case, cancelled=True)
    elif order == "cancelled":
        case = replace(case, cancelled=True, repair_action=RepairAction.VERIFY, approval=None, not_before=None)
    return replace(state, case=case)


def _moved(before: Case | None, event: Event) -> Case:
    metadata, data = event["metadata"], event["data"]
    case = before if before is not None and before.id == metadata["case_id"] else _new_case(event)
    status = CaseStatus(data["to"])
    ended = data["from"] == CaseStatus.IN_PROGRESS.value and status is CaseStatus.QUEUED
    repeats = data["waiting_for"] in REQUEUED and data["repair_action"] == case.repair_action.value
    return replace(
        case,
        status=status,
        severity=Severity(data["severity"]),
        repair_action=RepairAction(data["repair_action"]),
        attempts=data["attempt"],
        uncounted=case.uncounted + (1 if ended and not repeats else 0),
        waiting_for=WaitingFor(data["waiting_for"]) if data["waiting_for"] else None,
        not_before=from_text(data["not_before"]) if data["not_before"] else None,
        resolution=Resolution(data["resolution"]) if data["resolution"] else None,
        incident=data.get("incident_id"),
        closed_at=None if status.live else from_text(metadata["recorded_at"]),
    )


def _new_case(event: Event) -> Case:
    data = event["data"]
    return Case(
        id=event["metadata"]["case_id"],
        status=CaseStatus.OPEN,
        opened_at=from_text(data["opened_at"]),
        code=data["cause"]["code"],
        component=Component.read(data["cause"]["component"]),
        severity=Severity(data["severity"]),
        action=Action(data["action"]),
        repair_action=RepairAction(data["repair_action"]),
        rule=data["rule"],
        policy=data["policy"],
        gpus=data["gpus"],
        relapse_of=data.get("relapse_of"),
    )


def _answered(state: NodeState, event: Event) -> NodeState:
    case, facts = state.live_case, event["data"]["facts"]
    if case is None or event["data"].get("stage") != "over" or case.approval is None:
        return state
    granted = facts.get("order") == "approved"
    answered = replace(case.approval, granted=True) if granted else None
    return replace(state, case=replace(case, approval=answered))


def with_request(state: NodeState, action: RepairAction, asked_at: datetime, answer_by: datetime) -> NodeState:
    """Return a node whose live case, if any, waits for approval of a repair action."""
    case = state.live_case
    if case is None:
        return state
    request = Approval(case.attempts + 1, action, asked_at, answer_by)
    return replace(state, case=replace(case, approval=request, waiting_for=WaitingFor.APPROVAL))


FIRST_PAUSE = timedelta(minutes=5)
"""The first pause before a refused attempt of a simulated case is tried again."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A recorded decision about a case as text, such as `wait`, and that of the tested policy."""

    at: datetime
    node: str
    case: str | None
    recorded: str
    replayed: str
    reason: str = ""

    @property
    def same(self) -> bool:
        """Return True if the recorded decision and the decision of the tested policy are equal."""
        return self.recorded == self.replayed


@dataclass(slots=True)
class Course:
    """The course of a case under the tested policy; `trail` is the recorded course of the same case, if any.

    `end` is empty while the case is live, and then its resolution, `closed`, `none` (the tested policy repairs nothing)
    or `by_operator` (only an operator can close it).
    """

    node: str
    code: str
    opened_at: datetime
    gpus: int | None
    trail: Trail | None
    actions: list[RepairAction] = field(default_factory=list)
    ended_at: datetime | None = None
    end: str = ""
    out_since: datetime | None = None

    def lost(self, until: datetime) -> int | None:
        """Return the lost GPU time in ms; a case that is live at the end of the record counts until then."""
        return gpu_time(self.gpus, self.out_since, self.ended_at or until)


@dataclass(slots=True)
class Track:
    """One node in a replay; the fields from `course` on belong to the simulation of its case (`diverged`)."""

    state: NodeState
    recorded: NodeState
    trail: Trail | None = None
    diverged: bool = False
    course: Course | None = None
    attempt_ends: datetime | None = None
    retry_at: datetime | None = None
    retry_pause: timedelta = FIRST_PAUSE


@dataclass(slots=True)
class Replayed:
    """The compared decisions, simulated courses, missing data by description, and commits not compared."""

    decisions: list[Decision] = field(default_factory=list)
    courses: list[Course] = field(default_factory=list)
    gaps: dict[str, int] = field(default_factory=dict)
    not_compared: set[tuple[datetime, str]] = field(default_factory=set)

    def add_gap(self, text: str, count: int = 1) -> None:
        """Count decisions or cases that need missing data; `text` describes the data."""
        if count:
            self.gaps[text] = self.gaps.get(text, 0) + count


Durations = Mapping[RepairAction, timedelta]


_KINDS = {
    EntryType.FAULT_DETECTED.value: ChangeKind.BEGAN,
    EntryType.FAULT_UPDATED.value: ChangeKind.UPDATED,
    EntryType.FAULT_CLEARED.value: ChangeKind.ENDED,
}
_FAULTS = frozenset(one.value for one in FAULT_TYPES)


@dataclass(slots=True)
class FactReader:
    """Rebuilds the conditions of nodes from entries, which have severity and action after a policy rule.

    If the rule sets a value, the value of the catalog is assumed as the reported one, else that of the entry is used.
    `guessed` has the ids of the entries whose rule sets a value or whose policy is not known.
    """

    catalog: Catalog
    policies: Mapping[str, Policy]
    guessed: set[str] = field(default_factory=set)

    def changes(self, state: NodeState, commit: Commit) -> tuple[tuple[Change, ...], dict[str, Condition]]:
        """Return the changes of a node's conditions in a commit, and all conditions of the node after it."""
        after = dict(state.conditions)
        changes = []
        for event in commit.events:
            metadata, data = event["metadata"], event["data"]
            if metadata["event_type"] not in _FAULTS:
                continue
            kind, at = _KINDS[metadata["event_type"]], from_text(data["observed_at"])
            component = Component.read(data["component"])
            key = condition_key(self._mode(data), component)
            condition = self._condition(event, component, after.get(key), at)
            if kind is ChangeKind.ENDED:
                after.pop(key, None)
            else:
                _forget_renamed(after, key, condition)
                after[key] = condition
            reason = data["reason"] or ""
            changes.append(Change(kind, at, condition, None, None, reason, tuple(data["changed"])))
        return tuple(changes), after

    def _mode(self, data: Event) -> str:
        return data.get("failure_mode") or self.catalog.row(data["code"]).mode

    def _condition(self, event: Event, component: Component, before: Condition | None, at: datetime) -> Condition:
        data = event["data"]
        code, count = data["code"], data["count"]
        row = self.catalog.row(code)
        policy = self.policies.get(data["policy"])
        rule = policy.rule_named(data["rule"]) if policy else None
        severity, action = Severity(data["severity"]), Action(data["action"])
        if policy is None or (rule is not None and (rule.severity or rule.action)):
            self.guessed.add(event["metadata"]["event_id"])
        reported_severity = row.severity if rule and rule.severity else severity
        reported_action = row.action if rule and rule.action else action
        seen = max(count - before.count, 0) if before else count
        hours = next((one.hours for one in before.reporters.values()), {}) if before else {}
        hours = counted_at(hours, at, seen) if seen else hours
        reporter = Reporter(True, at, severity=reported_severity, action=reported_action, count=count, hours=hours)
        return Condition(
            code=code,
            mode=self._mode(data),
            component=component,
            severity=severity,
            action=action,
            scope=row.scope,
            ends_on=row.ends_on,
            since=from_text(data["since"]),
            last_at=max(at, before.last_at) if before else at,
            message=data["message"],
            count=count,
            known_incarnation=data["incarnation"] is not None,
            reporters=dict.fromkeys((reporter_key(name, code) for name in data["reporters"]), reporter),
            reported_severity=reported_severity,
            reported_action=reported_action,
            family=row.family,
        )


def _forget_renamed(conditions: dict[str, Condition], key: str, condition: Condition) -> None:
    """Remove the condition, with another key, that `condition` replaces with an identified device."""
    if key in conditions:
        return
    same = [name for name, one in conditions.items() if (one.mode, one.since) == (condition.mode, condition.since)]
    for name in same:
        if conditions[name].component.type is condition.component.type:
            del conditions[name]


def placed(state: NodeState, commit: Commit) -> NodeState:
    """Return a node with the placement and instance of a commit, and ignored if it records so."""
    for event in commit.events:
        data = event["data"]
        if data.get("placement"):
            state = replace(state, placement=_placement(data["placement"]))
        if event["metadata"]["event_type"] == EntryType.NODE_STATUS.value:
            incarnation = data["incarnation"]
            state = replace(state, incarnation=_incarnation(incarnation, commit.at) if incarnation else None)
        if event["metadata"]["event_type"] == EntryType.NOTE.value and data["kind"] == "operator":
            state = _ordered(state, str(data["facts"].get("order", "")), commit.at)
    return state


def _ordered(state: NodeState, order: str, at: datetime) -> NodeState:
    if order == "ignore":
        # The end of the order is not recorded; `heed` or a case that the record opens ends it.
        return replace(state, ignored=Ignored("operator", at))
    return replace(state, ignored=None) if order == "heed" else state


def in_status(state: NodeState, commit: Commit) -> NodeState:
    """Return a node with a commit's status and isolation; one that passed validation is not isolated."""
    for event in commit.of_type(EntryType.NODE_STATUS):
        data = event["data"]
        state = replace(state, status=NodeStatus(data["to"]), isolation=Isolation(data["isolation"]))
        if state.status is not None and state.status.in_service and data["from"] == NodeStatus.VALIDATING.value:
            state = replace(state, isolation=Isolation.NONE)
    return state


def _placement(data: Event) -> Placement:
    return Placement(group=data["group"], instance_type=data["instance_type"], domain=data["domain"])


def _incarnation(data: Event, at: datetime) -> Incarnation:
    return Incarnation(data["instance"], data["boot"], data["instance_id"], None, at)
