"""The record for a back-test: commits in the order of time, and the course of each recorded case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, TypeVar, cast

from faultbridge.decide.entry_builder import gpu_time
from faultbridge.decide.fold.changes import Change, ChangeKind
from faultbridge.decide.governing_rules import start_probation
from faultbridge.model.cases import Approval, Case
from faultbridge.model.catalog import Catalog
from faultbridge.model.conditions import Condition, Reporter, condition_key, counted_at, reporter_key
from faultbridge.model.entries import EntryMetadata
from faultbridge.model.enums import (
    Actor,
    CaseStatus,
    EntryType,
    Isolation,
    NodeStatus,
    NoteKind,
    RepairAction,
    Resolution,
    WaitingFor,
)
from faultbridge.model.event_data import (
    CaseStatusData,
    EventData,
    FaultData,
    NodeStatusData,
    NoteData,
    ReplacementStepData,
)
from faultbridge.model.nodes import Ignored, Incarnation, NodeState, Placement
from faultbridge.model.policy import Limits, Policy
from faultbridge.model.recorded import RecordedEvent
from faultbridge.model.values import replace

Event = RecordedEvent[Any]
D = TypeVar("D", bound=EventData)


@dataclass(frozen=True, slots=True)
class Commit:
    """The entries that one writer recorded at one time about one node, or about the cluster (`node` None)."""

    at: datetime
    node: str | None
    actor: Actor
    events: tuple[Event, ...]

    def of_type(self, kind: type[D]) -> list[RecordedEvent[D]]:
        """Return the entries of this commit whose data is of one class."""
        return [cast("RecordedEvent[D]", one) for one in self.events if isinstance(one.data, kind)]

    def notes(self, kind: NoteKind) -> list[NoteData]:
        """Return the notes of one kind, such as `approval`, in this commit."""
        return [one.data for one in self.of_type(NoteData) if one.data.kind == kind]


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
        Commit(recorded, node or None, Actor(actor), tuple(group))
        for (recorded, node, actor), group in groupby(sorted(events, key=_order), key=_writer)
    ]
    yield from sorted(found, key=lambda one: (one.at, bool(one.notes(NoteKind.REFUSED))))


def _order(event: Event) -> tuple[datetime, str, int, int]:
    metadata = event.metadata
    return metadata.recorded_at, metadata.node or "", metadata.epoch, metadata.sequence


def _writer(event: Event) -> tuple[datetime, str, str]:
    return event.metadata.recorded_at, event.metadata.node or "", event.metadata.recorded_by


def trails(events: Iterable[Event]) -> dict[str, Trail]:
    """Return the recorded course (`Trail`) of each case, by case id."""
    found: dict[str, Trail] = {}
    out: dict[str | None, bool] = {}
    for event in sorted(events, key=_order):
        metadata, data = event.metadata, event.data
        case, node = metadata.case_id or "", metadata.node
        if isinstance(data, NodeStatusData):
            out[node] = not data.to.in_service
        if isinstance(data, CaseStatusData):
            _follow(found, metadata, data)
        if case in found and out.get(node) and found[case].out_since is None:
            found[case].out_since = metadata.recorded_at
        if isinstance(data, ReplacementStepData) and case in found:
            verified = data.step == "verify" and data.outcome in {"passed", "failed"}
            found[case].verdicts += [data.outcome == "passed"] if verified else []
    return found


def _follow(found: dict[str, Trail], metadata: EntryMetadata, data: CaseStatusData) -> None:
    at, case = metadata.recorded_at, metadata.case_id or ""
    new = Trail(case, metadata.node or "", data.cause.code, data.opened_at, complete=data.from_ is None)
    trail = found.setdefault(case, new)
    trail.relapse_of = data.relapse_of or trail.relapse_of
    trail.gpus = data.gpus or trail.gpus
    if data.from_ is CaseStatus.IN_PROGRESS and trail.attempts:
        trail.attempts[-1].ended_at, trail.attempts[-1].status = at, data.to
    if data.to is CaseStatus.IN_PROGRESS:
        trail.attempts.append(RecordedAttempt(data.repair_action, at))
    elif data.to is CaseStatus.ESCALATED:
        trail.escalated_at = at
    elif not data.to.live:
        trail.closed_at, trail.resolution, trail.lost = at, data.resolution, data.gpu_time_lost


def typical_durations(found: Iterable[Trail]) -> dict[RepairAction, timedelta]:
    """Return the median duration of the successful recorded attempts, by repair action."""
    durations: dict[RepairAction, list[timedelta]] = {}
    for trail in found:
        for one in trail.attempts:
            if one.repaired and one.ended_at is not None:
                durations.setdefault(one.repair_action, []).append(one.ended_at - one.admitted_at)
    return {action: sorted(times)[len(times) // 2] for action, times in durations.items()}


REQUEUED = frozenset({WaitingFor.ADMISSION})
"""What a case waits for after a failed attempt."""

_PROVEN = frozenset({Resolution.RECOVERED, Resolution.REPAIRED, Resolution.REPLACED})


def follow_case(state: NodeState, commit: Commit, limits: Limits, catalog: Catalog) -> NodeState:
    """Return a node with a commit's changes of its case; a verified node starts its probation."""
    for event in commit.of_type(CaseStatusData):
        case = _moved(state.case, event)
        state = replace(state, case=case)
        if case.resolution in _PROVEN and event.data.from_ is CaseStatus.IN_PROGRESS:
            state = start_probation(state, case, catalog.row(case.code).family, limits, commit.at)
    for note in commit.notes(NoteKind.APPROVAL):
        state = _answered(state, note)
    for note in commit.notes(NoteKind.OPERATOR):
        state = ordered(state, str(note.facts.get("order")))
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


