"""Isolate: keep new work off a node at once, whatever its repair waits for.

`requested` is committed before the call, so that a crash in between leaves a trace that is followed up; a node that
recovers in between is let go again. Only a confirmed isolation makes a node `quarantined`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial

from faultbridge.domain.breakers import BreakerState
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.catalog import Catalog
from faultbridge.domain.clusters import ClusterConfig, Control, Mode
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.nodes import Isolation, NodeKey, NodeState
from faultbridge.errors import Misconfigured
from faultbridge.ledger.append import Append
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.pipeline.decide.opt_out import left_alone_until
from faultbridge.pipeline.decide.orchestrator_reach import proceeds
from faultbridge.pipeline.fold.folding import Folding
from faultbridge.ports import CallResult, ClusterNode, Orchestrator
from faultbridge.repair.controls import Controls
from faultbridge.repair.isolation_backoff import MINUTE, OVERDUE, in_time_again, is_overdue, note, overdue, postponed
from faultbridge.rules.rulebook import Rulebook, rules_of

ISOLATES = {
    Isolation.CONFIRMED: "isolation confirmed",
    Isolation.NOT_APPLICABLE: "isolation not applicable: the cluster has no orchestrator",
}

FOLLOWED = "isolation not applicable: the provider repairs, and keeps work off what it repairs"


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
        return self._as_read(state, rules_of(self.rulebook, key.cluster), ordered=ordered)

    def each(
        self, cluster: str, nodes: Sequence[str], control: Control | None = None
    ) -> Mapping[str, Callable[[], Isolated]]:
        """Read nodes of a cluster with few calls; returns what isolates each of them, by its name.

        `control` is what bounds repairs as just read; a breaker that is open there is not looked at again.
        """
        if not nodes:
            return {}
        rules = rules_of(self.rulebook, cluster)
        states = self.append.read_many(NodeKey(cluster, node) for node in nodes)
        return {state.key.node: partial(self._first_look, state, rules, control) for state in states}

    def _first_look(self, state: NodeState, rules: Rules, control: Control | None) -> Isolated:
        if state.isolation is Isolation.REQUESTED:
            # An orchestrator may be asked next, and no condition of the table guards that call.
            state = self.append.read(state.key)
        return self._as_read(state, rules, control)

    def _as_read(
        self, state: NodeState, rules: Rules, control: Control | None = None, *, ordered: bool = False
    ) -> Isolated:
        config = rules.config
        ours = state.registered and left_alone_until(state, config, self.append.clock.now()) is None
        if ours and config.follows:
            return self._follow(state, config, ordered=ordered)
        if not ours or config.mode is not Mode.ACT or not config.acts:
            return Isolated.NOTHING
        orchestrator = self._orchestrator(config)
        if _wanted(state, ordered=ordered):
            if self._held(state, control, ordered=ordered):
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

    def _held(self, state: NodeState, control: Control | None, *, ordered: bool) -> bool:
        if control is not None and _holds(control, state, ordered=ordered):
            return True
        return _holds(self.controls.read(state.key.cluster), state, ordered=ordered)

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
        answer = orchestrator.cordon(ClusterNode.of(state, config))
        if answer.ok:
            return self._confirm(state, config, Isolation.CONFIRMED, ISOLATES[Isolation.CONFIRMED], ordered=ordered)
        return self._proceed(self._note_failure(state, rules, answer), rules, ordered=ordered)

    def _proceed(self, state: NodeState, rules: Rules, *, ordered: bool) -> Isolated:
        """Call a machine that is proven dead out of service, where the policy says so; the drain asks again."""
        if proceeds(state, rules.policy, self.append.clock.now()) is None:
            return Isolated.FAILED

        def revise(now: NodeState, at: datetime) -> Transition:
            dead = proceeds(now, rules.policy, at)
            if dead is None or not _wanted(now, ordered=ordered):
                return Transition(now)
            return _quarantined(now, at, f"isolation not confirmed: {dead}")

        after = self.append(state.key, revise, actor=Actor.ISOLATE, config=rules.config, current=state).state
        return Isolated.DONE if after.status is NodeStatus.QUARANTINED else Isolated.FAILED

    def _request(self, state: NodeState, config: ClusterConfig, *, ordered: bool) -> NodeState:
        def revise(now: NodeState, at: datetime) -> Transition:
            wanted = _wanted(now, ordered=ordered) and now.isolation is Isolation.NONE
            asked = replace(now, isolation=Isolation.REQUESTED, isolation_since=at, orchestrator_lost_at=None)
            return Transition(asked if wanted else now)

        return self.append(state.key, revise, actor=Actor.ISOLATE, config=config, current=state).state

    def _confirm(
        self, state: NodeState, config: ClusterConfig, how: Isolation, reason: str, *, ordered: bool
    ) -> Isolated:
        def revise(now: NodeState, at: datetime) -> Transition:
            # Recovered meanwhile: what was asked for stays on the record until it is withdrawn.
            if not _wanted(now, ordered=ordered):
                return Transition(now)
            isolated, over = in_time_again(replace(now, isolation=how), at)
            return _quarantined(isolated, at, reason, *over)

        after = self.append(state.key, revise, actor=Actor.ISOLATE, config=config, current=state).state
        return Isolated.DONE if after.status is NodeStatus.QUARANTINED else Isolated.NOTHING

    def _withdraw(self, state: NodeState, rules: Rules, orchestrator: Orchestrator) -> Isolated:
        answer = orchestrator.uncordon(ClusterNode.of(state, rules.config))
        if not answer.ok:
            self._note_failure(state, rules, answer)
            return Isolated.FAILED

        def revise(now: NodeState, at: datetime) -> Transition:
            if now.isolation is not Isolation.REQUESTED or _wanted(now, ordered=False):
                return Transition(now)
            draft = note(now, "isolation withdrawn: nothing is wrong any more", at)
            # Only a tick may call a node healthy; it is due at once.
            free, over = in_time_again(replace(now, isolation=Isolation.NONE, due_at=at), at)
            return Transition(free, (draft, *over))

        self.append(state.key, revise, actor=Actor.ISOLATE, config=rules.config)
        return Isolated.WITHDRAWN

    def _note_failure(self, state: NodeState, rules: Rules, answer: CallResult) -> NodeState:
        failure = answer.failure.value if answer.failure else ""

        def revise(before: NodeState, at: datetime) -> Transition:
            lost_at = (before.orchestrator_lost_at or at) if answer.no_response else None
            now = postponed(replace(before, orchestrator_lost_at=lost_at), at, rules.policy.limits)
            if is_overdue(now, at):
                text = f"the orchestrator has not done it for {OVERDUE // MINUTE} minutes: {answer.reason or failure}"
                return overdue(now, at, text, failure)
            folding = Folding(now, Catalog(""))
            if not folding.first_of_the_day(f"isolation:{failure}", at):
                return Transition(now)
            text = f"the orchestrator did not do it and is asked again: {answer.reason or failure}"
            return Transition(folding.state(), (note(now, text, at, failure),))

        return self.append(state.key, revise, actor=Actor.ISOLATE, config=rules.config).state

    def _orchestrator(self, config: ClusterConfig) -> Orchestrator:
        found = self.orchestrators.get(config.orchestrator)
        if found is None:
            raise Misconfigured(f"{config.cluster} names orchestrator {config.orchestrator!r}, which is unknown")
        return found


def _quarantined(state: NodeState, at: datetime, reason: str, *drafts: Draft) -> Transition:
    draft = entry_builder.status_change(state, NodeStatus.QUARANTINED, at, reason)
    return Transition(replace(state, status=NodeStatus.QUARANTINED), (*drafts, draft))


def _holds(control: Control, state: NodeState, *, ordered: bool) -> bool:
    breaker = control.breaker(state.placement.domain)
    return breaker is not None and (breaker.state is BreakerState.OPEN or not ordered)


def _in_service(state: NodeState) -> bool:
    return state.status is not None and state.status.in_service


def _wanted(state: NodeState, *, ordered: bool) -> bool:
    case = state.live_case
    troubled = any(condition.action.opens_case for condition in state.active())
    return case is not None and (case.isolate or ordered) and _in_service(state) and troubled
