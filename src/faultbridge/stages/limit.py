"""Limit: one record may not open more conditions than a commit can hold."""

from __future__ import annotations

from collections.abc import Iterable

from faultbridge.domain.faults import NODE_COMPONENT, Fault, Observation, faults_of

MOST_FAULTS = 64


def limit(observations: Iterable[Observation], source: str) -> tuple[Observation, ...]:
    """Replace the faults of a record that names more than 64 by one that says how many there were."""
    observations = tuple(observations)
    # What names few faults names few different ones: most records are not looked at any closer.
    named = sum(len(faults_of(observation)) for observation in observations)
    if named <= MOST_FAULTS or (total := weight(observations)) <= MOST_FAULTS:
        return observations
    flood = Fault(
        source=source,
        code="agent.flood",
        component=NODE_COMPONENT,
        message=f"one record named {total} different faults, more than the {MOST_FAULTS} that are read from one",
        attributes={"faults": str(total)},
    )
    return (flood,)


def weight(observations: Iterable[Observation]) -> int:
    """Return how many conditions observations can open: repetitions of one fault open one."""
    return len({(fault.code, fault.component) for observation in observations for fault in faults_of(observation)})
