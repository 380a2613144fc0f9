"""Node store: replaces the product's writer of nodes; states are in memory, entries are only counted.

The product's transition guard checks each change that has entries, or a new status of the node or its case. Data that
influences no decision is left out: the hash chain, the causes of entries, index items, and items that only consumers
outside of the lab read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from msgspec import field

from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import Actor, CaseStatus, NodeStatus
from faultbridge.model.isolation import without_spent_permit
from faultbridge.model.nodes import Head, Incarnation, NodeKey, NodeState, Placement
from faultbridge.model.storage.projections import control_writes
from faultbridge.model.storage.writes import Write
from faultbridge.model.times import truncate
from faultbridge.model.values import replace
from faultbridge.record.append import Append, Appended, Revise, check_moves, marked_out_of_service
from faultbridge.record.ports.orchestrator import ClusterNode
from tests.lab.product.item_table import ItemTable

GROUP = "gpu-workers"
INSTANCE_TYPE = "p5.48xlarge"

Committed = Callable[[NodeState, NodeState, tuple[Draft, ...]], None]
"""Receives every commit: the state before, the state after, and the drafts of its entries."""


class NodeStore(Append, frozen=True):
    """Implements `Append`, the product's writer of nodes, over states in memory.

    `committed` is called after every commit with the state before, the state after, and the drafts of the entries.
    """

    table: ItemTable
    committed: Committed = lambda _before, _after, _drafts: None
    states: dict[NodeKey, NodeState] = field(default_factory=dict)

    def read(self, key: NodeKey) -> NodeState:
        """Return the state of a node."""
        return self.states[key]

    def read_many(self, nodes: Iterable[NodeKey]) -> tuple[NodeState, ...]:
        """Return the states of nodes, in the given order."""
        return tuple(self.states[node] for node in nodes)

    def __call__(
        self,
        key: NodeKey,
        revise: Revise,
        *,
        actor: Actor,
        current: NodeState | None = None,
    ) -> Appended:
        """Commit a transition of one node.

        A transition that changes nothing is not stored. There is no other writer, so the transition is computed only
        once.
        """
        before = current or self.states[key]
        transition = revise(before, truncate(self.clock.now()))
        if not transition.drafts and not transition.writes and transition.state == before:
            return Appended(before)
        return Appended(self.store(before, transition, actor))

    def draft(self, before: NodeState, revise: Revise, *, actor: Actor) -> tuple[Appended, tuple[Write, ...]]:
        """Commit the transition at once, so that no write is left; `before` only names the node."""
        return self(before.key, revise, actor=actor), ()

    def store(self, before: NodeState, transition: Transition, actor: Actor) -> NodeState:
        """Check a transition and store its state.

        The repair slot of a case that is no longer in progress is released, and so is a permit that the node no longer
        needs.
        """
        head, drafts = before.head, transition.drafts
        after = marked_out_of_service(without_spent_permit(transition.state), truncate(self.clock.now()))
        if drafts or before.status is not after.status or _status(before) is not _status(after):
            check_moves(before, after, drafts, actor)
            moved = replace(head, version=head.version + 1, sequence=head.sequence + len(drafts))
            after = replace(after, head=moved)
        writes = [*transition.writes, *control_writes(before, after)]
        if writes:
            self.table.transact(writes)
        self.states[after.key] = after
        self.table.unhealthy.update(after)
        self.committed(before, after, drafts)
        return after


def serving_node(key: NodeKey, instance_id: str, since: datetime) -> NodeState:
    """Return the state of a node in service, as the registration of a node creates it."""
    return NodeState(
        key,
        head=Head(version=1, sequence=1),
        status=NodeStatus.HEALTHY,
        placement=Placement(group=GROUP, instance_type=INSTANCE_TYPE),
        incarnation=Incarnation(1, 1, instance_id, None, since),
        unverified=True,
    )


def _status(state: NodeState) -> CaseStatus | None:
    return state.case.status if state.case is not None else None


def node_key(cluster: str, number: int) -> NodeKey:
    """Return the key of the node with this number; the first node has the number 0."""
    return NodeKey(cluster, f"node-{number + 1}")


def node_number(key: NodeKey | ClusterNode) -> int:
    """Return the number of a node from its key; the first node has the number 0."""
    return int(key.node.removeprefix("node-")) - 1
