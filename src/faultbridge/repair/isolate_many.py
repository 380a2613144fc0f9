"""Isolates many nodes of a cluster with few calls to the table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.cluster.state import Control
from faultbridge.domain.edges import Actor
from faultbridge.domain.nodes import Isolation, NodeKey, NodeState
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.pipeline.decide.opt_out import opted_out_until
from faultbridge.repair.append_many import append_many
from faultbridge.repair.isolate import HELD_BY_BREAKER, NO_ORCHESTRATOR, Isolate, IsolationResult, confirmed
from faultbridge.repair.isolation_changes import confirm, log_isolation
from faultbridge.repair.isolation_rules import breaker_holds, needs_isolation
from faultbridge.rules.rulebook import rules_of

GROUP = 15
"""In a cluster without an orchestrator, how many nodes are isolated between two reads of the breakers."""

Results = Mapping[str, IsolationResult]


@dataclass(frozen=True, slots=True)
class IsolateMany:
    """Isolates many nodes of a cluster.

    If Faultbridge repairs the cluster, and the cluster has no orchestrator, the nodes are isolated in groups.
    Otherwise, they are isolated one by one.
    """

    isolate: Isolate

    def __call__(
        self, cluster: str, nodes: Sequence[str], control: Control | None = None
    ) -> Mapping[str, Callable[[], Results]]:
        """Read the nodes, and return functions that isolate them, by the names of their nodes joined by `, `.

        A function returns results by node name. It isolates a group of up to 15 nodes if Faultbridge repairs the
        cluster and the cluster has no orchestrator. Otherwise, or if the isolation of a node is already requested, it
        isolates one node.

        `control` has the cluster's circuit breakers, if the caller has just read them. A node that one of them keeps in
        service is not isolated. The others are isolated after their breakers were read again.
        """
        if not nodes:
            return {}
        rules = rules_of(self.isolate.rulebook, cluster)
        states = self.isolate.append.read_many(NodeKey(cluster, node) for node in nodes)
        if not self._needs_no_call(rules.config):
            return {one.key.node: partial(self._isolate_one, one, rules, control) for one in states}
        grouped = [one for one in states if one.isolation is not Isolation.REQUESTED]
        groups = [grouped[start : start + GROUP] for start in range(0, len(grouped), GROUP)]
        alone = {one.key.node: one for one in states if one.isolation is Isolation.REQUESTED}
        return {
            **{", ".join(map(_name, group)): partial(self._isolate_group, group, rules, control) for group in groups},
            **{name: partial(self._isolate_one, one, rules, control) for name, one in alone.items()},
        }

    def _needs_no_call(self, config: ClusterConfig) -> bool:
        return config.repairs and not self.isolate.orchestrator(config).applicable

    def _isolate_one(self, state: NodeState, rules: Rules, control: Control | None) -> Results:
        if state.isolation is Isolation.REQUESTED:
            # The next call may go to the orchestrator, and no condition of a write protects that call.
            state = self.isolate.append.read(state.key)
        return {state.key.node: self.isolate.as_read(state, rules, control)}

    def _isolate_group(self, states: Sequence[NodeState], rules: Rules, control: Control | None) -> Results:
        """Quarantine those nodes that need isolation, in a cluster without an orchestrator to cordon them.

        Returns the result of each node by its name. `control` has the cluster's controls if they were just read, else
        None. The controls are read again before nodes are quarantined, because a breaker may have opened since.
        """
        now = self.isolate.append.clock.now()
        in_use = [one for one in states if one.registered and opted_out_until(one, rules.config, now) is None]
        wanted = [one for one in in_use if needs_isolation(one, ordered=False)]
        free = wanted if control is None else _permitted(wanted, control)
        if free:
            free = _permitted(free, self.isolate.controls.read(rules.config.cluster))
        results = {_name(one): IsolationResult.NOTHING for one in states}
        for state in wanted:
            if state not in free:
                log_isolation(state, "isolation_held", HELD_BY_BREAKER, level=logging.DEBUG)
                results[_name(state)] = IsolationResult.HELD
        revise = confirm(Isolation.NOT_APPLICABLE, NO_ORCHESTRATOR, ordered=False)

        def isolate_alone(node: NodeKey) -> None:
            results[node.node] = self.isolate(node)  # it reads the breakers again

        changes = {one.key: revise for one in free}
        for done in append_many(self.isolate.append, changes, actor=Actor.ISOLATE, alone=isolate_alone):
            results[_name(done.state)] = confirmed(done.state, NO_ORCHESTRATOR)
        return results


def _permitted(states: Sequence[NodeState], control: Control) -> list[NodeState]:
    return [one for one in states if not breaker_holds(control, one, ordered=False)]


def _name(state: NodeState) -> str:
    return state.key.node
