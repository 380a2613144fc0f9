"""In step: replays a node while the tested policy decides as recorded (the two are in step)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from faultbridge.decide.admit import Refused, admit, closed_window, recent_starts
from faultbridge.decide.backtest.record import (
    FIRST_PAUSE,
    REQUEUED,
    Commit,
    Course,
    Decision,
    Durations,
    FactReader,
    Replayed,
    Track,
    follow_case,
    in_status,
    ordered,
    placed,
    with_request,
)
from faultbridge.decide.breaker import close_manually, count_opening, evaluate_breakers, failing_node
from faultbridge.decide.case_moves import Rules
from faultbridge.decide.decide import decide, expire_approval
from faultbridge.decide.fold.changes import Change
from faultbridge.decide.governing_rules import (
    choose_repair_action,
    governing_rules,
    next_higher,
    next_repair_action,
    rule_to_ask,
    start_probation,
    with_governing_rules,
)
from faultbridge.model.cases import INSTANCE_ADDED, Case
from faultbridge.model.cluster.state import Breaker, BreakerLimit, BreakerState, Control, Pause, breaker_name
from faultbridge.model.entries import Transition
from faultbridge.model.enums import (
    Actor,
    BreakerScope,
    CaseStatus,
    Isolation,
    NodeStatus,
    NoteKind,
    RepairAction,
    Resolution,
    SafetyKind,
    SafetyState,
    WaitingFor,
)
from faultbridge.model.event_data import CaseStatusData, ClusterSafetyData, NoteData, ReplacementStepData
from faultbridge.model.fault_enums import Severity
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import INVENTORY_RULE
from faultbridge.model.storage.node_rows import QueuedCase
from faultbridge.model.times import earliest
from faultbridge.model.values import replace


@dataclass(slots=True)
class ClusterReplay:
    """The nodes, repair slots and breakers of one cluster in a replay under the tested policy."""

    rules: Rules
    control: Control
    tracks: dict[str, Track] = field(default_factory=dict)
    recorded_limits: tuple[BreakerLimit, ...] | None = None

    @property
    def follows_breakers(self) -> bool:
        """Whether the recorded breaker states apply: both policies have the same breaker limits."""
        return self.recorded_limits == self.rules.policy.breakers

    def apply(self, commit: Commit) -> None:
        """Apply recorded pauses and breaker changes; under other limits only an operator's closing order."""
        for data in [event.data for event in commit.of_type(ClusterSafetyData)]:
            if data.kind is SafetyKind.PAUSE:
                pauses = {"recorded": Pause(since=commit.at)} if data.to is SafetyState.PAUSED else {}
                self.control = replace(self.control, pauses=pauses)
            elif data.kind is SafetyKind.BREAKER and self.follows_breakers:
                self._set_breakers({_name(data): self._recorded(data, commit)})
            elif data.kind is SafetyKind.BREAKER and commit.actor is Actor.CLI:
                tripped = self.control.breakers.items()
                self._set_breakers({name: close_manually(one, commit.at) for name, one in tripped if _is_tripped(one)})

    def _recorded(self, data: ClusterSafetyData, commit: Commit) -> Breaker:
        scope = BreakerScope.DOMAIN if data.domain else BreakerScope.CLUSTER
        limit = next((one for one in self.rules.policy.breakers if one.scope is scope), None)
        before = self.control.breakers.get(_name(data))
        opened = before.opened if before and commit.actor is not Actor.CLI else ()
        breaker = Breaker(BreakerState(data.to), commit.at, limit.trial if limit else 1, opened=opened)
        return count_opening(breaker, limit)[0] if limit and breaker.state is BreakerState.OPEN else breaker

    def _set_breakers(self, changed: Mapping[str, Breaker]) -> None:
        self.control = replace(self.control, breakers={**self.control.breakers, **changed})

    def update_breakers(self, now: datetime) -> None:
        """Open and close breakers by the nodes with live cases, unless the recorded states apply."""
        limits = self.rules.policy.breakers
        if self.follows_breakers:
            return
        known = [track.state for track in self.tracks.values() if track.state.status not in {None, NodeStatus.RETIRED}]
        failing = [
            failing_node(one, one.live_case)
            for one in known
            if one.live_case is not None and one.status is not None and one.live_case.status is not CaseStatus.ABSORBED
        ]
        if not limits or (not failing and not self.control.breakers):
            return
        counts: Counter[str | None] = Counter(one.placement.domain for one in known if one.placement.domain)
        counts[None] = max(self.rules.config.expected, len(known))
        moved = evaluate_breakers(self.control.breakers, limits, failing, counts, now)
        self._set_breakers({one.name: one.breaker for one in moved})

    def refusal(self, track: Track, case: Case, action: RepairAction, now: datetime) -> Refused | None:
        """Return why admission refuses a queued case now, without regard to other cases; else None."""
        refused = admit(self.control, self.rules.policy, (_queued(track, case, action),), now).refusals
        return refused[0] if refused else None

    def is_behind(self, case: Case, now: datetime) -> bool:
        """Return True if admission of all queued cases at the same time would not start this case now."""
        waiting = [
            _queued(one, one.state.live_case, one.state.live_case.repair_action)
            for one in self.tracks.values()
            if one.state.live_case is not None and one.state.live_case.status is CaseStatus.QUEUED
        ]
        return all(pick.case != case.id for pick in admit(self.control, self.rules.policy, waiting, now).picks)

    def take_slot(self, case: Case, action: RepairAction, now: datetime) -> None:
        """Occupy a repair slot for an attempt, if its repair action needs a slot."""
        if action.needs_slot:
            starts = (*recent_starts(self.control, now), now)
            self.control = replace(self.control, holders={**self.control.holders, case.id: now}, starts=starts)

    def free_slot(self, case_id: str) -> None:
        """Release the repair slot of a case, if the case has one."""
        holders = {name: since for name, since in self.control.holders.items() if name != case_id}
        self.control = replace(self.control, holders=holders)


