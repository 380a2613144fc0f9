"""Isolates many nodes of a cluster with few calls to the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

from faultbridge.decide.case_moves import Rules, opted_out_until
from faultbridge.model.enums import Actor, Isolation
from faultbridge.model.isolation import needs_isolation, needs_permit
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.values import replace
from faultbridge.record.rulebook import rules_of
from faultbridge.repair.dispatch import append_many
from faultbridge.repair.isolate import NO_ORCHESTRATOR, Isolate, IsolationResult, confirmed
from faultbridge.repair.isolation import confirm

GROUP = 15
"""In a cluster without an orchestrator, how many nodes are isolated in one transaction."""

Results = Mapping[str, IsolationResult]


def prepare_isolations(isolate: Isolate, cluster: str, nodes: Sequence[str]) -> Mapping[str, Callable[[], Results]]:
    """Read the nodes, and return functions that isolate them, by the names of their nodes joined by `, `.

    A function returns results by node name. It isolates a group of up to 15 nodes if Faultbridge repairs the
    cluster, the cluster has no orchestrator, and the nodes need no permit of the isolation budget. Otherwise, or if
    the isolation of a node is already requested, it isolates one node. The nodes with the most severe faults come
    first, because they get the permits.
    """
    if not nodes:
        return {}
    rules, now = rules_of(isolate.rulebook, cluster), isolate.append.clock.now()
    isolate = replace(isolate, permits=isolate.permits.for_many())
    states = sorted(isolate.append.read_many(NodeKey(cluster, node) for node in nodes), key=isolation_urgency)
    needs_no_call = rules.config.repairs and not isolate.orchestrator(rules.config).applicable
    grouped = [state for state in states if needs_no_call and is_free(state, now)]
    groups = [grouped[start : start + GROUP] for start in range(0, len(grouped), GROUP)]
    alone = {state.key.node: state for state in states if state not in grouped}
    return {
        **{", ".join(map(_name, group)): partial(_isolate_group, isolate, group, rules) for group in groups},
        **{name: partial(_isolate_alone, isolate, state, rules) for name, state in alone.items()},
    }


def _isolate_alone(isolate: Isolate, state: NodeState, rules: Rules) -> Results:
    if state.isolation is not Isolation.NONE:
        # The next call may go to the orchestrator, and no condition of a write protects that call.
        state = isolate.append.read(state.key)
    return {state.key.node: isolate.isolate_as_read(state, rules)}


def _isolate_group(isolate: Isolate, states: Sequence[NodeState], rules: Rules) -> Results:
    """Quarantine those nodes that need isolation, in a cluster without an orchestrator to cordon them."""
    now = isolate.append.clock.now()
    in_use = [state for state in states if state.registered and opted_out_until(state, rules.config, now) is None]
    wanted = [state for state in in_use if needs_isolation(state, ordered=False)]
    results = {_name(state): IsolationResult.NOTHING for state in states}
    revise = isolate.permitted(confirm(Isolation.NOT_APPLICABLE, NO_ORCHESTRATOR, ordered=False), rules)

    def commit_alone(node: NodeKey) -> None:
        results[node.node] = isolate.isolate(node)

    changes = {state.key: revise for state in wanted}
    for done in append_many(isolate.append, changes, actor=Actor.ISOLATE, alone=commit_alone):
        results[_name(done.state)] = confirmed(done.state, NO_ORCHESTRATOR, now)
    return results


def isolation_urgency(state: NodeState) -> tuple[int, datetime, str]:
    """Return the place of a node among the nodes that need a permit: the most severe fault comes first."""
    case = state.live_case
    opened = case.opened_at if case else datetime.max.replace(tzinfo=UTC)
    return -(state.severity.rank if state.severity else 0), opened, state.key.node


def is_free(state: NodeState, now: datetime) -> bool:
    """Return whether the isolation of a node needs no permit, and is not yet requested."""
    return state.isolation is not Isolation.REQUESTED and not needs_permit(state, now)


def _name(state: NodeState) -> str:
    return state.key.node
