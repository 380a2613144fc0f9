"""Isolate: keep new work off a node at once, whatever its repair waits for.

`requested` is committed before the call, so that a crash in between leaves a trace that is followed up; a node that
recovers in between is let go again. Only a confirmed isolation makes a node `quarantined`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from faultbridge.domain.catalogue import Catalogue
from faultbridge.domain.clusters import ClusterConfig, Mode
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.nodes import Isolation, NodeKey, NodeState
from faultbridge.errors import Misconfigured
from faultbridge.ports import Answer, Orchestrator
from faultbridge.services.append import Append, Revision
from faultbridge.services.rulebook import Rulebook
from faultbridge.services.rules_of import rules_of
from faultbridge.stages import narrate
from faultbridge.stages.folding import Folding

ISOLATES = {
    Isolation.CONFIRMED: "isolation confirmed",
    Isolation.NOT_APPLICABLE: "isolation not applicable: the cluster has no orchestrator",
}


class Isolated(StrEnum):
    """What came of one call."""

    NOTHING = "nothing"
    DONE = "done"
    WITHDRAWN = "withdrawn"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Isolate:
    """Isolates nodes whose case wants it, through the orchestrator that their cluster names."""

    append: Append
    rulebook: Rulebook
    orchestrators: Mapping[str, Orchestrator]

    def __call__(self, key: NodeKey, *, ordered: bool = False) -> Isolated:
        """Isolate one node, or let it go where the reason is gone; a failed call is for the sweep to repeat.

        `ordered` isolates although the policy leaves the node alone until its repair begins.
        """
        state = self.append.read(key)
        if not state.registered:
            return Isolated.NOTHING
        config = rules_of(self.rulebook, key.cluster).config
        if config.mode is not Mode.ACT or not config.acts:
            return Isolated.NOTHING
        orchestrator = self._orchestrator(config)
        if _wanted(state, ordered=ordered):
            return self._isolate(state, config, orchestrator, ordered=ordered)
        if state.isolation is Isolation.REQUESTED and _in_service(state):
            return self._withdraw(state, config, orchestrator)
        return Isolated.NOTHING

    def _isolate(
        self, state: NodeState, config: ClusterConfig, orchestrator: Orchestrator, *, ordered: bool
    ) -> Isolated:
        if not orchestrator.applicable:
            return self._confirm(state, config, Isolation.NOT_APPLICABLE, ordered=ordered)
        if state.isolation is Isolation.NONE:
            state = self._request(state, config, ordered=ordered)
            if state.isolation is not Isolation.REQUESTED:
                return Isolated.NOTHING
        answer = orchestrator.cordon(state.key.node)
        if not answer.ok:
            self._note_failure(state, config, answer)
            return Isolated.FAILED
        return self._confirm(state, config, Isolation.CONFIRMED, ordered=ordered)

    def _request(self, state: NodeState, config: ClusterConfig, *, ordered: bool) -> NodeState:
        def revise(now: NodeState, _: datetime) -> Revision:
            wanted = _wanted(now, ordered=ordered) and now.isolation is Isolation.NONE
            return Revision(replace(now, isolation=Isolation.REQUESTED) if wanted else now)

        return self.append(state.key, revise, actor=Actor.ISOLATE, config=config, known=state).state

    def _confirm(self, state: NodeState, config: ClusterConfig, how: Isolation, *, ordered: bool) -> Isolated:
        def revise(now: NodeState, at: datetime) -> Revision:
            # Recovered meanwhile: what was asked for stays on the record until it is withdrawn.
            if not _wanted(now, ordered=ordered):
                return Revision(now)
            isolated = replace(now, isolation=how)
            draft = narrate.status_change(isolated, NodeStatus.QUARANTINED, at, ISOLATES[how])
            return Revision(replace(isolated, status=NodeStatus.QUARANTINED), (draft,))

        after = self.append(state.key, revise, actor=Actor.ISOLATE, config=config).state
        return Isolated.DONE if after.status is NodeStatus.QUARANTINED else Isolated.NOTHING

    def _withdraw(self, state: NodeState, config: ClusterConfig, orchestrator: Orchestrator) -> Isolated:
        answer = orchestrator.uncordon(state.key.node)
        if not answer.ok:
            self._note_failure(state, config, answer)
            return Isolated.FAILED

        def revise(now: NodeState, at: datetime) -> Revision:
            if now.isolation is not Isolation.REQUESTED or _wanted(now, ordered=False):
                return Revision(now)
            draft = _note(now, "isolation withdrawn: nothing is wrong any more", at)
            # Only a tick may call a node healthy; it is due at once.
            return Revision(replace(now, isolation=Isolation.NONE, due_at=at), (draft,))

        self.append(state.key, revise, actor=Actor.ISOLATE, config=config)
        return Isolated.WITHDRAWN

    def _note_failure(self, state: NodeState, config: ClusterConfig, answer: Answer) -> None:
        failure = answer.failure.value if answer.failure else ""

        def revise(now: NodeState, at: datetime) -> Revision:
            folding = Folding(now, Catalogue(""))
            if not folding.first_of_the_day(f"isolation:{failure}", at):
                return Revision(now)
            text = f"the orchestrator did not do it and is asked again: {answer.reason or failure}"
            return Revision(folding.state(), (_note(now, text, at, failure),))

        self.append(state.key, revise, actor=Actor.ISOLATE, config=config)

    def _orchestrator(self, config: ClusterConfig) -> Orchestrator:
        found = self.orchestrators.get(config.orchestrator)
        if found is None:
            raise Misconfigured(f"{config.cluster} names orchestrator {config.orchestrator!r}, which is unknown")
        return found


def _in_service(state: NodeState) -> bool:
    return state.status is not None and state.status.in_service


def _wanted(state: NodeState, *, ordered: bool) -> bool:
    case = state.live_case
    troubled = any(condition.action.opens_case for condition in state.active())
    return case is not None and (case.isolate or ordered) and _in_service(state) and troubled


def _note(state: NodeState, text: str, at: datetime, failure: str = "") -> Draft:
    case = state.live_case
    facts = {"failure": failure} if failure else {}
    return narrate.note(kind="isolation", text=text, at=at, case_id=case.id if case else None, facts=facts)
