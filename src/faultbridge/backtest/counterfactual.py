"""Counterfactual: simulates a case after the tested policy has decided differently from the record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from faultbridge.backtest.course import FIRST_PAUSE, Course, Durations, Replayed, Track
from faultbridge.backtest.in_step import InStep
from faultbridge.backtest.record import Commit
from faultbridge.backtest.recorded_case import with_request
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Case, RepairAction, Resolution, WaitingFor
from faultbridge.domain.edges import Actor, CaseStatus, NodeStatus
from faultbridge.domain.nodes import Isolation, NodeState
from faultbridge.domain.times import earliest
from faultbridge.pipeline.decide.approval_timeout import expire_approval
from faultbridge.pipeline.decide.decide import decide
from faultbridge.pipeline.decide.relapse import start_probation

MAX_PAUSE = timedelta(hours=6)
"""The longest pause before a refused attempt of a simulated case is tried again; the pauses double."""

_BY_REPAIR = frozenset({Actor.STEP, Actor.CLOSE})


@dataclass(slots=True)
class Counterfactual:
    """Simulates the cases of nodes for which the tested policy decides differently from the record.

    Such a node has diverged: its recorded repairs no longer apply. A simulated repair takes as long as the recorded
    repair of the same case with the same action. Without such a recorded repair, it takes the typical duration of the
    action, or no time if this duration is unknown.
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
        """Apply the recorded changes of conditions in a commit to a diverged node.

        If there are changes, the simulated case of the node then continues. Changes that a recorded repair of the node
        caused are ignored, because the simulation does not have this repair.
        """
        repairing = track.trail is not None and track.trail.attempts and commit.actor in _BY_REPAIR
        changes, conditions = self.in_step.reader.changes(track.state, commit)
        if repairing or not changes:
            return
        state = replace(track.state, conditions=conditions)
        track.state = decide(state, changes, self.in_step.cluster.rules, commit.at).state
        self.settle(track, commit.at)

    def next_timer(self, track: Track) -> datetime | None:
        """Return when the simulated case of a diverged node needs its next step (`settle`).

        The result is None if the node has no live case, or if no time of a next step is known, such as for an escalated
        case.
        """
        case = track.state.live_case
        if case is None or case.status is CaseStatus.ESCALATED:
            return None
        if case.status is CaseStatus.OPEN:
            return case.not_before
        answer_by = case.pending_approval.answer_by if case.pending_approval else None
        return track.attempt_ends or earliest(answer_by, track.retry_at)

    def settle(self, track: Track, at: datetime) -> None:
        """Advance the simulated case of a diverged node by one step.

        A step can decide about the case, and start or finish an attempt. Without a live case, the simulated course
        ends. `next_timer` returns the time of the next step.
        """
        case = track.state.live_case
        if case is None:
            self._end(track, at)
            return
        self._begin(track, case)
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

    def _begin(self, track: Track, case: Case) -> None:
        if track.course is None:
            gpus = case.gpus or (track.trail.gpus if track.trail else None)
            track.course = Course(track.state.key.node, case.code, case.opened_at, gpus, track.trail)
            self.result.courses.append(track.course)
        if case.isolate and track.state.status is not None and track.state.status.in_service:
            track.state = replace(track.state, status=NodeStatus.QUARANTINED, isolation=Isolation.CONFIRMED)

    def _admit(self, track: Track, case: Case, at: datetime) -> None:
        state = expire_approval_of(track.state, at)
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
        track.attempt_ends, track.retry_pause = at + duration, FIRST_PAUSE

    def _finish(self, track: Track, case: Case, at: datetime) -> None:
        """End a simulated attempt: resolve the case, queue the next repair action, or escalate the case.

        The attempt succeeds if the first finished recorded attempt of the case with the same action resolved the case,
        or if there is no such attempt.
        """
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


def expire_approval_of(state: NodeState, at: datetime) -> NodeState:
    """Return a node's state after a check of the approval deadline of its live case.

    If the deadline has passed without an answer, the case is escalated. Otherwise the state is unchanged.
    """
    return expire_approval(Transition(state), at).state


def timers(tracks: Iterable[Track], of: Counterfactual) -> list[tuple[datetime, Track]]:
    """Return the time of the next step of each simulated case, with its node, in order of time.

    Diverged nodes without a known next step are left out.
    """
    found = ((of.next_timer(one), one) for one in tracks if one.diverged)
    return sorted(((at, one) for at, one in found if at is not None), key=lambda pair: pair[0])
