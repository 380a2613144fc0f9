"""Oversized records: limit the faults of one record, and link cut evidence to the full record in S3."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from datetime import datetime

from faultbridge.model.catalog import Catalog
from faultbridge.model.fault_enums import Severity
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault, Observation, Snapshot, faults_of
from faultbridge.model.values import replace

MAX_FAULTS = 64
"""Different faults of one record about one node."""

_Name = tuple[str, Component]


def add_evidence_object(observations: tuple[Observation, ...], key: str) -> tuple[Observation, ...]:
    """Add the S3 key of the full record to each fault whose evidence was cut."""
    return tuple(_with_evidence_object(observation, key) for observation in observations)


def limit_faults(observations: tuple[Observation, ...], source: str, catalog: Catalog) -> tuple[Observation, ...]:
    """Return at most 64 faults of a record: the 63 worst, and `agent.flood` with their number."""
    different = count_conditions(observations)
    if different <= MAX_FAULTS:
        return observations
    ranks: dict[_Name, int] = {}
    times: list[datetime] = []
    for fault in (fault for observation in observations for fault in faults_of(observation)):
        severity = catalog.classify(fault).severity or Severity.INFO
        ranks[_name(fault)] = max(severity.rank, ranks.get(_name(fault), 0))
        times += [fault.observed_at] if fault.observed_at else []
    kept = set(sorted(ranks, key=lambda name: -ranks[name])[: MAX_FAULTS - 1])
    flood = Fault(
        source=source,
        code="agent.flood",
        component=NODE_COMPONENT,
        message=f"one record contains {different} different faults; the {len(kept)} worst of them are recorded",
        observed_at=max(times, default=None),
        attributes={"faults": str(different)},
    )
    reduced = (_without_others(observation, kept) for observation in observations)
    return (*(observation for observation in reduced if observation is not None), flood)


def _name(fault: Fault) -> _Name:
    return fault.code, fault.component


def _without_others(observation: Observation, kept: AbstractSet[_Name]) -> Observation | None:
    """Return an observation with only the kept faults; a snapshot does not clear the removed ones."""
    if isinstance(observation, Fault):
        return observation if _name(observation) in kept else None
    if not isinstance(observation, Snapshot):
        return observation
    lost = {_name(fault) for fault in observation.present} - kept
    covers = {
        code: tuple(component for component in components if (code, component) not in lost)
        for code, components in observation.covers.items()
    }
    return replace(
        observation, covers=covers, present=tuple(fault for fault in observation.present if _name(fault) in kept)
    )


def count_conditions(observations: Iterable[Observation]) -> int:
    """Return how many conditions observations can open, which is the number of different faults."""
    return len({(fault.code, fault.component) for observation in observations for fault in faults_of(observation)})


def _with_evidence_object(observation: Observation, key: str) -> Observation:
    if isinstance(observation, Snapshot):
        return replace(observation, present=tuple(_link_fault(fault, key) for fault in observation.present))
    return _link_fault(observation, key) if isinstance(observation, Fault) else observation


def _link_fault(fault: Fault, key: str) -> Fault:
    if not fault.is_truncated:
        return fault
    return replace(fault, attributes={**fault.attributes, "evidence_object": key})