def _queued(track: Track, case: Case, action: RepairAction) -> QueuedCase:
    state = track.state
    return QueuedCase(
        key=state.key,
        case=case.id,
        repair_action=action,
        priority=len(Severity) - 1 - case.severity.rank,
        since=case.opened_at,
        not_before=case.not_before,
        rule=case.rule,
        domain=state.placement.domain,
        group=state.placement.group,
        approved=case.approves(action, case.attempts + 1),
        approval_pending=case.pending_approval is not None,
    )


def _name(data: ClusterSafetyData) -> str:
    return breaker_name(BreakerScope.DOMAIN if data.domain else BreakerScope.CLUSTER, data.domain)


def _is_tripped(breaker: Breaker) -> bool:
    return breaker.state is not BreakerState.CLOSED


BY_POLICY = frozenset({WaitingFor.BUDGET, WaitingFor.BREAKER, WaitingFor.APPROVAL, WaitingFor.WINDOW, WaitingFor.WAIT})
"""Reasons to wait that depend on the policy. All others, such as missing capacity, do not."""

NOTHING = "nothing"
_ORDER = list(RepairAction)
_DECIDED = {(None, "open"), ("open", "queued"), ("open", "resolved"), ("queued", "resolved"), ("open", "escalated")}


@dataclass(slots=True)
class InStep:
    """Compares recorded decisions about a node with the tested policy, until two decisions differ."""

    reader: FactReader
    cluster: ClusterReplay

    def replay(self, track: Track, commit: Commit) -> list[Decision]:
        """Replay one commit of a node, update `track.state`, and return the compared decisions."""
        before = placed(track.state, commit)
        changes, conditions = self.reader.changes(before, commit)
        before = replace(before, conditions=conditions)
        recorded = [one.data for one in commit.of_type(CaseStatusData)]
        decisions: list[Decision] = []
        decided: NodeState | None = None
        if _is_stage(commit, changes, recorded):
            decisions, decided = self._stage(before, changes, commit, recorded)
        elif commit.actor is Actor.DISPATCH:
            track.state = before
            decisions = self._dispatch(track, commit, recorded)
        elif commit.actor in {Actor.STEP, Actor.CLOSE}:
            decisions = self._next_actions(before, commit, recorded)
        if any(not one.same for one in decisions):
            track.state = decided or before
            return decisions
        track.state = self._agreed(decided or before, commit)
        return decisions

    def _agreed(self, state: NodeState, commit: Commit) -> NodeState:
        """Apply a recorded commit to a node, whose case keeps the rule that the tested policy selected."""
        policy = self.cluster.rules.policy
        rule = state.live_case.rule if state.live_case else None
        state = follow_case(_with_recorded_id(state, commit), commit, policy.limits, self.reader.catalog)
        case = state.live_case
        if case is not None and rule is not None:
            case = replace(case, rule=rule)
            case = with_governing_rules(state, case, policy) if _starts_or_acts(commit) else case
            state = replace(state, case=case)
        for asked in _requests(commit):
            if case is not None:
                action = RepairAction(asked.facts["repair_action"])
                asking = rule_to_ask(state, case, policy, action, case.attempts + 1)
                deadline = (asking or policy.rule_named(case.rule)).approval_deadline
                state = with_request(state, action, commit.at, commit.at + deadline)
        return in_status(state, commit)

    def _stage(
        self, state: NodeState, changes: Iterable[Change], commit: Commit, recorded: Iterable[CaseStatusData]
    ) -> tuple[list[Decision], NodeState]:
        theirs = [_of_case(one, commit.at) for one in recorded if _is_decided(one)]
        if any(text.startswith("open") for text in theirs) and state.ignored is not None:
            state = replace(state, ignored=None)
        if any(one.facts.get("order") == "replace" for one in commit.notes(NoteKind.OPERATOR)):
            state = ordered(state, "replace")
        rules = self.cluster.rules
        decided = expire_approval(decide(state, changes, rules, commit.at), commit.at)
        mine = [_of_case(one.data, one.occurred_at) for one in decided.drafts if isinstance(one.data, CaseStatusData)]
        if not theirs and not mine:
            return [], decided.state
        decision = Decision(commit.at, state.key.node, _case_id(commit), _text(theirs), _text(mine))
        return [decision], _isolation_requested(decided.state)

    def _dispatch(self, track: Track, commit: Commit, recorded: Iterable[CaseStatusData]) -> list[Decision]:
        case = track.state.live_case
        if case is None:
            return []
        found = []
        for data in recorded:
            if data.to is CaseStatus.IN_PROGRESS:
                found.append(self._compared(track, case, commit, f"start {data.repair_action}"))
                if found[-1].same:
                    self.cluster.take_slot(case, data.repair_action, commit.at)
            elif data.to is CaseStatus.ESCALATED:
                found.append(self._compared(track, case, commit, "escalate"))
        for refused in commit.notes(NoteKind.REFUSED):
            if refused.facts["waiting_for"] in BY_POLICY:
                found.append(self._compared(track, case, commit, "wait"))
                if not found[-1].same and self.cluster.is_behind(case, commit.at):
                    found[-1] = replace(found[-1], replayed="wait", reason="more urgent cases come first")
        if not found and _requests(commit):
            found.append(self._compared(track, case, commit, "wait"))
        return found

    def _compared(self, track: Track, case: Case, commit: Commit, theirs: str) -> Decision:
        action, refused = self.admission(track, case, commit.at)
        mine = "escalate" if action is None else "wait" if refused else f"start {action.value}"
        return Decision(commit.at, track.state.key.node, case.id, theirs, mine, refused)

    def admission(self, track: Track, case: Case, now: datetime) -> tuple[RepairAction | None, str]:
        """Return the next attempt's action (None: an operator must act), and why it must wait."""
        policy = self.cluster.rules.policy
        action = choose_repair_action(track.state, case, policy).repair_action
        if action is None:
            return None, ""
        refused = self.cluster.refusal(track, case, case.repair_action, now)
        if refused is not None:
            return action, refused.reason
        asking = rule_to_ask(track.state, case, policy, action, case.attempts + 1)
        if asking is not None:
            return action, f"{action.value} requires approval: rule {asking.name}"
        return action, closed_window(governing_rules(track.state, case, policy, action), action, now) or ""

    def _next_actions(self, state: NodeState, commit: Commit, recorded: Iterable[CaseStatusData]) -> list[Decision]:
        case, found = state.live_case, []
        for data in recorded:
            failed = data.from_ is CaseStatus.IN_PROGRESS and data.to is CaseStatus.QUEUED
            if case is not None and failed and data.waiting_for in REQUEUED and not case.cancelled:
                if _ORDER.index(data.repair_action) < _ORDER.index(case.repair_action):
                    continue  # the faults ended meanwhile: the node is only verified
                action = self.next_action(case, data.repair_action)
                mine = f"retry with {action.value}" if action else "escalate"
                theirs = f"retry with {data.repair_action.value}"
                found.append(Decision(commit.at, state.key.node, case.id, theirs, mine))
        return found

    def next_action(self, case: Case, at_least: RepairAction | None = None) -> RepairAction | None:
        """Return the action after a failed attempt, not weaker than `at_least`; None if an operator must act."""
        policy = self.cluster.rules.policy
        higher = next_higher(case.repair_action) or case.repair_action
        least = max(higher, at_least or higher, key=_ORDER.index)
        action = next_repair_action(policy.rule_named(case.rule), at_least=least)
        exhausted = action is case.repair_action and case.counted_attempts >= policy.limits.attempts
        return None if exhausted else action


