"""Sample limit: how many counter samples one table item stores, and the fault for excess samples.

A sender that reports very many components would otherwise make the item larger than DynamoDB accepts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from faultbridge.domain.faults import NODE_COMPONENT, Fault
from faultbridge.domain.nodes import NodeState
from faultbridge.log import log_cause
from faultbridge.pipeline.fold.changes import Arrival
from faultbridge.storage.counter_samples import LastSample

MAX_BYTES = 150_000
"""Limit of the samples in one item before compression; DynamoDB accepts 400 KB."""

_SAMPLE_BYTES, _VALUE_BYTES = 250, 24
_EXCESS = "agent.flood"
_EXCESS_REASON = f"at most {MAX_BYTES} bytes of counters are stored for each source of a node"


def fitting(ports: Mapping[str, LastSample]) -> tuple[dict[str, LastSample], int]:
    """Return the latest counter samples that fit into one table item, and how many do not fit."""
    room, kept = MAX_BYTES, set()
    for name in sorted(ports, key=lambda name: ports[name].at, reverse=True):
        room -= _size(name, ports[name])
        if room < 0:
            break
        kept.add(name)
    return {name: port for name, port in ports.items() if name in kept}, len(ports) - len(kept)


def _size(name: str, port: LastSample) -> int:
    values = sum(_VALUE_BYTES + len(key) + len(str(value).encode()) for key, value in port.values.items())
    return _SAMPLE_BYTES + 2 * len(name.encode()) + values


def excess_fault(arrival: Arrival, excess: int) -> Arrival:
    """Return the fault that reports that counters of `excess` components are not stored.

    `arrival` is one of the compared samples. The fault has the time, record and instance of this sample.
    """
    message = f"the counters of {excess} components are not compared: {_EXCESS_REASON}"
    source, attributes = arrival.observation.source, {"components": str(excess)}
    return replace(arrival, observation=Fault(source, _EXCESS, NODE_COMPONENT, message, attributes=attributes))


def log_excess(state: NodeState, faults: Iterable[Arrival]) -> None:
    """Log, for each fault from `excess_fault`, the number of components whose counters are not stored."""
    for fault in (arrival.observation for arrival in faults):
        if isinstance(fault, Fault) and fault.code == _EXCESS:
            log_cause(
                "counters_not_stored",
                reason=_EXCESS_REASON,
                cluster=state.key.cluster,
                node=state.key.node,
                source=fault.source,
                components=int(fault.attributes["components"]),
            )
