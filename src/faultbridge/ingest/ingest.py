"""Ingest: processes a batch of raw records into conditions, cases and entries, node by node.

Each record gets exactly one outcome. A record that cannot be read, or whose node is not registered, is rejected at
once. A message goes back to the queue only if a dependency failed or other writers were always first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.edges import Actor
from faultbridge.domain.nodes import AliasRow, NodeKey
from faultbridge.domain.records import CANARY, Outcome, RawRecord
from faultbridge.errors import Conflict, Rejected, Transient
from faultbridge.ingest.caches import CachedNode, NodeCache
from faultbridge.ingest.counter_store import CounterStore
from faultbridge.ingest.heartbeat_monitor import HeartbeatMonitor, current_heartbeats
from faultbridge.ingest.node_batch import DraftedBatch, NodeBatch, ResolvedParts, group_commits, split_records
from faultbridge.ingest.node_lookup import NodeLookup
from faultbridge.ingest.outcomes import GiveBackReason, IngestResult
from faultbridge.ingest.poison_messages import ALONE_FROM_RECEIVES, MAX_ATTEMPTS, PoisonMessages
from faultbridge.ingest.record_reader import Delivery, RecordPart, RecordReader
from faultbridge.ledger.append import Append, Appended
from faultbridge.log import log_cause
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.rules.rulebook import Rulebook

PartsByNode = dict[NodeKey, tuple[ClusterConfig, list[tuple[RecordPart, AliasRow]]]]
StoreReject = Callable[[Delivery, RawRecord | None, Rejected], None]
StoreCanary = Callable[[RawRecord], Outcome]


@dataclass(frozen=True, slots=True)
class Ingest:
    """Processes deliveries of the raw queue.

    `reject` stores a rejected record, and `canary` records a canary.
    """

    node_cache: NodeCache
    node_lookup: NodeLookup
    append: Append
    rulebook: Rulebook
    reader: RecordReader
    counter_store: CounterStore
    poison_messages: PoisonMessages
    heartbeats: HeartbeatMonitor
    reject: StoreReject
    canary: StoreCanary

    def __call__(self, deliveries: Sequence[Delivery]) -> IngestResult:
        """Process a batch and return the outcome of each record. An invalid record is rejected.

        Messages that were received often are processed alone, because one of them may stop the worker.
        """
        alone = [delivery for delivery in deliveries if delivery.receives >= ALONE_FROM_RECEIVES]
        result = self._process([delivery for delivery in deliveries if delivery not in alone])
        for delivery in alone:
            result.merge(self._process_alone(delivery))
        return result

    def _process_alone(self, delivery: Delivery) -> IngestResult:
        """Process one message that was received often, and reject it when it stopped its worker three times."""
        result = IngestResult()
        try:
            if self.poison_messages.start_attempt(delivery.id):
                _log(delivery, "message_processed_alone", f"received {delivery.receives} times")
                result = self._process([delivery])
            else:
                detail = f"the worker stopped in {MAX_ATTEMPTS} attempts to process this message alone"
                _log(delivery, "poison_message_rejected", detail, level=logging.WARNING)
                self._reject(delivery, None, Rejected("kills_worker", detail), result)
            self.poison_messages.clear(delivery.id)
        except Transient as error:
            result.give_back(delivery, error, GiveBackReason.POISON_CHECK_UNAVAILABLE)
        return result

    def _process(self, deliveries: Sequence[Delivery]) -> IngestResult:
        result = IngestResult()
        parts = [part for delivery in deliveries for part in self._read(delivery, result)]
        by_node = self._find_nodes(parts, result)
        cached = self.node_cache.read(by_node)
        for group in group_commits(self._drafts(by_node, cached, result)):
            self._commit(group, result)
        self._record_heartbeats(by_node, cached, result)
        for part in parts:
            if part.delivery.id in result.failed:
                result.outcomes.pop(part.record.record_id, None)
        return result

    def _read(self, delivery: Delivery, result: IngestResult) -> Iterable[RecordPart]:
        """Return the parts of a delivery. A canary is recorded here and has no parts."""
        unavailable = GiveBackReason.INPUT_UNAVAILABLE
        try:
            parts = self.reader.read(delivery)
            unavailable = GiveBackReason.STATE_UNAVAILABLE
            for part in parts:
                result.add_unparsed(part.record.record_id, part.record.source, part.unparsed)
                if part.record.source == CANARY:
                    result.set_outcome(part.record.record_id, self.canary(part.record))
            return [part for part in parts if part.record.source != CANARY]
        except Rejected as error:
            self._reject(delivery, None, error, result)
        except Transient as error:
            result.give_back(delivery, error, unavailable)
        return ()

    def _reject(self, delivery: Delivery, record: RawRecord | None, error: Rejected, result: IngestResult) -> None:
        try:
            self.reject(delivery, record, error)
        except Transient as failure:
            result.give_back(delivery, failure, GiveBackReason.REJECTS_UNAVAILABLE)
            return
        record_id = record.record_id if record else delivery.ids().record_id
        result.set_outcome(record_id, Outcome.REJECTED)
        result.reasons[record_id] = error.reason

    def _find_nodes(self, parts: Sequence[RecordPart], result: IngestResult) -> PartsByNode:
        by_node: PartsByNode = {}
        for part, found in self.node_lookup(parts):
            if isinstance(found, Rejected):
                self._reject(part.delivery, part.record, found, result)
            elif found is None:
                result.set_outcome(part.record.record_id, Outcome.CLEAN)
            else:
                config, row = found
                by_node.setdefault(row.key, (config, []))[1].append((part, row))
        return by_node

    def _record_heartbeats(
        self, by_node: PartsByNode, cached: Mapping[NodeKey, CachedNode], result: IngestResult
    ) -> None:
        """Store the heartbeats of a batch; if that fails, all of them go back to the queue."""
        heartbeats = [
            heartbeat
            for node, (_, parts) in by_node.items()
            for heartbeat in current_heartbeats(node, cached[node].stored, parts)
        ]
        try:
            ordered = sorted(heartbeats, key=_received_at)
            self.heartbeats.record({node: part.record.received_at for node, part in ordered})
        except Transient as error:
            for node, part in heartbeats:
                result.give_back(part.delivery, error, GiveBackReason.HEARTBEATS_UNAVAILABLE, node)

    def _drafts(
        self, by_node: PartsByNode, cached: Mapping[NodeKey, CachedNode], result: IngestResult
    ) -> Iterator[DraftedBatch]:
        """Yield a draft for each node whose records fit in one commit, and commit other nodes at once."""
        for node, (config, parts) in by_node.items():
            rules = self.rulebook.rules(config)
            batches = (self._batch(some, rules, cached[node]) for some in split_records(parts, cached[node].current))
            first, *others = batches
            if others:
                self._commit_in_order([first, *others], result)
                continue
            try:
                appended, writes = self.append.draft(
                    cached[node].current, first, actor=Actor.INGEST, config=rules.config
                )
            except Transient as error:
                _give_back(first, error, result)
            else:
                yield DraftedBatch(first, appended, writes)

    def _commit(self, group: Sequence[DraftedBatch], result: IngestResult) -> None:
        """Commit a group in one transaction. After a conflict, commit its nodes one by one."""
        try:
            self.append.commit([write for draft in group for write in draft.writes])
        except Transient as error:
            if len(group) == 1 and not isinstance(error, Conflict):
                _give_back(group[0].batch, error, result)
                return
            nodes = [draft.batch.cached.stored.key.stream for draft in group]
            log_cause("commit_group_split", reason=str(error), nodes=nodes)
            for draft in group:
                self._commit_in_order([draft.batch], result, is_fresh=False)
        else:
            for draft in group:
                try:
                    self._finish(draft.batch, draft.appended, result)
                except Transient as error:
                    _give_back(draft.batch, error, result)

    def _batch(self, parts: ResolvedParts, rules: Rules, cached: CachedNode) -> NodeBatch:
        return NodeBatch(parts, rules, self.rulebook.catalog(), self.counter_store, cached)

    def _commit_in_order(self, batches: Iterable[NodeBatch], result: IngestResult, *, is_fresh: bool = True) -> None:
        """Commit batches of one node one after the other. `is_fresh` means that the node was just read."""
        latest: CachedNode | None = None
        for batch in batches:
            batch.cached = latest or batch.cached
            node, config = batch.cached.current, batch.rules.config
            try:
                appended = self.append(
                    node.key, batch, actor=Actor.INGEST, config=config, current=node if is_fresh else None
                )
                latest, is_fresh = self._finish(batch, appended, result), True
            except Transient as error:
                is_fresh = False
                _give_back(batch, error, result)

    def _finish(self, batch: NodeBatch, appended: Appended, result: IngestResult) -> CachedNode:
        """Store counters without faults, update the node cache, and set the outcomes of a committed batch."""
        self.counter_store.write_alone(batch.compared)
        latest = batch.unwritten or CachedNode(appended.state, appended.state)
        self.node_cache.update(latest)
        for part, _ in batch.parts:
            record_id = part.record.record_id
            result.set_outcome(record_id, batch.outcomes.get(record_id, Outcome.CLEAN))
        return latest


def _give_back(batch: NodeBatch, error: Transient, result: IngestResult) -> None:
    for part, _ in batch.parts:
        result.give_back(part.delivery, error, GiveBackReason.STATE_UNAVAILABLE, batch.cached.stored.key)


def _received_at(heartbeat: tuple[NodeKey, RecordPart]) -> datetime:
    return heartbeat[1].record.received_at


def _log(delivery: Delivery, decision: str, reason: str, level: int = logging.INFO) -> None:
    record = delivery.ids()
    ids = {"cluster": record.cluster, "node": record.node, "record_ids": [record.record_id]}
    log_cause(decision, reason=reason, level=level, message_id=delivery.id, **ids)
