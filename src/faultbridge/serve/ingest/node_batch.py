"""Node batches: the records of one node that one commit processes, and their preparation.

Several nodes can share a transaction, in which each node's writes have their own condition. If one condition fails,
ingest commits the nodes one by one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from faultbridge.decide.case_moves import Rules
from faultbridge.decide.fold.changes import Arrival
from faultbridge.decide.fold.write_filter import must_write
from faultbridge.decide.normalize.oversized_records import MAX_FAULTS, limit_faults
from faultbridge.decide.normalize.resolve import INCARNATION_MARGIN, IncarnationMatch, match_incarnation, record_boot
from faultbridge.decide.normalize.timestamp import correct_observation, correct_record, slow_by
from faultbridge.decide.normalize.trust import is_claim
from faultbridge.decide.observe import observe
from faultbridge.decode.frames.instance_type import add_instance_type_checks
from faultbridge.decode.native import HEARTBEAT
from faultbridge.model.catalog import Catalog
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.conditions import source_of
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor
from faultbridge.model.errors import Conflict, Transient
from faultbridge.model.faults import CounterSample, Snapshot, faults_of
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import AliasRow, NodeKey, NodeState
from faultbridge.model.records import Outcome
from faultbridge.model.storage import keys
from faultbridge.model.storage.heartbeats import SnapshotTimes
from faultbridge.model.storage.writes import Key, Put
from faultbridge.model.times import truncate
from faultbridge.model.values import replace
from faultbridge.model.values import replace as copied
from faultbridge.record.append import Append, Appended, NodeDraft, group_commits, log_split
from faultbridge.record.rulebook import Rulebook
from faultbridge.serve.ingest.caches import CachedNode, NodeCache
from faultbridge.serve.ingest.counter_store import NOT_READ, ComparedSamples, CounterStore, ReadItems, series
from faultbridge.serve.ingest.outcomes import GiveBackReason, IngestResult, describe
from faultbridge.serve.ingest.record_reader import RecordPart

ResolvedParts = Sequence[tuple[RecordPart, AliasRow]]
"""Record parts of one node, each with the alias by which the node was found."""


class BatchReads(Struct, frozen=True):
    """What ingest reads about the nodes of a batch before it commits them.

    `samples` are the stored counter samples by key. `snapshots` are, by node, the times of health snapshots that were
    stored with heartbeats. `logged` are the nodes whose heartbeat in this batch will be stored. With that heartbeat,
    the snapshot times that are only in memory are stored.
    """

    nodes: Mapping[NodeKey, CachedNode]
    samples: ReadItems
    snapshots: Mapping[NodeKey, SnapshotTimes]
    logged: Collection[NodeKey]


class NodeBatch(Struct):
    """The records of one node for one commit. `Append` calls `revise` to compute the node's transition.

    - `cached` is the node before the batch. `unwritten` is the changed node if its changes need no write, else None.
    - `remaining` are the observations that did not fit into the commit. `rest` returns a batch for them. In that batch,
      `continued` contains them, and the writes of counter samples that belong to the last commit.
    - `read` are the stored samples that were read with the node. Only the first call uses them; they may change later.
    - `later_snapshots` are snapshot times that were stored with heartbeats. `logged` is True if a heartbeat of the node
      in this batch will be stored.
    """

    parts: ResolvedParts
    rules: Rules
    catalog: Catalog
    counter_store: CounterStore
    cached: CachedNode
    read: ReadItems = field(default_factory=dict)
    later_snapshots: SnapshotTimes = field(default_factory=dict)
    logged: bool = False
    unwritten: CachedNode | None = None
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    compared: ComparedSamples = field(default_factory=ComparedSamples)
    remaining: tuple[Arrival, ...] = ()
    continued: tuple[tuple[Arrival, ...], tuple[Put, ...]] | None = None

    @property
    def node(self) -> NodeKey:
        """Return the key of the node that the records are about."""
        return self.cached.stored.key

    def revise(self, state: NodeState, now: datetime) -> Transition:
        """Return the transition that the records cause. It is empty if the changes need no write."""
        booted, parts = _with_snapshots(state, self.later_snapshots), _with_correct_times(self.parts, state)
        for part, _ in parts:
            booted = record_boot(booted, part.record)
        arrivals = self._arrivals(parts, booted, now)
        booted_at = _booted_at(state, booted, parts, arrivals)
        observed = observe(booted, arrivals, rules=self.rules, catalog=self.catalog, now=now, booted_at=booted_at)
        self.outcomes, self.remaining = observed.outcomes, observed.remaining
        # The samples that were compared are written last: after a crash, the same faults are found again.
        samples = () if self.remaining else self.compared.with_faults
        stored = self.cached.stored if state is self.cached.current else state
        policy, catalog = self.rules.policy, self.catalog
        if observed.drafts or samples or must_write(stored, observed.state, policy, catalog, logged=self.logged):
            self.unwritten = None
            return Transition(observed.state, observed.drafts, samples)
        self.unwritten = CachedNode(stored, observed.state)
        return Transition(state)

    def rest(self, cached: CachedNode) -> list[NodeBatch]:
        """Return a list with one batch of the observations that did not fit; an empty list if all did."""
        if not self.remaining:
            return []
        records = {arrival.record_id for arrival in self.remaining}
        parts = [(part, row) for part, row in self.parts if part.record.record_id in records]
        log_cause(
            "records_continued",
            reason="the records change more than one commit may contain",
            cluster=self.node.cluster,
            node=self.node.node,
            remaining=len(self.remaining),
        )
        continued = self.remaining, self.compared.with_faults
        return [replace(self, parts=parts, cached=cached, remaining=(), continued=continued)]

    def single_records(self) -> list[NodeBatch]:
        """Return a batch per record; an empty list if there is only one record, or if `rest` made this batch."""
        if len(self.parts) == 1 or self.continued is not None:
            return []
        return [replace(self, parts=[part], read=NOT_READ) for part in self.parts]

    def _arrivals(self, parts: ResolvedParts, state: NodeState, now: datetime) -> list[Arrival]:
        if self.continued is not None:
            remaining, puts = self.continued
            self.compared = ComparedSamples(with_faults=puts)
            return list(remaining)
        arrivals = [arrival for part, row in parts for arrival in _arrivals(part, row, state)]
        samples = [arrival for arrival in arrivals if isinstance(arrival.observation, CounterSample)]
        read, self.read = self.read, NOT_READ
        if not samples:
            self.compared = ComparedSamples()
            return arrivals
        values = {part.record.record_id: part.record.values for part, _ in parts}
        self.compared = self.counter_store.compare(state, samples, now, values, read)
        return [*arrivals, *self.compared.faults]


class DraftedBatch(NodeDraft, frozen=True):
    """The records of one node, the transition that they cause, and the writes that commit the transition."""

    batch: NodeBatch


def first_new_fault(state: NodeState, parts: Iterable[tuple[RecordPart, AliasRow]]) -> datetime | None:
    """Return the time of the earliest health snapshot that may show a new fault; None if there is none.

    A snapshot counts only if it contains a fault and is later than the stored time of its reporter's last snapshot. It
    does not count if no such time is stored. A snapshot of a source with only one check does not count while the source
    reports a fault, because its time is always stored with the node.
    """
    reporting = {source_of(one) for condition in state.conditions.values() for one in condition.reporters}
    return min(
        (
            min(at, part.record.received_at)
            for part, _ in parts
            for one in part.observations
            if isinstance(one, Snapshot) and one.present and (one.part or one.source not in reporting)
            if (last := state.snapshots.get(one.reporter_key)) is not None
            if (at := one.observed_at or part.record.sent_at) > last
        ),
        default=None,
    )


def sample_keys(node: NodeKey, parts: Iterable[tuple[RecordPart, AliasRow]]) -> Iterator[Key]:
    """Yield the keys of the stored samples with which the counters in a node's records are compared."""
    for part, _ in parts:
        for one in part.observations:
            if isinstance(one, CounterSample):
                yield keys.counter_samples(node, series(one, claimed=part.record.claimed))


