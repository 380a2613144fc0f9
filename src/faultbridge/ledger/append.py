"""Append: the only writer of nodes. Read, revise, check the moves, commit on the version; lost a race, do it again.

Every row that mirrors a node elsewhere (its case, its place in the queue, its mark as not healthy, its repair slot)
is derived from the state before and after, and written in the same transaction: it cannot disagree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.edges import Actor
from faultbridge.domain.entries import Entry, Stream, seal
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.domain.times import truncate
from faultbridge.errors import Conflict
from faultbridge.ledger.transition_guard import check_moves
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, keys
from faultbridge.storage.projections import links, mirror
from faultbridge.storage.writes import Absent, Condition, Equals, Put, Write

MAX_TRIES = 20
MAX_PAUSE = 2.0
FIRST_PAUSE = {Actor.INGEST: 0.1}
FIRST_PAUSE_OF_OTHERS = 0.05


@dataclass(frozen=True, slots=True)
class Stack:
    """Which installation this is; the id is random at the first deployment and never used again."""

    id: str
    name: str

    def stream(self, cluster: str, node: str | None = None) -> Stream:
        """Return the stream of a cluster or of one of its nodes."""
        return Stream(self.id, self.name, cluster, node)


@dataclass(frozen=True, slots=True)
class Appended:
    """The node as it was committed, and the entries that were."""

    state: NodeState
    entries: tuple[Entry, ...] = ()


Revise = Callable[[NodeState, datetime], Transition]


@dataclass(frozen=True, slots=True)
class Append:
    """Commits revisions of nodes; `pause` waits a number of seconds, with full jitter from `random`."""

    table: Table
    clock: Clock
    stack: Stack
    pause: Callable[[float], None]
    random: Random

    def __call__(
        self,
        key: NodeKey,
        revise: Revise,
        *,
        actor: Actor,
        config: ClusterConfig,
        known: NodeState | None = None,
    ) -> Appended:
        """Revise one node until the commit holds; raises IllegalTransition, or Conflict after 20 lost races.

        `known` is a state just read by the caller; it spares the first read.
        """
        for attempt in range(MAX_TRIES):
            before = known if known is not None and attempt == 0 else self.read(key)
            try:
                appended, writes = self.draft(before, revise, actor=actor, config=config)
                self.commit(writes)
            except Conflict:
                if attempt == MAX_TRIES - 1:
                    raise
                self._back_off(actor, attempt)
            else:
                return appended
        raise AssertionError  # pragma: no cover - the last try returns or raises

    def read(self, key: NodeKey) -> NodeState:
        """Read a node, consistently; one that nobody registered has no status."""
        return items.read_state(key, self.table.get(keys.node_state(key)))

    def read_many(self, nodes: Iterable[NodeKey]) -> tuple[NodeState, ...]:
        """Read nodes, consistently and with few calls, in the order in which they are asked for."""
        wanted = {keys.node_state(node): node for node in nodes}
        found = self.table.get_many(wanted)
        return tuple(items.read_state(node, found.get(key)) for key, node in wanted.items())

    def prepare(
        self, before: NodeState, transition: Transition, *, actor: Actor, config: ClusterConfig, now: datetime
    ) -> tuple[Appended, tuple[Write, ...]]:
        """Turn a transition into writes without making them, for a caller that commits several things at once."""
        check_moves(before, transition.state, transition.drafts, actor)
        stream = self.stack.stream(*before.key)
        entries, head = seal(
            stream,
            replace(before.head, version=before.head.version + 1),
            transition.drafts,
            actor=actor,
            severity=transition.state.severity,
            recorded_at=now,
        )
        after = replace(transition.state, head=head)
        partition, shard = keys.node_partition(before.key), config.shard(before.key.node)
        writes: list[Write] = [Put(items.state_item(after, now), when=_unchanged(before))]
        instance_id = after.incarnation.instance_id if after.incarnation else None
        writes += [Put(items.entry_item(entry, partition, shard, instance_id), when=Absent()) for entry in entries]
        writes += links(transition.drafts, entries, partition, now)
        writes += [*mirror(before, after, config, now), *transition.writes]
        return Appended(after, entries), tuple(writes)

    def draft(
        self, before: NodeState, revise: Revise, *, actor: Actor, config: ClusterConfig
    ) -> tuple[Appended, tuple[Write, ...]]:
        """Revise a node without writing it; no writes where nothing changes."""
        now = truncate(self.clock.now())
        transition = revise(before, now)
        if transition.state == before and not transition.drafts and not transition.writes:
            return Appended(before), ()
        return self.prepare(before, transition, actor=actor, config=config, now=now)

    def commit(self, writes: Sequence[Write]) -> None:
        """Make the writes of one or more drafts, all or nothing; raises Conflict where any of them lost."""
        if len(writes) == 1:
            self.table.write(writes[0])
        elif writes:
            self.table.transact(writes, token(writes))

    def _back_off(self, actor: Actor, attempt: int) -> None:
        first = FIRST_PAUSE.get(actor, FIRST_PAUSE_OF_OTHERS)
        self.pause(self.random.uniform(0, min(MAX_PAUSE, first * 2**attempt)))


def token(writes: Sequence[Write]) -> str:
    """Name a commit by all that it writes, so that a repetition after a lost acknowledgement is recognized as one.

    Two writers who found the same version must not have the same token: the slower one has to lose as a conflict.
    """
    return hashlib.sha256(repr(writes).encode()).hexdigest()[:36]


def _unchanged(before: NodeState) -> Condition:
    return Equals("version", before.head.version) if before.head.version else Absent()
