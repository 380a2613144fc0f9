"""Retire: a node that is no more. Its record stays, its names lead nowhere, and nothing is done about it any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Case, Resolution
from faultbridge.domain.catalog import Scope
from faultbridge.domain.edges import Actor, CaseStatus, NodeStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.nodes import Alias, NodeKey, NodeState
from faultbridge.errors import Rejected
from faultbridge.ledger.append import Append
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.case_moves import move_case
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.pipeline.fold.expire import end_scopes
from faultbridge.ports import Table
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.rules.rulebook import Rulebook
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Delete, Equals, Put, Write

REASON = "node removed"


@dataclass(frozen=True, slots=True)
class Retirement:
    """Takes nodes out of their cluster; done twice it is done once."""

    table: Table
    append: Append
    rulebook: Rulebook

    def __call__(self, key: NodeKey, order: OperatorOrder) -> NodeState:
        """Retire a node; `past_intent` while its instance is being given up, `unknown_node` where there is none."""
        found = self.table.get(keys.cluster_config(key.cluster))
        if found is None:
            raise Rejected("unknown_cluster", f"{key.cluster} is not registered")
        rules = self.rulebook.rules(items.read_config(found))

        def revise(state: NodeState, now: datetime) -> Transition:
            if not state.registered:
                raise Rejected("unknown_node", f"{key.stream} is not registered")
            if state.status is NodeStatus.RETIRED:
                return Transition(state)
            return Transition(*_retired(state, rules, order, now), tuple(self._beside(state, now)))

        return self.append(key, revise, actor=Actor.CLI, config=rules.config).state

    def _beside(self, state: NodeState, now: datetime) -> Iterator[Write]:
        instance = state.incarnation.instance_id if state.incarnation else None
        called = (state.key.node, *state.placement.aliases, *state.placement.host_names)
        aliases = [Alias("name", f"{state.key.cluster}/{name}") for name in called]
        aliases += [Alias("instance", instance)] if instance else []
        for place, held in self.table.get_many(keys.alias(*alias) for alias in aliases).items():
            if items.read_alias(held).key == state.key:
                yield Delete(place, when=Equals("valid_from", str(held["valid_from"])))
        # Read here, so that a lost race reads it again.
        config = items.read_config(self.table.get(keys.cluster_config(state.key.cluster)) or {})
        fewer = replace(config, expected=max(config.expected - 1, 0), version=config.version + 1)
        yield Put(items.config_item(fewer, now), when=Equals("version", config.version))


def _retired(
    state: NodeState, rules: Rules, order: OperatorOrder, now: datetime
) -> tuple[NodeState, tuple[Draft, ...]]:
    case = state.live_case
    if case is not None and case.attempt is not None and case.attempt.intent is not None:
        raise Rejected("past_intent", f"{case.id} has passed its intent and can only go forward")
    ended = end_scopes(state, Scope, at=now, reason=REASON)
    faults = tuple(entry_builder.fault_change(one, ended.state, rules.catalog, rules.policy) for one in ended.changes)
    decided = Transition(ended.state, faults)
    if case is not None:
        decided = move_case(decided, _over(case, now), now, REASON)
    moved = entry_builder.status_change(decided.state, NodeStatus.RETIRED, now, REASON)
    return replace(decided.state, status=NodeStatus.RETIRED, due_at=None), (
        *decided.drafts,
        order.note("retire", now),
        moved,
    )


def _over(case: Case, now: datetime) -> Case:
    resolved = replace(case, status=CaseStatus.RESOLVED, resolution=Resolution.RETIRED, waiting_for=None, closed_at=now)
    return replace(resolved, attempt=None)
