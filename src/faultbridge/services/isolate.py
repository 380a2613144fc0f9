"""Isolate: keep new work off a node at once, whatever its repair waits for.

`requested` is committed before the call, so that a crash in between leaves a trace that is followed up; a node that
recovers in between is let go again. Only a confirmed isolation makes a node `quarantined`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from faultbridge.domain.breakers import BreakerState
from faultbridge.domain.catalogue import Catalogue
from faultbridge.domain.clusters import ClusterConfig, Mode
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.nodes import Isolation, NodeKey, NodeState
from faultbridge.domain.policy import Limits
from faultbridge.errors import Misconfigured
from faultbridge.ports import Answer, Member, Orchestrator
from faultbridge.services.append import Append, Revision
from faultbridge.services.controls import Controls
from faultbridge.services.rulebook import Rulebook
from faultbridge.services.rules_of import rules_of
from faultbridge.stages import narrate
from faultbridge.stages.decide import Rules
from faultbridge.stages.folding import Folding
from faultbridge.stages.leave_alone import left_alone_until
from faultbridge.stages.out_of_reach import proceeds

ISOLATES = {
    Isolation.CONFIRMED: "isolation confirmed",
    Isolation.NOT_APPLICABLE: "isolation not applicable: the cluster has no orchestrator",
}

FOLLOWED = "isolation not applicable: the provider repairs, and keeps work off what it repairs"

MINUTE = timedelta(minutes=1)
OVERDUE = 5 * MINUTE
"""How long the orchestrator may refuse before a person is told."""

FIRST_PAUSE, LONGEST_PAUSE = MINUTE / 2, 5 * MINUTE
"""Between two calls to an orchestrator that does not do it; the pause doubles."""


class Isolated(StrEnum):
    """What came of one call."""

    NOTHING = "nothing"
    DONE = "done"
    WITHDRAWN = "withdrawn"
    FAILED = "failed"
    HELD = "held"
    POSTPONED = "postponed"


@dataclass(frozen=True, slots=True)
class Isolate:
    """Isolates nodes whose case wants it, through the orchestrator that their cluster names."""

    append: Append
    rulebook: Rulebook
    orchestrators: Mapping[str, Orchestrator]
    controls: Controls

    def __call__(self, key: NodeKey, *, ordered: bool = False) -> Isolated:
        """Isolate one node, or let it go where the reason is gone; a failed call is for the sweep to repeat.

        `ordered` isolates although the policy leaves the node alone until its repair begins. A breaker that is open
        keeps every node in service, a half open one all but those whose repair begins; nothing else does.
        """
        state = self.append.read(key)
        rules = rules_of(self.rulebook, key.cluster)
        config = rules.config
        ours = state.registered and left_alone_until(state, config, self.append.clock.now()) is None
        if ours and config.follows:
            return self._follow(state, config, ordered=ordered)
        if not ours or config.mode is not Mode.ACT or not config.acts:
            return Isolated.NOTHING
        orchestrator = self._orchestrator(config)
        if _wanted(state, ordered=ordered):
            if self._held(state, ordered=ordered):
                return Isolated.HELD
            return self._isolate(state, rules, orchestrator, ordered=ordered)
        if state.isolation is Isolation.REQUESTED and _in_service(state):
            return self._withdraw(state, rules, orchestrator)
        return Isolated.NOTHING

    def _follow(self, state: NodeState, config: ClusterConfig, *, ordered: bool) -> Isolated:
        """Call a node out of service that the provider has: whoever repairs it keeps work off it too."""
        if not _wanted(state, ordered=ordered):
            return Isolated.NOTHING
        return self._confirm(state, config, Isolation.NOT_APPLICABLE, FOLLOWED, ordered=ordered)

    def _held(self, state: NodeState, *, ordered: bool) -> bool:
        breaker = self.controls.read(state.key.cluster).breaker(state.seat.domain)
        return breaker is not None and (breaker.state is BreakerState.OPEN or not ordered)

    def _isolate(self, state: NodeState, rules: Rules, orchestrator: Orchestrator, *, ordered: bool) -> Isolated:
        config = rules.config
        if not orchestrator.applicable:
            how = Isolation.NOT_APPLICABLE
            return self._confirm(state, config, how, ISOLATES[how], ordered=ordered)
        if state.isolation is Isolation.NONE:
            state = self._request(state, config, ordered=ordered)
            if state.isolation is not Isolation.REQUESTED:
                return Isolated.NOTHING
        if state.isolation_again_at is not None and self.append.clock.now() < state.isolation_again_at:
            return Isolated.POSTPONED
        answer = orchestrator.cordon(Member.of(state, config))
        if answer.ok:
            return self._confirm(state, config, Isolation.CONFIRMED, ISOLATES[Isolation.CONFIRMED], ordered=ordered)
        return self._proceed(self._note_failure(state, rules, answer), rules, ordered=ordered)

    def _proceed(self, state: NodeState, rules: Rules, *, ordered: bool) -> Isolated:
        """Call a machine that is proven dead out of service, where the policy says so; the drain asks again."""
        if proceeds(state, rules.policy, self.append.clock.now()) is None:
            return Isolated.FAILED

        def revise(now: NodeState, at: datetime) -> Revision:
            dead = proceeds(now, rules.policy, at)
            if dead is None or not _wanted(now, ordered=ordered):
                return Revision(now)
            return _quarantined(now, at, f"isolation not confirmed: {dead}")

        after = self.append(state.key, revise, actor=Actor.ISOLATE, config=rules.config, known=state).state
        return Isolated.DONE if after.status is NodeStatus.QUARANTINED else Isolated.FAILED

    def _request(self, state: NodeState, config: ClusterConfig, *, ordered: bool) -> NodeState:
        def revise(now: NodeState, at: datetime) -> Revision:
            wanted = _wanted(now, ordered=ordered) and now.isolation is Isolation.NONE
            return Revision(replace(now, isolation=Isolation.REQUESTED, isolation_since=at) if wanted else now)

        return self.append(state.key, revise, actor=Actor.ISOLATE, config=config, known=state).state

    def _confirm(
        self, state: NodeState, config: ClusterConfig, how: Isolation, reason: str, *, ordered: bool
    ) -> Isolated:
        def revise(now: NodeState, at: datetime) -> Revision:
            # Recovered meanwhile: what was asked for stays on the record until it is withdrawn.
            if not _wanted(now, ordered=ordered):
                return Revision(now)
            isolated, over = in_time_again(replace(now, isolation=how), at)
            return _quarantined(isolated, at, reason, *over)

        after = self.append(state.key, revise, actor=Actor.ISOLATE, config=config).state
        return Isolated.DONE if after.status is NodeStatus.QUARANTINED else Isolated.NOTHING

    def _withdraw(self, state: NodeState, rules: Rules, orchestrator: Orchestrator) -> Isolated:
        answer = orchestrator.uncordon(Member.of(state, rules.config))
        if not answer.ok:
            self._note_failure(state, rules, answer)
            return Isolated.FAILED

        def revise(now: NodeState, at: datetime) -> Revision:
            if now.isolation is not Isolation.REQUESTED or _wanted(now, ordered=False):
                return Revision(now)
            draft = _note(now, "isolation withdrawn: nothing is wrong any more", at)
            # Only a tick may call a node healthy; it is due at once.
            free, over = in_time_again(replace(now, isolation=Isolation.NONE, due_at=at), at)
            return Revision(free, (draft, *over))

        self.append(state.key, revise, actor=Actor.ISOLATE, config=rules.config)
        return Isolated.WITHDRAWN

    def _note_failure(self, state: NodeState, rules: Rules, answer: Answer) -> NodeState:
        failure = answer.failure.value if answer.failure else ""

        def revise(before: NodeState, at: datetime) -> Revision:
            lost_at = (before.orchestrator_lost_at or at) if answer.unanswered else None
            now = _postponed(replace(before, orchestrator_lost_at=lost_at), at, rules.policy.limits)
            if _is_overdue(now, at):
                text = f"the orchestrator has not done it for {OVERDUE // MINUTE} minutes: {answer.reason or failure}"
                return overdue(now, at, text, failure)
            folding = Folding(now, Catalogue(""))
            if not folding.first_of_the_day(f"isolation:{failure}", at):
                return Revision(now)
            text = f"the orchestrator did not do it and is asked again: {answer.reason or failure}"
            return Revision(folding.state(), (_note(now, text, at, failure),))

        return self.append(state.key, revise, actor=Actor.ISOLATE, config=rules.config).state

    def _orchestrator(self, config: ClusterConfig) -> Orchestrator:
        found = self.orchestrators.get(config.orchestrator)
        if found is None:
            raise Misconfigured(f"{config.cluster} names orchestrator {config.orchestrator!r}, which is unknown")
        return found


def _quarantined(state: NodeState, at: datetime, reason: str, *drafts: Draft) -> Revision:
    draft = narrate.status_change(state, NodeStatus.QUARANTINED, at, reason)
    return Revision(replace(state, status=NodeStatus.QUARANTINED), (*drafts, draft))


def _in_service(state: NodeState) -> bool:
    return state.status is not None and state.status.in_service


def _wanted(state: NodeState, *, ordered: bool) -> bool:
    case = state.live_case
    troubled = any(condition.action.opens_case for condition in state.active())
    return case is not None and (case.isolate or ordered) and _in_service(state) and troubled


def _is_overdue(state: NodeState, at: datetime) -> bool:
    since = state.isolation_since
    return since is not None and not state.isolation_overdue and at - since >= OVERDUE


def _postponed(state: NodeState, at: datetime, limits: Limits) -> NodeState:
    """Let the next call wait, twice as long each time, but not beyond what happens when the time is over."""
    again = at + min(FIRST_PAUSE * (1 << min(state.isolation_tries, 8)), LONGEST_PAUSE)
    since = state.isolation_since
    if since is not None and not state.isolation_overdue and at - since < OVERDUE:
        again = min(again, since + OVERDUE)
    lost_at = state.orchestrator_lost_at
    if lost_at is not None and at < lost_at + limits.orchestrator_patience:
        again = min(again, lost_at + limits.orchestrator_patience)
    return replace(state, isolation_tries=state.isolation_tries + 1, isolation_again_at=again)


def overdue(state: NodeState, at: datetime, text: str, failure: str = "TIMEOUT") -> Revision:
    """Tell a person that the orchestrator has not done what it was asked for too long."""
    return Revision(replace(state, isolation_overdue=True), (_note(state, text, at, failure, stage="overdue"),))


def in_time_again(state: NodeState, at: datetime) -> tuple[NodeState, tuple[Draft, ...]]:
    """Forget since when isolation was asked for, and end the page of one that took too long."""
    settled = replace(
        state,
        isolation_since=None,
        isolation_overdue=False,
        isolation_tries=0,
        isolation_again_at=None,
        orchestrator_lost_at=None,
    )
    if not state.isolation_overdue:
        return settled, ()
    return settled, (_note(state, "the orchestrator answers again", at, stage="over"),)


def _note(state: NodeState, text: str, at: datetime, failure: str = "", stage: str | None = None) -> Draft:
    case = state.live_case
    facts = {"failure": failure} if failure else {}
    case_id = case.id if case else None
    return narrate.note(kind="isolation", text=text, at=at, case_id=case_id, facts=facts, stage=stage)
