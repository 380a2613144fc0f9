"""Ingest: a batch of raw records into conditions, cases and entries, folded node by node.

A record has exactly one outcome. What cannot be read or placed goes to the rejects on first sight; what could not be
written because something was in the way is given back to the queue, and nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from faultbridge.decoders.gpu_count import counted
from faultbridge.domain.aliases import AliasRow
from faultbridge.domain.catalogue import Catalogue
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.edges import Actor
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.domain.records import Outcome, RawRecord
from faultbridge.domain.times import truncate
from faultbridge.errors import Rejected, Transient
from faultbridge.pipeline import observe
from faultbridge.ports import Table
from faultbridge.services.append import Append, Revision
from faultbridge.services.placement import Placement
from faultbridge.services.readings import Compared, Readings
from faultbridge.services.records import Delivery, Part, Reader
from faultbridge.services.rulebook import Rulebook
from faultbridge.services.silence import Silence, beats
from faultbridge.services.suspects import SUSPICIOUS_FROM, Suspects
from faultbridge.stages.changes import Arrival
from faultbridge.stages.decide import Rules
from faultbridge.stages.limit import MOST_FAULTS, weight
from faultbridge.stages.resolve import MARGIN, learn_boot, sits
from faultbridge.stages.worth import worth_writing
from faultbridge.storage import items, keys

Placed = dict[NodeKey, tuple[ClusterConfig, list[tuple[Part, AliasRow]]]]
RejectRecord = Callable[[Delivery, RawRecord | None, Rejected], None]


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
    """Takes deliveries of the raw queue; `reject` keeps a record that nobody can use, with its reason."""

    table: Table
    placement: Placement
    append: Append
    rulebook: Rulebook
    reader: Reader
    readings: Readings
    suspects: Suspects
    silence: Silence
    reject: RejectRecord

    def __call__(self, deliveries: Sequence[Delivery]) -> Ingested:
        """Work a batch; raises nothing for one bad record, and gives back what only time can mend."""
        suspects = [delivery for delivery in deliveries if delivery.receives >= SUSPICIOUS_FROM]
        ingested = self._work([delivery for delivery in deliveries if delivery not in suspects])
        for suspect in suspects:
            ingested.join(self._work_alone(suspect))
        return ingested

    def _work_alone(self, suspect: Delivery) -> Ingested:
        ingested = Ingested()
        try:
            if self.suspects.begin(suspect.id):
                ingested = self._work([suspect])
            else:
                killer = Rejected("kills_worker", "its worker died three times while it was worked alone")
                self._reject(suspect, None, killer, ingested)
            self.suspects.clear(suspect.id)
        except Transient:
            ingested.failed.add(suspect.id)
        return ingested

    def _work(self, deliveries: Sequence[Delivery]) -> Ingested:
        ingested = Ingested()
        parts = [part for delivery in deliveries for part in self._read(delivery, ingested)]
        placed = self._place(parts, ingested)
        states = self._states(placed)
        for node, (config, found) in placed.items():
            parts_of_node = [(_counted(part, states[node]), row) for part, row in found]
            self._fold(states[node], self.rulebook.rules(config), parts_of_node, ingested)
        self._hear(placed, states, ingested)
        for part in parts:
            if part.delivery.id in ingested.failed:
                ingested.outcomes.pop(part.record.record_id, None)
        return ingested

    def _read(self, delivery: Delivery, ingested: Ingested) -> Iterable[Part]:
        try:
            return self.reader.read(delivery)
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

    def _states(self, nodes: Iterable[NodeKey]) -> Mapping[NodeKey, NodeState]:
        wanted = {node: keys.node_state(node) for node in nodes}
        found = self.table.get_many(wanted.values()) if wanted else {}
        return {node: items.read_state(node, found.get(key)) for node, key in wanted.items()}

    def _hear(self, placed: Placed, states: Mapping[NodeKey, NodeState], ingested: Ingested) -> None:
        heard = [beat for node, (_, found) in placed.items() for beat in beats(node, states[node], found)]
        try:
            self.silence.heard({node: part.record.sent_at for node, part in sorted(heard, key=_sent)})
        except Transient:
            ingested.failed.update(part.delivery.id for _, part in heard)

    def _fold(
        self, state: NodeState, rules: Rules, placed: Sequence[tuple[Part, AliasRow]], ingested: Ingested
    ) -> None:
        known: NodeState | None = state
        for chunk in _chunks(placed):
            folding = _Folding(chunk, rules, self.rulebook.catalogue(), self.readings)
            try:
                appended = self.append(state.key, folding, actor=Actor.INGEST, config=rules.config, known=known)
                known = appended.state
                self.readings.keep(folding.compared)
            except Transient:
                known = None
                ingested.failed.update(part.delivery.id for part, _ in chunk)
                continue
            for part, _ in chunk:
                record_id = part.record.record_id
                ingested.settle(record_id, folding.outcomes.get(record_id, Outcome.CLEAN))


Chunk = Sequence[tuple[Part, AliasRow]]


@dataclass(slots=True)
class _Folding:
    """Revises a node by a chunk of records, as often as it takes; the outcomes are those of the last time."""

    chunk: Chunk
    rules: Rules
    catalogue: Catalogue
    readings: Readings
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    compared: Compared = field(default_factory=Compared)

    def __call__(self, state: NodeState, now: datetime) -> Revision:
        learnt = state
        for part, _ in self.chunk:
            learnt = learn_boot(learnt, part.record)
        arrivals = [arrival for part, row in self.chunk for arrival in _arrivals(part, row, learnt)]
        self.compared = self.readings.compare(learnt, arrivals, now)
        passed = observe(
            learnt,
            [*arrivals, *self.compared.faults],
            rebooted=_boot(learnt) > _boot(state),
            rules=self.rules,
            catalogue=self.catalogue,
            now=now,
        )
        self.outcomes = passed.outcomes
        if not passed.drafts and not self.compared.with_faults and not worth_writing(state, passed.state):
            return Revision(state)
        return Revision(passed.state, passed.drafts, self.compared.with_faults)


def _counted(part: Part, state: NodeState) -> Part:
    """Compare what a look at the node saw with the GPUs of its instance type, once the node has had time to boot."""
    instance_type, sitting = state.seat.instance_type, state.incarnation
    if instance_type is None or sitting is None or part.record.sent_at < sitting.since + MARGIN:
        return part
    return replace(part, observations=counted(part.observations, instance_type))


def _sent(beat: tuple[NodeKey, Part]) -> datetime:
    return beat[1].record.sent_at


def _boot(state: NodeState) -> int:
    return state.incarnation.boot if state.incarnation else 0


def _arrivals(part: Part, row: AliasRow, state: NodeState) -> Iterator[Arrival]:
    for observation in part.observations:
        at = truncate(observation.observed_at or part.record.sent_at)
        yield Arrival(observation, at, part.record.record_id, sits(state, part.record, row.instance_id, at))


def _chunks(placed: Sequence[tuple[Part, AliasRow]]) -> Iterator[Chunk]:
    """Cut a node's records, never within one, so that each commit holds what its faults can bring forth."""
    chunk: list[tuple[Part, AliasRow]] = []
    weighs = 0
    for part, row in placed:
        heavy = weight(part.observations)
        if chunk and weighs + heavy > MOST_FAULTS:
            yield chunk
            chunk, weighs = [], 0
        chunk.append((part, row))
        weighs += heavy
    yield chunk
