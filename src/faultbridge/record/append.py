"""Append: writes the state of nodes together with the timeline entries that record each change.

Every change of a node's state passes through this module. `Append` reads the node, calls a function that computes its
transition, checks the transition (`check_moves`) and commits it. The commit is conditional on the node's version.
After a conflict, `Append` repeats all of this, up to 20 tries. The rows derived from a node (case, queue, unhealthy
nodes, repair slot) are written in the same transaction, so that they agree with the node's state.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from faultbridge.model.cases import OUT_OF_SERVICE
from faultbridge.model.causation import name_causes
from faultbridge.model.edges import CASE_EDGES, NODE_EDGES, Edge, allowed
from faultbridge.model.entries import Draft, Entry, Stream, Transition, seal
from faultbridge.model.enums import Actor
from faultbridge.model.errors import Conflict, IllegalTransition, Transient
from faultbridge.model.event_data import CaseStatusData, NodeStatusData
from faultbridge.model.isolation import numbered, without_spent_permit
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.projections import index_rows, projection_writes
from faultbridge.model.storage.writes import Absent, Condition, Equals, Key, Put, Write
from faultbridge.model.times import truncate
from faultbridge.model.values import replace

if TYPE_CHECKING:
    from faultbridge.record.ports.table import Clock, Table

MAX_WRITES = 90
"""Limit of writes in a transaction; DynamoDB accepts 100."""

MAX_ENTRIES = 60
"""Limit of entries in a transaction: 60 entries of at most 60 KB stay below the 4 MB of a DynamoDB transaction."""

MAX_TRIES = 20
MAX_PAUSE = 2.0
FIRST_PAUSE = {Actor.INGEST: 0.1}
DEFAULT_FIRST_PAUSE = 0.05


class Stack(Struct, frozen=True):
    """The identity of one installation. Its id is created at the first deployment and is never reused."""

    id: str
    name: str

    def stream(self, cluster: str, node: str | None = None) -> Stream:
        """Return the entry stream of a cluster or of one of its nodes."""
        return Stream(self.id, self.name, cluster, node)


class Appended(Struct, frozen=True):
    """The result of a transition: the node's next state, and the entries that record the transition."""

    state: NodeState
    entries: tuple[Entry, ...] = ()


class NodeDraft(Struct, frozen=True):
    """The planned transition of one node, and the table writes that commit it."""

    appended: Appended
    writes: tuple[Write, ...]


D = TypeVar("D", bound=NodeDraft)

Revise = Callable[[NodeState, datetime], Transition]
"""Computes the transition of a node from its stored state and the current time."""