def _is_stage(commit: Commit, changes: object, recorded: Iterable[CaseStatusData]) -> bool:
    """Return whether the decision stages produced a commit: the sweep, changed conditions, or an order."""
    recorded = list(recorded)
    if any(not _is_decided(one) and one.rule != "" for one in recorded):
        return False
    if commit.actor is Actor.CLI:
        orders = {str(one.facts.get("order")) for one in commit.notes(NoteKind.OPERATOR)}
        return bool(changes) and not orders & {"return", "cancelled"}
    return commit.actor is Actor.SWEEP or (commit.actor is Actor.INGEST and bool(changes))


def _starts_or_acts(commit: Commit) -> bool:
    started = any(one.data.to is CaseStatus.IN_PROGRESS for one in commit.of_type(CaseStatusData))
    return started or any(one.data.step == "intent" for one in commit.of_type(ReplacementStepData))


def _requests(commit: Commit) -> list[NoteData]:
    return [one for one in commit.notes(NoteKind.APPROVAL) if one.stage == "begun"]


def _is_decided(data: CaseStatusData) -> bool:
    timed_out = (data.from_, data.to) == ("queued", "escalated")
    by_inventory = data.rule == INVENTORY_RULE or data.cause.code == INSTANCE_ADDED
    from_outside = by_inventory or data.resolution not in {None, Resolution.RECOVERED}
    return ((data.from_, data.to) in _DECIDED or timed_out) and not from_outside