def current_heartbeats(state: NodeState, parts: Iterable[tuple[RecordPart, AliasRow]]) -> Iterator[RecordPart]:
    """Yield the heartbeats in a node's records, except those of an earlier instance or boot.

    The time of receipt determines the instance and boot: the sender's clock may be wrong, and agents never store
    heartbeats to send them later.
    """
    for part, row in parts:
        if part.record.source == HEARTBEAT:
            match = match_incarnation(state, part.record, row.instance_id, part.record.received_at)
            if match is not IncarnationMatch.EARLIER:
                yield part


def prepare_records(parts: ResolvedParts, state: NodeState, catalog: Catalog) -> ResolvedParts:
    """Limit each record to `MAX_FAULTS` faults, and compare its devices with the node's instance type."""
    return [(_with_instance_type_checks(_limited(part, catalog), state), row) for part, row in parts]


def _limited(part: RecordPart, catalog: Catalog) -> RecordPart:
    # Counting all faults is cheap, and for most records it is enough.
    if sum(len(faults_of(observation)) for observation in part.observations) <= MAX_FAULTS:
        return part
    return replace(part, observations=limit_faults(part.observations, part.record.source, catalog))


def _with_instance_type_checks(part: RecordPart, state: NodeState) -> RecordPart:
    instance_type, incarnation = state.placement.instance_type, state.incarnation
    if instance_type is None or incarnation is None or part.record.sent_at < incarnation.since + INCARNATION_MARGIN:
        return part
    return replace(part, observations=add_instance_type_checks(part.observations, instance_type))


