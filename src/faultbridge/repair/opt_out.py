"""Ignore: a person keeps a node for himself, and gives it back. What happens meanwhile is recorded all the same."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.edges import Actor
from faultbridge.domain.nodes import Ignored, NodeKey, NodeState
from faultbridge.errors import Rejected
from faultbridge.ledger.append import Append, Revise
from faultbridge.pipeline.decide.opt_out import heeding, ignoring
from faultbridge.repair.case_orders import CaseOrder
from faultbridge.rules.rulebook import Rulebook, rules_of


@dataclass(frozen=True, slots=True)
class OptOut:
    """Lets nodes be left alone: no case is opened for one, it is not isolated, and no repair of it begins."""

    append: Append
    rulebook: Rulebook

    def __call__(self, key: NodeKey, order: CaseOrder, until: datetime | None = None) -> NodeState:
        """Leave a node alone, for ever unless told until when; `unknown_node` where there is none."""

        def revise(state: NodeState, now: datetime) -> Transition:
            ignored = Ignored(order.operator or "", now, until, order.reason)
            return _noted(ignoring(state, ignored), "ignore", order, now)

        return self._write(key, revise)

    def end(self, key: NodeKey, order: CaseOrder) -> NodeState:
        """Look after a node again; one that a label keeps out stays out until the label is gone."""

        def revise(state: NodeState, now: datetime) -> Transition:
            if state.ignored is None:
                return Transition(state)
            return _noted(heeding(state, now), "heed", order, now)

        return self._write(key, revise)

    def _write(self, key: NodeKey, revise: Revise) -> NodeState:
        def known(state: NodeState, now: datetime) -> Transition:
            if not state.registered:
                raise Rejected("unknown_node", f"{key.stream} is not registered")
            return revise(state, now)

        config = rules_of(self.rulebook, key.cluster).config
        return self.append(key, known, actor=Actor.CLI, config=config).state


def _noted(state: NodeState, word: str, order: CaseOrder, now: datetime) -> Transition:
    return Transition(state, (order.note(word, now),))