def _of_case(data: CaseStatusData, at: datetime) -> str:
    if data.to is not CaseStatus.OPEN:
        return {"queued": "queue", "resolved": "close", "escalated": "escalate"}[data.to]
    wait = (data.not_before - at).total_seconds() if data.not_before else 0
    after = f" after {wait:.0f} s" if wait else ""
    return f"open {data.repair_action} for {data.cause.code}{after}"


def _text(decisions: Iterable[str]) -> str:
    return ", ".join(decisions) or NOTHING


def _case_id(commit: Commit) -> str | None:
    return next((one.metadata.case_id for one in commit.events if one.metadata.case_id), None)


def _with_recorded_id(state: NodeState, commit: Commit) -> NodeState:
    """Replace the id of a new case by its recorded id, because later entries name the case by this id."""
    opened = [one for one in commit.of_type(CaseStatusData) if one.data.from_ is None]
    if not opened or state.case is None:
        return state
    return replace(state, case=replace(state.case, id=opened[0].metadata.case_id))


def _isolation_requested(state: NodeState) -> NodeState:
    case = state.live_case
    needed = case is not None and case.isolate and state.isolation is Isolation.NONE
    return replace(state, isolation=Isolation.REQUESTED) if needed else state


MAX_PAUSE = timedelta(hours=6)
"""The longest pause before a refused attempt of a simulated case is tried again; the pauses double."""

_BY_REPAIR = frozenset({Actor.STEP, Actor.CLOSE})


