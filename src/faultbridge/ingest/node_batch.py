"""Chunk: the records of one node that one commit takes, and what they make of the node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from faultbridge.decoders.common.gpu_count import add_gpu_count_check
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.catalog import Catalog
from faultbridge.domain.nodes import AliasRow, NodeState
from faultbridge.domain.records import Outcome
from faultbridge.domain.times import truncate
from faultbridge.ingest.caches import Known
from faultbridge.ingest.counter_store import Compared, CounterStore
from faultbridge.ingest.record_reader import Part
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.pipeline.fold.changes import Arrival
from faultbridge.pipeline.fold.write_filter import must_write
from faultbridge.pipeline.normalize.oversized_records import MAX_FAULTS, count_conditions
from faultbridge.pipeline.normalize.resolve import INCARNATION_MARGIN, match_incarnation, record_boot
from faultbridge.pipeline.observe import observe

Chunk = Sequence[tuple[Part, AliasRow]]


@dataclass(slots=True)
class ReviseByChunk:
    """Revises a node by a chunk of records, as often as it takes; what it tells afterwards is about the last time.

    `beyond` is what the worker knew of the node before; `known` is what it knows after a revision that was not worth
    a write, None after any other.
    """

    chunk: Chunk
    rules: Rules
    catalog: Catalog
    readings: CounterStore
    beyond: Known
    known: Known | None = None
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    compared: Compared = field(default_factory=Compared)

    def __call__(self, state: NodeState, now: datetime) -> Transition:
        """Revise the node as it was read, or as it was known beyond that."""
        learnt = state
        for part, _ in self.chunk:
            learnt = record_boot(learnt, part.record)
        arrivals = [arrival for part, row in self.chunk for arrival in _arrivals(part, row, learnt)]
        self.compared = self.readings.compare(learnt, arrivals, now)
        passed = observe(
            learnt,
            [*arrivals, *self.compared.faults],
            rebooted=_boot(learnt) > _boot(state),
            rules=self.rules,
            catalog=self.catalog,
            now=now,
        )
        self.outcomes = passed.outcomes
        stored = self.beyond.stored if state is self.beyond.now else state
        if (
            passed.drafts
            or self.compared.with_faults
            or must_write(stored, passed.state, self.rules.policy, self.catalog)
        ):
            self.known = None
            return Transition(passed.state, passed.drafts, self.compared.with_faults)
        self.known = Known(stored, passed.state)
        return Transition(state)


def chunks(placed: Chunk, state: NodeState) -> Iterator[Chunk]:
    """Cut a node's records, never within one, so that each commit holds what its faults can bring forth."""
    chunk: list[tuple[Part, AliasRow]] = []
    weighs = 0
    for part, row in ((_counted(part, state), row) for part, row in placed):
        heavy = count_conditions(part.observations)
        if chunk and weighs + heavy > MAX_FAULTS:
            yield chunk
            chunk, weighs = [], 0
        chunk.append((part, row))
        weighs += heavy
    yield chunk


def _counted(part: Part, state: NodeState) -> Part:
    """Compare what a look at the node saw with the GPUs of its instance type, once the node has had time to boot."""
    instance_type, sitting = state.placement.instance_type, state.incarnation
    if instance_type is None or sitting is None or part.record.sent_at < sitting.since + INCARNATION_MARGIN:
        return part
    return replace(part, observations=add_gpu_count_check(part.observations, instance_type))


def _boot(state: NodeState) -> int:
    return state.incarnation.boot if state.incarnation else 0


def _arrivals(part: Part, row: AliasRow, state: NodeState) -> Iterator[Arrival]:
    for observation in part.observations:
        at = truncate(observation.observed_at or part.record.sent_at)
        yield Arrival(
            observation, at, part.record.record_id, match_incarnation(state, part.record, row.instance_id, at)
        )
