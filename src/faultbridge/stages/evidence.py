"""Evidence: a fault whose excerpt was cut says where the whole record is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from faultbridge.domain.faults import Fault, Observation, Survey, faults_of

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
    if isinstance(observation, Survey):
        return replace(observation, present=tuple(_with_place(fault, place) for fault in observation.present))
    return _with_place(observation, place) if isinstance(observation, Fault) else observation


def _with_place(fault: Fault, place: str) -> Fault:
    if not _is_cut(fault):
        return fault
    return replace(fault, attributes={**fault.attributes, "evidence_object": place})


def _is_cut(fault: Fault) -> bool:
    return fault.evidence.endswith(ELLIPSIS)