def _with_correct_times(parts: ResolvedParts, state: NodeState) -> ResolvedParts:
    """Correct the times of the node's own records if its clock is behind.

    A record that names its node in its content was sent by another host with its own clock, and is not changed.
    """
    slow = slow_by(state, (one for part in current_heartbeats(state, parts) for one in part.observations))
    return parts if not slow else [(part if part.named else _corrected(part, slow), row) for part, row in parts]


def _corrected(part: RecordPart, slow: timedelta) -> RecordPart:
    observations = tuple(correct_observation(one, part.record, slow) for one in part.observations)
    return replace(part, record=correct_record(part.record, slow), observations=observations)


def _with_snapshots(state: NodeState, later: SnapshotTimes) -> NodeState:
    newer = {key: at for key, at in later.items() if key in state.snapshots and at > state.snapshots[key]}
    return copied(state, snapshots={**state.snapshots, **newer}) if newer else state


def _booted_at(
    before: NodeState, booted: NodeState, parts: ResolvedParts, arrivals: Iterable[Arrival]
) -> datetime | None:
    """Return the time of the first observation in the records of a new boot; None without a new boot."""
    current, former = booted.incarnation, before.incarnation
    if current is None or former is None or current.boot == former.boot:
        return None
    records = {part.record.record_id for part, _ in parts if part.record.boot_id == current.boot_id}
    return min((one.at for one in arrivals if one.record_id in records), default=current.since)


def _arrivals(part: RecordPart, row: AliasRow, state: NodeState) -> Iterator[Arrival]:
    for observation in part.observations:
        record, at = part.record, truncate(observation.observed_at or part.record.sent_at)
        match = match_incarnation(state, record, row.instance_id, at)
        instance_id = record.instance_id or row.instance_id
        claimed = record.claimed or is_claim(observation)
        yield Arrival(observation, at, record.record_id, match, instance_id, record.sender, claimed)


# Node commits: commits the records of a batch; several nodes can share one transaction.
#
# A conflict or an error of one node affects no other node: if a transaction fails, each of its nodes is committed
# separately. After an unexpected error, the records of a node are committed one by one, so that one bad record does not
# stop the other records of its node.

PartsByNode = Mapping[NodeKey, tuple[ClusterConfig, Sequence[tuple[RecordPart, AliasRow]]]]