def _moved(before: Case | None, event: RecordedEvent[CaseStatusData]) -> Case:
    metadata, data = event.metadata, event.data
    case = before if before is not None and before.id == metadata.case_id else _new_case(event)
    ended = data.from_ is CaseStatus.IN_PROGRESS and data.to is CaseStatus.QUEUED
    repeats = data.waiting_for in REQUEUED and data.repair_action is case.repair_action
    return replace(
        case,
        status=data.to,
        severity=data.severity,
        repair_action=data.repair_action,
        attempts=data.attempt,
        uncounted=case.uncounted + (1 if ended and not repeats else 0),
        waiting_for=data.waiting_for,
        not_before=data.not_before,
        resolution=data.resolution,
        incident=data.incident_id or None,
        closed_at=None if data.to.live else metadata.recorded_at,
    )


def _new_case(event: RecordedEvent[CaseStatusData]) -> Case:
    data = event.data
    return Case(
        id=event.metadata.case_id or "",
        status=CaseStatus.OPEN,
        opened_at=data.opened_at,
        code=data.cause.code,
        component=data.cause.component.identity(),
        severity=data.severity,
        action=data.action,
        repair_action=data.repair_action,
        rule=data.rule,
        policy=data.policy,
        gpus=data.gpus,
        relapse_of=data.relapse_of or None,
    )


def _answered(state: NodeState, note: NoteData) -> NodeState:
    case = state.live_case
    if case is None or note.stage != "over" or case.approval is None:
        return state
    granted = note.facts.get("order") == "approved"
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


_KINDS: Mapping[str, ChangeKind] = {
    EntryType.FAULT_DETECTED: ChangeKind.BEGAN,
    EntryType.FAULT_UPDATED: ChangeKind.UPDATED,
    EntryType.FAULT_CLEARED: ChangeKind.ENDED,
}


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
        for event in commit.of_type(FaultData):
            data, kind = event.data, _KINDS[event.metadata.event_type]
            key = condition_key(self._mode(data), data.component.identity())
            condition = self._condition(event, after.get(key))
            if kind is ChangeKind.ENDED:
                after.pop(key, None)
            else:
                _forget_renamed(after, key, condition)
                after[key] = condition
            changes.append(Change(kind, data.observed_at, condition, None, None, data.reason or "", data.changed))
        return tuple(changes), after

    def _mode(self, data: FaultData) -> str:
        return data.failure_mode or self.catalog.row(data.code).mode

    def _condition(self, event: RecordedEvent[FaultData], before: Condition | None) -> Condition:
        data, at = event.data, event.data.observed_at
        code, count = data.code, data.count
        row = self.catalog.row(code)
        policy = self.policies.get(data.policy)
        rule = policy.rule_named(data.rule) if policy else None
        if policy is None or (rule is not None and (rule.severity or rule.action)):
            self.guessed.add(event.metadata.event_id)
        reported_severity = row.severity if rule and rule.severity else data.severity
        reported_action = row.action if rule and rule.action else data.action
        seen = max(count - before.count, 0) if before else count
        hours = next((one.hours for one in before.reporters.values()), {}) if before else {}
        hours = counted_at(hours, at, seen) if seen else hours
        reporter = Reporter(True, at, severity=reported_severity, action=reported_action, count=count, hours=hours)
        return Condition(
            code=code,
            mode=self._mode(data),
            component=data.component.identity(),
            severity=data.severity,
            action=data.action,
            scope=row.scope,
            ends_on=row.ends_on,
            since=data.since,
            last_at=max(at, before.last_at) if before else at,
            message=data.message,
            count=count,
            known_incarnation=data.incarnation is not None,
            reporters=dict.fromkeys((reporter_key(name, code) for name in data.reporters), reporter),
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
        data = event.data
        if found := getattr(data, "placement", None):
            placement = Placement(group=found.group, instance_type=found.instance_type, domain=found.domain)
            state = replace(state, placement=placement)
        if isinstance(data, NodeStatusData):
            now = data.incarnation
            incarnation = Incarnation(now.instance, now.boot, now.instance_id, None, commit.at) if now else None
            state = replace(state, incarnation=incarnation)
        if isinstance(data, NoteData) and data.kind is NoteKind.OPERATOR:
            state = _ordered(state, str(data.facts.get("order", "")), commit.at)
    return state


def _ordered(state: NodeState, order: str, at: datetime) -> NodeState:
    if order == "ignore":
        # The end of the order is not recorded; `heed` or a case that the record opens ends it.
        return replace(state, ignored=Ignored("operator", at))
    return replace(state, ignored=None) if order == "heed" else state


def in_status(state: NodeState, commit: Commit) -> NodeState:
    """Return a node with a commit's status and isolation; one that passed validation is not isolated."""
    for event in commit.of_type(NodeStatusData):
        passed = event.data.to.in_service and event.data.from_ is NodeStatus.VALIDATING
        state = replace(state, status=event.data.to, isolation=Isolation.NONE if passed else event.data.isolation)
    return state
