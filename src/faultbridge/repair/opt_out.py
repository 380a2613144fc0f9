"""Opt-out: an operator makes Faultbridge ignore a node for a time. Its faults are still recorded."""

from __future__ import annotations

from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.edges import Actor
from faultbridge.domain.nodes import Ignored, NodeKey, NodeState
from faultbridge.ledger.append import Append, Revise
from faultbridge.ledger.queries import registered
from faultbridge.pipeline.decide.opt_out import start_ignoring, stop_ignoring
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.rules.rulebook import Rulebook, rules_for_order
from faultbridge.storage import keys
from faultbridge.storage.writes import Update


@dataclass(frozen=True, slots=True)
class OptOut:
    """Ignores nodes: no case is opened for them, they are not isolated, and none of their repairs starts."""

    append: Append
    rulebook: Rulebook

    def __call__(self, key: NodeKey, order: OperatorOrder, until: datetime | None = None) -> NodeState:
        """Ignore a node, without end if `until` is None. Raises `unknown_node` if it is not registered."""

        def revise(state: NodeState, now: datetime) -> Transition:
            ignored = Ignored(order.operator or "", now, until, order.reason)
            return Transition(start_ignoring(state, ignored), (order.note("ignore", now),))

        return self._write(key, revise)

    def end(self, key: NodeKey, order: OperatorOrder) -> NodeState:
        """Stop ignoring a node, whether an operator, a label or a tag excluded it.

        A label or tag that is still set excludes the node again at the next sync of the inventory.
        """

        def revise(state: NodeState, now: datetime) -> Transition:
            if state.ignored is None:
                return Transition(state)
            # The row repeats the opt-out; a sync changes nothing while the row agrees with the label.
            unlisted = Update(keys.roster(key.cluster, state.shard, key.node), set={("opted_out",): False})
            return Transition(stop_ignoring(state, now), (order.note("heed", now),), (unlisted,))

        return self._write(key, revise)

    def _write(self, key: NodeKey, revise: Revise) -> NodeState:
        def revise_registered(state: NodeState, now: datetime) -> Transition:
            return revise(registered(state), now)

        rules_for_order(self.rulebook, key.cluster)  # rejects an unregistered cluster
        return self.append(key, revise_registered, actor=Actor.CLI).state
