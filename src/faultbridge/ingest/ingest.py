"""Ingest: a batch of raw records into conditions, cases and entries, folded node by node.

A record has exactly one outcome. What cannot be read or placed goes to the rejects on first sight; what could not be
written because something was in the way is given back to the queue, and nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.edges import Actor
from faultbridge.domain.nodes import AliasRow, NodeKey
from faultbridge.domain.records import CANARY, Outcome, RawRecord
from faultbridge.errors import Conflict, Rejected, Transient
from faultbridge.ingest.caches import Known, NodeCache
from faultbridge.ingest.commit_groups import Drafted, together
from faultbridge.ingest.counter_store import CounterStore
from faultbridge.ingest.heartbeat_monitor import HeartbeatMonitor, beats
from faultbridge.ingest.node_batch import Chunk, ReviseByChunk, chunks
from faultbridge.ingest.node_lookup import Placement
from faultbridge.ingest.poison_messages import SUSPICIOUS_FROM, PoisonMessages
from faultbridge.ingest.record_reader import Delivery, Part, Reader
from faultbridge.ledger.append import Append, Appended
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.rules.rulebook import Rulebook

Placed = dict[NodeKey, tuple[ClusterConfig, list[tuple[Part, AliasRow]]]]
RejectRecord = Callable[[Delivery, RawRecord | None, Rejected], None]
KeepRecord = Callable[[RawRecord], Outcome]


@dataclass(slots=True)
class Ingested:
    """What became of a batch: the deliveries to be given back, and the outcome of each record."""

    failed: set[str] = field(default_factory=set)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def settle(self, record_id: str, outcome: Outcome) -> None:
        """Note the outcome of a record; the strongest one stands."""
        best = self.outcomes.get(record_id, Outcome.CLEAN)
        self.outcomes[record_id] = max(best, outcome, key=lambda one: one.rank)

    def join(self, other: Ingested) -> None:
        """Take over what became of another part of the batch."""
        self.failed |= other.failed
        self.outcomes |= other.outcomes
        self.reasons |= other.reasons


@dataclass(frozen=True, slots=True)
class Ingest:
    """Takes deliveries of the raw queue; `reject` keeps a record that nobody can use, `canary` one of our own."""

    nodes: NodeCache
    placement: Placement
    append: Append
    rulebook: Rulebook
    reader: Reader
    readings: CounterStore
    poison_messages: PoisonMessages
    silence: HeartbeatMonitor
    reject: RejectRecord
    canary: KeepRecord

    def __call__(self, deliveries: Sequence[Delivery]) -> Ingested:
        """Work a batch; raises nothing for one bad record, and gives back what only time can mend."""
        poison_messages = [delivery for delivery in deliveries if delivery.receives >= SUSPICIOUS_FROM]
        ingested = self._work([delivery for delivery in deliveries if delivery not in poison_messages])
        for suspect in poison_messages:
            ingested.join(self._work_alone(suspect))
        return ingested

    def _work_alone(self, suspect: Delivery) -> Ingested:
        ingested = Ingested()
        try:
            if self.poison_messages.begin(suspect.id):
                ingested = self._work([suspect])
            else:
                killer = Rejected("kills_worker", "its worker died three times while it was worked alone")
                self._reject(suspect, None, killer, ingested)
            self.poison_messages.clear(suspect.id)
        except Transient:
            ingested.failed.add(suspect.id)
        return ingested

    def _work(self, deliveries: Sequence[Delivery]) -> Ingested:
        ingested = Ingested()
        parts = [part for delivery in deliveries for part in self._read(delivery, ingested)]
        placed = self._place(parts, ingested)
        known = self.nodes.read(placed)
        for group in together(self._drafts(placed, known, ingested)):
            self._commit(group, ingested)
        self._hear(placed, known, ingested)
        for part in parts:
            if part.delivery.id in ingested.failed:
                ingested.outcomes.pop(part.record.record_id, None)
        return ingested

    def _read(self, delivery: Delivery, ingested: Ingested) -> Iterable[Part]:
        try:
            parts = self.reader.read(delivery)
            for part in parts:
                if part.record.source == CANARY:
                    ingested.settle(part.record.record_id, self.canary(part.record))
            return [part for part in parts if part.record.source != CANARY]
        except Rejected as error:
            self._reject(delivery, None, error, ingested)
        except Transient:
            ingested.failed.add(delivery.id)
        return ()

    def _reject(self, delivery: Delivery, record: RawRecord | None, error: Rejected, ingested: Ingested) -> None:
        try:
            self.reject(delivery, record, error)
        except Transient:
            ingested.failed.add(delivery.id)
            return
        record_id = record.record_id if record else self.reader.record_id(delivery)
        ingested.settle(record_id, Outcome.REJECTED)
        ingested.reasons[record_id] = error.reason

    def _place(self, parts: Sequence[Part], ingested: Ingested) -> Placed:
        placed: Placed = {}
        for part, place in self.placement(parts):
            if isinstance(place, Rejected):
                self._reject(part.delivery, part.record, place, ingested)
            elif place is None:
                ingested.settle(part.record.record_id, Outcome.CLEAN)
            else:
                config, row = place
                placed.setdefault(row.key, (config, []))[1].append((part, row))
        return placed

    def _hear(self, placed: Placed, known: Mapping[NodeKey, Known], ingested: Ingested) -> None:
        heard = [beat for node, (_, found) in placed.items() for beat in beats(node, known[node].stored, found)]
        try:
            self.silence.heard({node: part.record.sent_at for node, part in sorted(heard, key=_sent)})
        except Transient:
            ingested.failed.update(part.delivery.id for _, part in heard)

    def _drafts(self, placed: Placed, known: Mapping[NodeKey, Known], ingested: Ingested) -> Iterator[Drafted]:
        """Revise the nodes whose records are one chunk; what comes in several is committed at once, chunk by chunk."""
        for node, (config, found) in placed.items():
            rules = self.rulebook.rules(config)
            first, *others = (self._revising(chunk, rules, known[node]) for chunk in chunks(found, known[node].now))
            if others:
                self._fold([first, *others], ingested)
                continue
            try:
                appended, writes = self.append.draft(known[node].now, first, actor=Actor.INGEST, config=rules.config)
            except Transient:
                _give_back(first, ingested)
            else:
                yield Drafted(first, appended, writes)

    def _commit(self, group: Sequence[Drafted], ingested: Ingested) -> None:
        try:
            self.append.commit([write for one in group for write in one.writes])
        except Transient as error:
            lost_alone = len(group) == 1 and not isinstance(error, Conflict)
            for one in group:
                if lost_alone:
                    _give_back(one.revising, ingested)
                else:  # each by itself: whoever is in the way stands in nobody else's
                    self._fold([one.revising], ingested, read=False)
        else:
            for one in group:
                try:
                    self._settle(one.revising, one.appended, ingested)
                except Transient:
                    _give_back(one.revising, ingested)

    def _revising(self, chunk: Chunk, rules: Rules, known: Known) -> ReviseByChunk:
        return ReviseByChunk(chunk, rules, self.rulebook.catalog(), self.readings, known)

    def _fold(self, revisions: Iterable[ReviseByChunk], ingested: Ingested, *, read: bool = True) -> None:
        """Commit revisions of one node, one after the other; `read` tells that the node was just read."""
        latest: Known | None = None
        for revising in revisions:
            revising.beyond = latest or revising.beyond
            known, config = revising.beyond.now, revising.rules.config
            try:
                appended = self.append(
                    known.key, revising, actor=Actor.INGEST, config=config, current=known if read else None
                )
                latest, read = self._settle(revising, appended, ingested), True
            except Transient:
                read = False
                _give_back(revising, ingested)

    def _settle(self, revising: ReviseByChunk, appended: Appended, ingested: Ingested) -> Known:
        """Keep what goes with a commit that holds, and tell what became of its records."""
        self.readings.keep(revising.compared)
        latest = revising.known or Known(appended.state, appended.state)
        self.nodes.keep(latest)
        for part, _ in revising.chunk:
            record_id = part.record.record_id
            ingested.settle(record_id, revising.outcomes.get(record_id, Outcome.CLEAN))
        return latest


def _give_back(revising: ReviseByChunk, ingested: Ingested) -> None:
    ingested.failed.update(part.delivery.id for part, _ in revising.chunk)


def _sent(beat: tuple[NodeKey, Part]) -> datetime:
    return beat[1].record.sent_at
