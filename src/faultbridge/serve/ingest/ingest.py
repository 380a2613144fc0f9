"""Ingest: turns a batch of raw records into conditions, cases and entries, node by node.

A message contains one record or several of one sender. A record is rejected at once if it cannot be read, or if its
node is unknown. An AWS event about an unknown instance is ignored instead. `GiveBackReason` lists why a message goes
back to the queue. An error affects only its record or node. A record that fails unexpectedly even when it is processed
alone is rejected. Each record that does not go back gets exactly one outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.errors import Conflict, Rejected, Transient
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import AliasRow, NodeKey
from faultbridge.model.records import CANARY, Outcome, RawRecord
from faultbridge.model.storage import keys
from faultbridge.model.storage.heartbeats import SnapshotTimes
from faultbridge.model.storage.writes import Absent, AnyOf, Below, Delete, Item, Key, Update
from faultbridge.model.times import to_milliseconds
from faultbridge.record.append import Append
from faultbridge.record.rulebook import Rulebook
from faultbridge.serve.ingest.caches import CachedNode, FoundNode, NodeCache, NodeLookup
from faultbridge.serve.ingest.counter_store import CounterStore
from faultbridge.serve.ingest.heartbeat_log import HeartbeatLog, read_snapshots, record_heartbeats
from faultbridge.serve.ingest.node_batch import (
    BatchReads,
    NodeCommits,
    current_heartbeats,
    first_new_fault,
    sample_keys,
)
from faultbridge.serve.ingest.outcomes import GiveBackReason, IngestResult, process_isolated
from faultbridge.serve.ingest.record_reader import WHOLE_SOURCES, BodyBudget, Delivery, RecordPart, RecordReader

if TYPE_CHECKING:
    from faultbridge.record.ports.table import Clock, Table


# Poison messages: detects a message that stops the worker process each time it is processed.
#
# A high receive count does not prove this, because during an outage a message is received again every few minutes. A
# message that was received often is therefore processed alone. The attempt is counted before it starts, and the count
# is deleted after it finished. A message with three attempts that did not finish is rejected.

ALONE_FROM_RECEIVES = 6
"""Number of receives from which a message is processed alone."""

MAX_ATTEMPTS = 3
COUNT_TTL = timedelta(days=1)


class PoisonMessages(Struct, frozen=True):
    """Counts the unfinished attempts of messages that are processed alone.

    Every method may raise Transient. If `start_attempt` raises it, no attempt may start.
    """

    table: Table
    clock: Clock

    def start_attempt(self, message: str) -> bool:
        """Count a new attempt and return True.

        If three attempts have started and none has finished, count nothing and return False.
        """
        key = keys.poison_message(message)
        expires = to_milliseconds(self.clock.now() + COUNT_TTL) // 1000
        counted = Update(
            key,
            set={("expires_at",): expires},
            add={"n": 1},
            when=AnyOf((Absent(), Below("n", MAX_ATTEMPTS))),
        )
        try:
            self.table.write(counted)
        except Conflict:
            found = self.table.get(key)
            if found is None or int(str(found["n"])) < MAX_ATTEMPTS:
                raise
            return False
        return True

    def clear(self, message: str) -> None:
        """Delete the count of a message whose attempt finished."""
        self.table.write(Delete(keys.poison_message(message)))


MAX_RECORDS = 100
"""Maximum number of records that are processed together: as many as a batch has messages."""

PartsByNode = dict[NodeKey, tuple[ClusterConfig, list[tuple[RecordPart, AliasRow]]]]
StoreReject = Callable[[Delivery, RawRecord | None, Rejected], None]
StoreWhole = Callable[[RawRecord], Outcome]


class Ingest(Struct, frozen=True):
    """Processes messages of the queue of raw records.

    `reject` stores a rejected record, `canary` records a canary (a test record), and `job_report` records a job report.
    """

    node_cache: NodeCache
    node_lookup: NodeLookup
    append: Append
    rulebook: Rulebook
    reader: RecordReader
    counter_store: CounterStore
    poison_messages: PoisonMessages
    heartbeats: HeartbeatLog
    reject: StoreReject
    canary: StoreWhole
    job_report: StoreWhole

    def ingest(self, deliveries: Sequence[Delivery]) -> IngestResult:
        """Process a batch of messages; return the outcomes of its records and the messages to deliver again.

        An invalid record is rejected. Records of messages that were received often are processed alone, because one of
        them may stop the worker. Bodies from the object store are decoded last, one by one, so that no other record
        waits for a large body. A message goes back to the queue if one of its records does. When its other records are
        processed again, their effects do not apply again.
        """
        records = [record for delivery in deliveries for record in delivery.records()]
        inline = [record for record in records if not record.is_pointing]
        together = iter([record for record in inline if record.receives < ALONE_FROM_RECEIVES])
        result = IngestResult()
        while some := list(islice(together, MAX_RECORDS)):
            result.merge(self._process(some))
        for record in inline:
            if record.receives >= ALONE_FROM_RECEIVES:
                result.merge(self._process_alone(record))
        # Those delivered most often first, so that each has its turn.
        pointing = sorted((record for record in records if record.is_pointing), key=lambda one: -one.receives)
        self._process_pointing(pointing, result)
        result.failed = {one.message_id: result.failed[one.id] for one in reversed(records) if one.id in result.failed}
        return result

    def _process_pointing(self, deliveries: Iterable[Delivery], result: IngestResult) -> None:
        budget = BodyBudget()
        for record in deliveries:
            if budget.is_used_up:
                error = Transient("other bodies were decoded first")
                result.give_back(record, error, GiveBackReason.BODIES_POSTPONED)
            elif record.receives >= ALONE_FROM_RECEIVES:
                result.merge(self._process_alone(record, budget))
            else:
                result.merge(self._process([record], budget))

    def _process_alone(self, delivery: Delivery, budget: BodyBudget | None = None) -> IngestResult:
        """Process one record, whose message was received often, separately from all others.

        The record is rejected if it fails with an unexpected error, or after it stopped its worker three times.
        """
        result = IngestResult()
        try:
            if self.poison_messages.start_attempt(delivery.id):
                _log(delivery, "message_processed_alone", f"received {delivery.receives} times")
                result = self._process([delivery], budget)
                if result.failed.get(delivery.id) is GiveBackReason.UNEXPECTED_ERROR:
                    self._reject_failed(delivery, result)
            else:
                detail = f"the worker stopped in {MAX_ATTEMPTS} attempts to process this message alone"
                _log(delivery, "poison_message_rejected", detail, level=logging.WARNING)
                self._reject(delivery, None, Rejected("kills_worker", detail), result)
            self.poison_messages.clear(delivery.id)
        except Exception as error:  # noqa: BLE001 - it concerns this message only, and is logged
            result = IngestResult()  # the next delivery gives the record its outcome
            result.give_back(delivery, error, GiveBackReason.POISON_CHECK_UNAVAILABLE)
        return result

    def _reject_failed(self, delivery: Delivery, result: IngestResult) -> None:
        detail = f"an unexpected error in {delivery.receives} deliveries; the log line record_given_back names it"
        _log(delivery, "failing_message_rejected", detail, level=logging.WARNING)
        del result.failed[delivery.id]
        self._reject(delivery, None, Rejected("unexpected_error", detail), result)

    def _process(self, deliveries: Sequence[Delivery], budget: BodyBudget | None = None) -> IngestResult:
        result = IngestResult()
        parts = [part for delivery in deliveries for part in self._read(delivery, result, budget)]
        by_node = self._find_nodes(parts, result)
        cached, samples = self._read_nodes(by_node, result)
        snapshots = self._read_snapshots(by_node, cached, result)
        by_node = {node: by_node[node] for node in cached if node in snapshots}
        heartbeats = [
            (key, part) for key, (_, parts) in by_node.items() for part in current_heartbeats(cached[key].stored, parts)
        ]
        logged = {node for node, part in heartbeats if self._will_be_written(node, part)}
        reads = BatchReads(cached, samples, snapshots, logged)
        NodeCommits(self.append, self.rulebook, self.counter_store, self.node_cache, result, reads).commit(by_node)
        if heartbeats:
            record_heartbeats(self.heartbeats, self.node_cache, heartbeats, result)
        for part in parts:
            if part.delivery.id in result.failed:
                result.outcomes.pop(part.record.record_id, None)
        return result

    def _will_be_written(self, node: NodeKey, part: RecordPart) -> bool:
        try:
            return self.heartbeats.must_write(node, part.record.received_at)
        except Exception:  # noqa: BLE001 - it concerns one cluster, and `record_heartbeats` gives its heartbeats back
            return False

    def _read(self, delivery: Delivery, result: IngestResult, budget: BodyBudget | None) -> Iterable[RecordPart]:
        """Read a record and return its parts; each part has the observations about one node.

        The result is empty for a canary (a test record) or a job report, which this method records, and after an error.
        """
        unavailable = GiveBackReason.INPUT_UNAVAILABLE
        try:
            parts = self.reader.read(delivery, budget)
            unavailable = GiveBackReason.STATE_UNAVAILABLE
            for part in parts:
                result.add_unparsed(part.record.record_id, part.record.source, part.unparsed)
                if part.record.source in WHOLE_SOURCES:
                    store = self.canary if part.record.source == CANARY else self.job_report
                    result.set_outcome(part.record.record_id, store(part.record))
            return [part for part in parts if part.record.source not in WHOLE_SOURCES]
        except Rejected as error:
            self._reject(delivery, None, error, result)
        except Exception as error:  # noqa: BLE001 - it concerns this record only, and is logged
            result.give_back(delivery, error, unavailable)
        return ()

    def _reject(self, delivery: Delivery, record: RawRecord | None, error: Rejected, result: IngestResult) -> None:
        try:
            self.reject(delivery, record, error)
        except Exception as failure:  # noqa: BLE001 - as in `_read`
            result.give_back(delivery, failure, GiveBackReason.REJECTS_UNAVAILABLE)
            return
        record_id = record.record_id if record else delivery.ids().record_id
        result.set_outcome(record_id, Outcome.REJECTED)
        result.reasons[record_id] = error.reason

    def _find_nodes(self, parts: Sequence[RecordPart], result: IngestResult) -> PartsByNode:
        by_node: PartsByNode = {}
        for part, found in self._look_up(parts, result):
            if isinstance(found, Rejected):
                self._reject(part.delivery, part.record, found, result)
            elif found is None:
                result.set_outcome(part.record.record_id, Outcome.CLEAN)
            else:
                config, row = found
                by_node.setdefault(row.key, (config, []))[1].append((part, row))
        return by_node

    def _look_up(
        self, parts: Sequence[RecordPart], result: IngestResult
    ) -> list[tuple[RecordPart, FoundNode | Rejected | None]]:
        def give_back(failed: Sequence[RecordPart], error: Exception) -> None:
            for part in failed:
                result.give_back(part.delivery, error, GiveBackReason.STATE_UNAVAILABLE)

        return process_isolated(parts, self.node_lookup.find_nodes, give_back)

    def _read_nodes(
        self, by_node: PartsByNode, result: IngestResult
    ) -> tuple[dict[NodeKey, CachedNode], dict[Key, Item | None]]:
        """Return the nodes of a batch and their stored counter samples, read together.

        If a node cannot be read, its records go back to the queue. Samples that were not read are not included. They
        are read when their node is committed, so that an error affects only this node.
        """
        samples: dict[Key, Item | None] = {}

        def give_back(failed: Sequence[NodeKey], error: Exception) -> None:
            for node in failed:
                for part, _ in by_node[node][1]:
                    result.give_back(part.delivery, error, GiveBackReason.STATE_UNAVAILABLE, node)

        def read(nodes: Sequence[NodeKey]) -> Iterable[tuple[NodeKey, CachedNode]]:
            some = self.node_cache.read(nodes, (key for node in nodes for key in sample_keys(node, by_node[node][1])))
            samples.update(some.items)
            if some.error is not None:
                give_back(some.unread, some.error)
            return some.nodes.items()

        return dict(process_isolated(list(by_node), read, give_back)), samples

    def _read_snapshots(
        self, by_node: PartsByNode, cached: Mapping[NodeKey, CachedNode], result: IngestResult
    ) -> Mapping[NodeKey, SnapshotTimes]:
        """Return, by node, the times of health snapshots that were stored with heartbeats.

        They are read only for a node with a snapshot that may show a new fault. Other nodes get an empty mapping. A
        node whose times cannot be read is not in the result, and its records go back to the queue.
        """
        found = {node: first_new_fault(cached[node].stored, by_node[node][1]) for node in cached}
        oldest = {node: at for node, at in found.items() if at is not None}
        none: dict[NodeKey, SnapshotTimes] = {node: {} for node, at in found.items() if at is None}
        if not oldest:
            return none
        deliveries = {node: [part.delivery for part, _ in by_node[node][1]] for node in oldest}
        return none | dict(read_snapshots(self.heartbeats, oldest, deliveries, result))


def _log(delivery: Delivery, decision: str, reason: str, level: int = logging.INFO) -> None:
    record = delivery.ids()
    ids = {"cluster": record.cluster, "node": record.node, "record_ids": [record.record_id]}
    log_cause(decision, reason=reason, level=level, message_id=delivery.message_id, **ids)
