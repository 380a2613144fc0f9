"""Evidence: a fault whose excerpt was cut says where the whole record is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from faultbridge.domain.faults import NODE_COMPONENT, Fault, Observation, Snapshot, faults_of

ELLIPSIS = "\u2026"
"""How a decoder marks that it cut an excerpt short."""


def any_cut(observations: Iterable[Observation]) -> bool:
    """Tell whether any excerpt is less than its source said."""
    return any(_is_cut(fault) for observation in observations for fault in faults_of(observation))


def keep_whole(observations: tuple[Observation, ...], place: str | None) -> tuple[Observation, ...]:
    """Note on each fault whose excerpt was cut where the whole record is kept."""
    if place is None:
        return observations
    return tuple(_noted(observation, place) for observation in observations)


def _noted(observation: Observation, place: str) -> Observation:
    if isinstance(observation, Snapshot):
        return replace(observation, present=tuple(_with_place(fault, place) for fault in observation.present))
    return _with_place(observation, place) if isinstance(observation, Fault) else observation


def _with_place(fault: Fault, place: str) -> Fault:
    if not _is_cut(fault):
        return fault
    return replace(fault, attributes={**fault.attributes, "evidence_object": place})


def _is_cut(fault: Fault) -> bool:
    return fault.evidence.endswith(ELLIPSIS)


MAX_FAULTS = 64


def limit(observations: Iterable[Observation], source: str) -> tuple[Observation, ...]:
    """Replace the faults of a record that names more than 64 by one that says how many there were."""
    observations = tuple(observations)
    # What names few faults names few different ones: most records are not looked at any closer.
    named = sum(len(faults_of(observation)) for observation in observations)
    if named <= MAX_FAULTS or (total := weight(observations)) <= MAX_FAULTS:
        return observations
    flood = Fault(
        source=source,
        code="agent.flood",
        component=NODE_COMPONENT,
        message=f"one record named {total} different faults, more than the {MAX_FAULTS} that are read from one",
        attributes={"faults": str(total)},
    )
    return (flood,)


def weight(observations: Iterable[Observation]) -> int:
    """Return how many conditions observations can open: repetitions of one fault open one."""
    return len({(fault.code, fault.component) for observation in observations for fault in faults_of(observation)})
