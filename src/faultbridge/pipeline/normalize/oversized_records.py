"""Oversized records: limit the faults of one record, and link truncated excerpts to the full record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from faultbridge.domain.faults import NODE_COMPONENT, Fault, Observation, Snapshot, faults_of

ELLIPSIS = "\u2026"
"""The last character of an excerpt that a decoder truncated."""

MAX_FAULTS = 64


def any_truncated(observations: Iterable[Observation]) -> bool:
    """Return whether the excerpt of any fault is truncated."""
    return any(_is_truncated(fault) for observation in observations for fault in faults_of(observation))


def add_evidence_object(observations: tuple[Observation, ...], key: str | None) -> tuple[Observation, ...]:
    """Add the S3 key of the full record to each fault with a truncated excerpt; None adds nothing."""
    if key is None:
        return observations
    return tuple(_with_evidence_object(observation, key) for observation in observations)


def limit_faults(observations: Iterable[Observation], source: str) -> tuple[Observation, ...]:
    """Replace a record's observations by one fault if it has more than 64 different faults."""
    observations = tuple(observations)
    # Counting all faults first is cheap, and for most records it is enough.
    total = sum(len(faults_of(observation)) for observation in observations)
    if total <= MAX_FAULTS or (different := count_conditions(observations)) <= MAX_FAULTS:
        return observations
    flood = Fault(
        source=source,
        code="agent.flood",
        component=NODE_COMPONENT,
        message=f"one record contains {different} different faults; at most {MAX_FAULTS} are read from one record",
        attributes={"faults": str(different)},
    )
    return (flood,)


def count_conditions(observations: Iterable[Observation]) -> int:
    """Return the number of conditions that observations can open: the number of different faults."""
    return len({(fault.code, fault.component) for observation in observations for fault in faults_of(observation)})


def _with_evidence_object(observation: Observation, key: str) -> Observation:
    if isinstance(observation, Snapshot):
        return replace(observation, present=tuple(_link_fault(fault, key) for fault in observation.present))
    return _link_fault(observation, key) if isinstance(observation, Fault) else observation


def _link_fault(fault: Fault, key: str) -> Fault:
    if not _is_truncated(fault):
        return fault
    return replace(fault, attributes={**fault.attributes, "evidence_object": key})


def _is_truncated(fault: Fault) -> bool:
    return fault.evidence.endswith(ELLIPSIS)