@dataclass(slots=True)
class Counterfactual:
    """Simulates the cases of diverged nodes, for which the tested policy decides differently.

    A simulated repair takes as long as the recorded one of the case and action, or else the typical duration, or no
    time.
    """

    in_step: InStep
    typical: Durations
    result: Replayed

    def leave(self, track: Track, at: datetime) -> None:
        """Mark a node as diverged at the time `at`, and simulate the first step of its live case, if any."""
        track.diverged, track.attempt_ends, track.retry_at = True, None, None
        case = track.state.live_case
        if case is None and track.trail is not None:
            # A repair is recorded, but the tested policy does nothing.
            trail = track.trail
            idle = Course(track.state.key.node, trail.code, trail.opened_at, trail.gpus, trail, ended_at=at, end="none")
            self.result.courses.append(idle)
        self.settle(track, at)

    def observe(self, track: Track, commit: Commit) -> None:
        """Apply the changes of conditions that no recorded repair caused, and continue the simulated case."""
        repairing = track.trail is not None and track.trail.attempts and commit.actor in _BY_REPAIR
        changes, conditions = self.in_step.reader.changes(track.state, commit)
        if repairing or not changes:
            return
        state = replace(track.state, conditions=conditions)
        track.state = decide(state, changes, self.in_step.cluster.rules, commit.at).state
        self.settle(track, commit.at)

    def next_timer(self, track: Track) -> datetime | None:
        """Return when the simulated case needs its next step, or None if that is not known."""
        case = track.state.live_case
        if case is None or case.status is CaseStatus.ESCALATED:
            return None
        if case.status is CaseStatus.OPEN:
            return case.not_before
        answer_by = case.pending_approval.answer_by if case.pending_approval else None
        return track.attempt_ends or earliest(answer_by, track.retry_at)

    def settle(self, track: Track, at: datetime) -> None:
        """Advance the simulated case of a diverged node by one step; without one, its course ends."""
        case = track.state.live_case
        if case is None:
            self._end(track, at)
            return
        self._begin(track, case, at)
        if case.status is CaseStatus.OPEN:
            rules = self.in_step.cluster.rules
            track.state = expire_approval(decide(track.state, (), rules, at), at).state
            case = track.state.live_case
        if case is not None and case.status is CaseStatus.IN_PROGRESS and track.attempt_ends is None:
            # The attempt had started before the policies differed.
            self._start(track, case, case.repair_action, at, again=False)
        elif case is not None and case.status is CaseStatus.IN_PROGRESS and (track.attempt_ends or at) <= at:
            self._finish(track, case, at)
        elif case is not None and case.status is CaseStatus.QUEUED:
            self._admit(track, case, at)
        if track.state.live_case is None:
            self._end(track, at)

    def _begin(self, track: Track, case: Case, at: datetime) -> None:
        if track.course is None:
            gpus = case.gpus or (track.trail.gpus if track.trail else None)
            track.course = Course(track.state.key.node, case.code, case.opened_at, gpus, track.trail)
            self.result.courses.append(track.course)
        if case.isolate and track.state.status is not None and track.state.status.in_service:
            track.state = replace(track.state, status=NodeStatus.QUARANTINED, isolation=Isolation.CONFIRMED)
        self._leaves_service(track, at)

    def _leaves_service(self, track: Track, at: datetime) -> None:
        """Record when the node of a simulated case is first out of service."""
        course, status = track.course, track.state.status
        if course is None or course.out_since is not None or status is None or status.in_service:
            return
        recorded = track.trail.out_since if track.trail else None
        course.out_since = min(recorded, at) if recorded else at

    def _admit(self, track: Track, case: Case, at: datetime) -> None:
        state = expire_approval(Transition(track.state), at).state
        if state.live_case is None or state.live_case.status is not CaseStatus.QUEUED:
            track.state = state
            return
        action, reason = self.in_step.admission(track, case, at)
        if action is None:
            track.state = replace(state, case=replace(case, status=CaseStatus.ESCALATED))
        elif not reason:
            self._start(track, case, action, at)
        else:
            rule = self.in_step.cluster.rules.policy.rule_named(case.rule)
            if (
                action in rule.approval
                and case.pending_approval is None
                and not case.approves(action, case.attempts + 1)
            ):
                track.state = with_request(state, action, at, at + rule.approval_deadline)
                self.result.add_gap("an approval was never requested in the record: no answer is assumed")
            track.retry_at, track.retry_pause = at + track.retry_pause, min(track.retry_pause * 2, MAX_PAUSE)

    def _start(self, track: Track, case: Case, action: RepairAction, at: datetime, *, again: bool = True) -> None:
        recorded = track.trail.attempt_with(action) if track.trail else None
        if recorded is not None and recorded.ended_at is not None:
            duration = recorded.ended_at - recorded.admitted_at
        else:
            duration = self.typical.get(action, timedelta(0))
            known = "its typical duration" if action in self.typical else "no duration"
            self.result.add_gap(f"no {action.value} of this case is recorded: {known} and success are assumed")
        if again:
            case = replace(case, status=CaseStatus.IN_PROGRESS, repair_action=action, attempts=case.attempts + 1)
            self.in_step.cluster.take_slot(case, action, at)
        if track.course is not None:
            track.course.actions.append(action)
        track.state = replace(track.state, case=case, status=NodeStatus.REPAIRING)
        self._leaves_service(track, at)
        track.attempt_ends, track.retry_pause = at + duration, FIRST_PAUSE

    def _finish(self, track: Track, case: Case, at: datetime) -> None:
        """End a simulated attempt: like the recorded attempt of the same action, or else it succeeds."""
        self.in_step.cluster.free_slot(case.id)
        track.attempt_ends = None
        recorded = track.trail.attempt_with(case.repair_action) if track.trail else None
        if recorded is None or recorded.repaired:
            resolution = Resolution.RECOVERED if case.repair_action is RepairAction.VERIFY else Resolution.REPAIRED
            done = replace(case, status=CaseStatus.RESOLVED, resolution=resolution, closed_at=at)
            state = replace(track.state, conditions={}, status=NodeStatus.HEALTHY, isolation=Isolation.NONE, case=done)
            family = self.in_step.reader.catalog.row(case.code).family
            track.state = start_probation(state, done, family, self.in_step.cluster.rules.policy.limits, at)
            return
        action = self.in_step.next_action(case)
        status = CaseStatus.QUEUED if action else CaseStatus.ESCALATED
        again = replace(
            case, status=status, repair_action=action or case.repair_action, waiting_for=WaitingFor.ADMISSION
        )
        track.state = replace(track.state, case=again, status=NodeStatus.QUARANTINED)
        track.retry_at = at

    def _end(self, track: Track, at: datetime) -> None:
        case, course = track.state.case, track.course
        if course is not None and case is not None:
            course.ended_at, course.end = at, case.resolution.value if case.resolution else "closed"
        track.course = None

    def rejoin(self, track: Track, at: datetime) -> None:
        """Make a diverged node follow its recorded entries again, if its recorded case is closed.

        This also requires that the simulated case is closed or escalated. An escalated case is ended here and counted
        as a gap, because the record does not contain when an operator would have closed it.
        """
        case = track.state.live_case
        if not track.diverged or (track.trail is not None and track.trail.closed_at is None):
            return
        if track.trail is not None and track.trail.closed_at is not None and track.trail.closed_at > at:
            return
        if case is not None and case.status is not CaseStatus.ESCALATED:
            return
        if case is not None and track.course is not None:
            track.course.ended_at, track.course.end = at, "by_operator"
            self.result.add_gap(
                "the time of an operator is not recorded for a case that only the other policy escalates"
            )
        probations = track.state.probations or track.recorded.probations
        track.state = replace(track.recorded, probations=probations)
        track.diverged, track.course = False, None


def timers(tracks: Iterable[Track], of: Counterfactual) -> list[tuple[datetime, Track]]:
    """Return the times of the next steps of the simulated cases, with their nodes, in order."""
    found = ((of.next_timer(one), one) for one in tracks if one.diverged)
    return sorted(((at, one) for at, one in found if at is not None), key=lambda pair: pair[0])