class NodeCommits(Struct, frozen=True):
    """Commits the records of one batch and adds their outcomes to `result`.

    `reads` is the data about the nodes that was read before the commits.
    """

    append: Append
    rulebook: Rulebook
    counter_store: CounterStore
    node_cache: NodeCache
    result: IngestResult
    reads: BatchReads

    def commit(self, by_node: PartsByNode) -> None:
        """Commit the records of each node of the batch."""
        for group in group_commits(self._drafts(by_node)):
            self._commit(group)

    def _drafts(self, by_node: PartsByNode) -> Iterator[DraftedBatch]:
        for node, (config, parts) in by_node.items():
            try:
                batch = self._batch(config, parts, node)
            except Exception as error:  # noqa: BLE001 - it concerns this node only, and `_give_back` logs it
                self._give_back(parts, node, error)
                continue
            try:
                appended, writes = self.append.draft(batch.cached.current, batch.revise, actor=Actor.INGEST)
            except Exception as error:  # noqa: BLE001 - as above
                self._isolate(batch, error)
            else:
                yield DraftedBatch(appended, writes, batch)

    def _batch(self, config: ClusterConfig, parts: ResolvedParts, node: NodeKey) -> NodeBatch:
        catalog, cached = self.rulebook.catalog(), self.reads.nodes[node]
        prepared = prepare_records(parts, cached.current, catalog)
        return NodeBatch(
            prepared,
            self.rulebook.rules(config),
            catalog,
            self.counter_store,
            cached,
            read=self.reads.samples,
            later_snapshots=self.reads.snapshots[node],
            logged=node in self.reads.logged,
        )

    def _commit(self, group: Sequence[DraftedBatch]) -> None:
        try:
            self.append.commit([write for draft in group for write in draft.writes])
        except Exception as error:  # noqa: BLE001 - each node is committed alone, where its error is logged
            if len(group) == 1 and not isinstance(error, Conflict):
                self._isolate(group[0].batch, error)
                return
            log_split(describe(error), (draft.batch.node for draft in group))
            for draft in group:
                self._commit_in_order([draft.batch], is_fresh=False)
            return
        for draft in group:
            try:
                latest = self._finish(draft.batch, draft.appended)
            except Exception as error:  # noqa: BLE001 - it concerns this node only, and `_give_back` logs it
                self._give_back(draft.batch.parts, draft.batch.node, error)
            else:
                self._commit_in_order(draft.batch.rest(latest))

    def _commit_in_order(self, batches: Iterable[NodeBatch], *, is_fresh: bool = True) -> None:
        """Commit batches of one node one after the other.

        If `is_fresh` is True, the node was just read, and the first commit uses this state. If it is False, the first
        commit reads the node again.
        """
        latest: CachedNode | None = None
        waiting = deque(batches)
        while waiting:
            batch = waiting.popleft()
            batch.cached = latest or batch.cached
            node = batch.cached.current
            try:
                appended = self.append(node.key, batch.revise, actor=Actor.INGEST, current=node if is_fresh else None)
                latest, is_fresh = self._finish(batch, appended), True
                waiting.extendleft(batch.rest(latest))
            except Exception as error:  # noqa: BLE001 - it concerns this node only, and is logged
                is_fresh = False
                waiting.extendleft(reversed(self._single_records(batch, error)))

    def _isolate(self, batch: NodeBatch, error: Exception) -> None:
        self._commit_in_order(self._single_records(batch, error), is_fresh=False)

    def _single_records(self, batch: NodeBatch, error: Exception) -> list[NodeBatch]:
        """Return a batch for each record of a batch that failed unexpectedly.

        If the records cannot be processed separately, they go back to the queue and the result is empty.
        """
        singles = [] if isinstance(error, Transient) else batch.single_records()
        if singles:
            log_cause(
                "node_batch_split",
                reason=describe(error),
                level=logging.WARNING,
                cluster=batch.node.cluster,
                node=batch.node.node,
                records=len(singles),
            )
        else:
            self._give_back(batch.parts, batch.node, error)
        return singles

    def _finish(self, batch: NodeBatch, appended: Appended) -> CachedNode:
        if batch.compared.alone:
            self.counter_store.write_alone(batch.compared)
        latest = batch.unwritten or CachedNode(appended.state, appended.state)
        self.node_cache.update(latest)
        for part, _ in batch.parts:
            record_id = part.record.record_id
            self.result.set_outcome(record_id, batch.outcomes.get(record_id, Outcome.CLEAN))
        return latest

    def _give_back(self, parts: ResolvedParts, node: NodeKey, error: Exception) -> None:
        for part, _ in parts:
            self.result.give_back(part.delivery, error, GiveBackReason.STATE_UNAVAILABLE, node)
