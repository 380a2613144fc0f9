"""Opt-out: orders with which an operator excludes a node from repairs. Its faults are still recorded."""

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
    """Excludes nodes from repairs: no case opens for them, they are not isolated, and no repair starts."""

    append: Append
    rulebook: Rulebook

    def __call__(self, key: NodeKey, order: OperatorOrder, until: datetime | None = None) -> NodeState:
        """Exclude a node from repairs until a time, or without an end if `until` is None.

        Raises Rejected `unknown_cluster` or `unknown_node` for an unknown name.
        """

        def revise(state: NodeState, now: datetime) -> Transition:
            ignored = Ignored(order.operator or "", now, until, order.reason)
            return Transition(start_ignoring(state, ignored), (order.note("ignore", now),))

        return self._write(key, revise)

    def end(self, key: NodeKey, order: OperatorOrder) -> NodeState:
        """End the exclusion of a node from repairs, even if a label or a tag excluded the node.

        If the label or tag still exists, the next sync of the inventory excludes the node again.
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