class Append(Struct, frozen=True):
    """Commits transitions of nodes, and retries after conflicts with other writers.

    `pause` sleeps between two tries for a number of seconds that `random` chooses.
    """

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
        current: NodeState | None = None,
    ) -> Appended:
        """Commit a transition of one node, and retry after conflicts with other writers.

        Each try calls `revise`, which computes the transition from the node's state. If the caller has just read the
        node, it passes the state as `current`, and the first try does not read the node again. Raises
        IllegalTransition if the transition is not allowed, and Conflict after 20 conflicts.
        """
        for attempt in range(MAX_TRIES):
            before = current if current is not None and attempt == 0 else self.read(key)
            try:
                appended, writes = self.draft(before, revise, actor=actor)
                self.commit(writes)
            except Conflict as conflict:
                _log_conflict(conflict, key, actor, attempt)
                if attempt == MAX_TRIES - 1:
                    raise
                self._back_off(actor, attempt)
            else:
                return appended
        raise AssertionError  # pragma: no cover - the last try returns or raises

    def read(self, key: NodeKey) -> NodeState:
        """Read a node with a consistent read. The state of an unregistered node has no status."""
        return items.read_state(key, self.table.get(keys.node_state(key)))

    def read_many(self, nodes: Iterable[NodeKey]) -> tuple[NodeState, ...]:
        """Read nodes with consistent batch reads, and return each node once, in the given order."""
        wanted = {keys.node_state(node): node for node in nodes}
        found = self.table.get_many(wanted)
        return tuple(items.read_state(node, found.get(key)) for key, node in wanted.items())

    def prepare(
        self, before: NodeState, transition: Transition, *, actor: Actor, now: datetime
    ) -> tuple[Appended, tuple[Write, ...]]:
        """Return a transition's result and the writes that commit it, for a caller that makes the commit.

        Raises IllegalTransition if the transition is not allowed.
        """
        check_moves(before, transition.state, transition.drafts, actor)
        stream, head = self.stack.stream(*before.key), replace(before.head, version=before.head.version + 1)
        decided = marked_out_of_service(numbered(before, without_spent_permit(transition.state)), now)
        after, drafts = name_causes(before, decided, transition.drafts, stream, actor)
        drafts = tuple(replace(draft, job_ids=after.jobs) for draft in drafts)
        entries, head = seal(stream, head, drafts, actor=actor, severity=after.severity, recorded_at=now)
        after = replace(after, head=head)
        partition, shard = keys.node_partition(before.key), after.shard
        writes: list[Write] = [Put(items.state_item(after, now), when=_unchanged(before))]
        instance_id = after.instance_id
        writes += [Put(items.entry_item(entry, partition, shard, instance_id), when=Absent()) for entry in entries]
        writes += index_rows(drafts, entries, partition, now)
        writes += [*projection_writes(before, after, now), *transition.writes]
        return Appended(after, entries), tuple(writes)

    def draft(self, before: NodeState, revise: Revise, *, actor: Actor) -> tuple[Appended, tuple[Write, ...]]:
        """Return the result and the writes of the transition that `revise` computes, without a commit.

        If `revise` changes nothing, there are no writes. Raises IllegalTransition if the transition is not allowed.
        """
        now = truncate(self.clock.now())
        transition = revise(before, now)
        if not transition.drafts and not transition.writes and transition.state == before:
            return Appended(before), ()
        return self.prepare(before, transition, actor=actor, now=now)

    def commit(self, writes: Sequence[Write]) -> None:
        """Commit the writes of one or more drafts, all or nothing. A failed condition raises Conflict."""
        if len(writes) == 1:
            self.table.write(writes[0])
        elif writes:
            self.table.transact(writes, transaction_token(writes))

    def _back_off(self, actor: Actor, attempt: int) -> None:
        first = FIRST_PAUSE.get(actor, DEFAULT_FIRST_PAUSE)
        self.pause(self.random.uniform(0, min(MAX_PAUSE, first * 2**attempt)))


def group_commits(drafts: Iterable[D]) -> Iterator[list[D]]:
    """Yield groups of drafts. The drafts of a group write different items and are committed together.

    A group of several drafts has at most `MAX_WRITES` writes and `MAX_ENTRIES` entries. A draft with fewer than two
    writes is a group of its own, because a transaction doubles the cost of a write.
    """
    group: list[D] = []
    written: set[Key] = set()
    entries = 0
    for draft in drafts:
        if len(draft.writes) < 2:  # noqa: PLR2004 - a transaction has at least two writes
            yield [draft]
            continue
        added = {write.key for write in draft.writes}
        entries += len(draft.appended.entries)
        if group and (len(written) + len(added) > MAX_WRITES or entries > MAX_ENTRIES or not written.isdisjoint(added)):
            yield group
            group, written, entries = [], set(), len(draft.appended.entries)
        group.append(draft)
        written |= added
    if group:
        yield group


def log_split(reason: str, nodes: Iterable[NodeKey]) -> None:
    """Log why the nodes of a group are committed one by one instead of in one transaction."""
    log_cause("commit_group_split", reason=reason, nodes=[node.stream for node in nodes])


def append_many(
    append: Append,
    changes: Mapping[NodeKey, Revise],
    *,
    actor: Actor,
    alone: Callable[[NodeKey], Appended | None] | None = None,
) -> Iterator[Appended]:
    """Commit a change of each of many nodes, and yield each result once it is committed.

    `changes` maps each node to the function that computes the node's new state and entries.

    - If a transaction of several nodes fails, for example because one of these nodes was changed by another writer,
      each of its nodes is committed alone: by `alone`, or by `append` if `alone` is None.
    - An error with one node does not stop the other nodes. The first error is raised after all nodes are done.
    - Transient is raised at once if the table is unavailable for the first read or for a transaction of several nodes.
    """
    drafts, errors = _draft_each(append, changes, actor)
    commit_alone = alone or (lambda node: append(node, changes[node], actor=actor))
    for group in group_commits(drafts):
        if _is_committed(append, group):
            yield from (draft.appended for draft in group)
            continue
        for node in (draft.appended.state.key for draft in group):
            try:
                done = commit_alone(node)
            except Exception as error:  # noqa: BLE001 - it concerns this node only; the first is raised at the end
                errors.append(_logged("commit_failed", node, actor, error))
                continue
            if done is not None:
                yield done
    if errors:
        raise errors[0]


def _is_committed(append: Append, group: Sequence[NodeDraft]) -> bool:
    """Commit the drafts in one transaction. Returns False if each node must be committed alone."""
    try:
        append.commit([write for draft in group for write in draft.writes])
    except Exception as error:
        if isinstance(error, Transient) and not isinstance(error, Conflict):
            raise
        log_split(f"{type(error).__name__}: {error}", [draft.appended.state.key for draft in group])
        return False
    return True


def _draft_each(
    append: Append, changes: Mapping[NodeKey, Revise], actor: Actor
) -> tuple[list[NodeDraft], list[Exception]]:
    wanted = {keys.node_state(node): node for node in changes}
    found = append.table.get_many(wanted)
    drafts: list[NodeDraft] = []
    errors: list[Exception] = []
    for key, node in wanted.items():
        try:
            before = items.read_state(node, found.get(key))
            drafts.append(NodeDraft(*append.draft(before, changes[node], actor=actor)))
        except Exception as error:  # noqa: BLE001 - a bug with one node must not stop the others; the first is raised
            errors.append(_logged("draft_failed", node, actor, error))
    return drafts, errors


def _logged(decision: str, node: NodeKey, actor: Actor, error: Exception) -> Exception:
    reason = f"{type(error).__name__}: {error}"
    log_cause(decision, reason=reason, cluster=node.cluster, node=node.node, actor=actor.value)
    return error


def transaction_token(writes: Sequence[Write]) -> str:
    """Return an idempotency token for a transaction, derived from the complete content of its writes.

    If the response to a transaction is lost, a retry with the same token does not commit the transaction twice.
    Different writes have different tokens. Of two writers that change the same version of a node in different ways,
    the slower one therefore fails with a conflict.
    """
    return hashlib.sha256(repr(writes).encode()).hexdigest()[:36]


def _log_conflict(conflict: Conflict, key: NodeKey, actor: Actor, attempt: int) -> None:
    log_cause(
        "commit_conflict",
        reason=str(conflict),
        cluster=key.cluster,
        node=key.node,
        actor=actor.value,
        attempt=attempt + 1,
    )


def _unchanged(before: NodeState) -> Condition:
    return Equals("version", before.head.version) if before.head.version else Absent()


def marked_out_of_service(state: NodeState, now: datetime) -> NodeState:
    """Return a node whose live case has the time at which the node was first out of service."""
    case, status = state.live_case, state.status
    if case is None or status is None or status.in_service or OUT_OF_SERVICE in case.marks:
        return state
    return replace(state, case=replace(case, marks={**case.marks, OUT_OF_SERVICE: now}))


def check_moves(before: NodeState, after: NodeState, drafts: Iterable[Draft], actor: Actor) -> None:
    """Raise IllegalTransition unless the entries record how the status of the node and of its case changed.

    The recorded changes must lead from the status in `before` to the status in `after`. Each change must be a legal
    transition for the actor (`model/edges.py`).
    """
    drafts = tuple(drafts)
    case_before = before.live_case.status if before.live_case else None
    case_after = after.case.status if after.case else None
    if after.case == before.case and not after.live_case:
        case_after = case_before
    try:
        _check_path("node", NODE_EDGES, before.status, after.status, _moves(drafts, NodeStatusData), actor)
        _check_path("case", CASE_EDGES, case_before, case_after, _moves(drafts, CaseStatusData), actor)
    except IllegalTransition as refused:
        case = after.case or before.case
        log_cause(
            "transition_refused",
            reason=refused.detail,
            level=logging.WARNING,
            cluster=before.key.cluster,
            node=before.key.node,
            case_id=case.id if case else None,
            actor=actor.value,
        )
        raise


def _moves(drafts: Iterable[Draft], kind: type[NodeStatusData | CaseStatusData]) -> list[tuple[str | None, str]]:
    return [(draft.data.from_, draft.data.to) for draft in drafts if isinstance(draft.data, kind)]


def _check_path(
    subject: str,
    edges: tuple[Edge, ...],
    start: str | None,
    end: str | None,
    moves: Iterable[tuple[str | None, str]],
    actor: Actor,
) -> None:
    status = start
    for source, target in moves:
        if source != status or not allowed(edges, source, target, actor):
            raise IllegalTransition(
                f"{subject} status {status}: {actor.value} may not record a move from {source} to {target}; "
                "model/edges.py lists the legal moves"
            )
        status = target
    if status != end:
        raise IllegalTransition(
            f"{subject} status {end}: the entries of the transition end at {status}; record the change"
        )
