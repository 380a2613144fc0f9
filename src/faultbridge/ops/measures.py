"""Measures: what a batch of entries adds to the figures of each cluster; how many are in which state is a gauge."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.entries import EntryType
from faultbridge.domain.times import from_text

MILLISECONDS_A_SECOND = 1000

FLEET: Mapping[str, frozenset[NodeStatus]] = {
    "NodesHealthy": frozenset({NodeStatus.HEALTHY}),
    "NodesDegraded": frozenset({NodeStatus.DEGRADED}),
    "NodesQuarantined": frozenset({NodeStatus.QUARANTINED}),
    "NodesInRepair": frozenset(
        {
            NodeStatus.DRAINING,
            NodeStatus.REPAIRING,
            NodeStatus.REPLACING,
            NodeStatus.PROVISIONING,
            NodeStatus.VALIDATING,
        }
    ),
    "NodesFailed": frozenset({NodeStatus.FAILED}),
}
"""Gauges of a cluster: nodes by what their status means for work."""

_FAULTS = {EntryType.FAULT_DETECTED: "FaultsDetected", EntryType.FAULT_CLEARED: "FaultsCleared"}
_CASES = {
    "open": "CasesOpened",
    "in_progress": "RepairsStarted",
    "escalated": "CasesEscalated",
    "resolved": "CasesEnded",
}


@dataclass(slots=True)
class Measures:
    """Figures of one cluster: counts, durations in milliseconds by name, and counts of faults by code."""

    counts: Counter[str] = field(default_factory=Counter)
    durations: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    codes: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


def fleet(counts: Mapping[str, int]) -> dict[str, int]:
    """Turn counts of nodes by status into gauges; a status that is not counted has no node."""
    return {name: sum(counts.get(status.value, 0) for status in statuses) for name, statuses in FLEET.items()}


def measure(entries: Iterable[Mapping[str, Any]], now: datetime) -> dict[str, Measures]:
    """Add up the entries of a batch by cluster."""
    found: dict[str, Measures] = defaultdict(Measures)
    for entry in entries:
        into = found[str(entry["cluster"])]
        lag = now - from_text(str(entry["recorded_at"]))
        into.durations["PublishLag"].append(max(int(lag.total_seconds() * MILLISECONDS_A_SECOND), 0))
        _add(into, EntryType(entry["type"]), json.loads(str(entry["body"]))["data"])
    return dict(found)


def _add(into: Measures, kind: EntryType, data: Mapping[str, Any]) -> None:
    if kind in _FAULTS:
        into.codes[str(data.get("code"))][_FAULTS[kind]] += 1
    elif kind is EntryType.CASE_STATUS:
        _add_case(into, data)
    elif kind is EntryType.NOTE and data.get("kind") == "refused":
        reason = str((data.get("facts") or {}).get("waiting_for") or "other")
        into.counts[f"Refused{_title(reason)}"] += 1


def _add_case(into: Measures, data: Mapping[str, Any]) -> None:
    if data.get("to") in _CASES and data.get("from") != data.get("to"):
        into.counts[_CASES[data["to"]]] += 1
    phases = data.get("phases") or {}
    for name, length in _lengths(phases):
        into.durations[name].append(length)
    if data.get("gpu_time_lost") is not None:
        into.counts["GpuSecondsLost"] += data["gpu_time_lost"] // MILLISECONDS_A_SECOND


def _lengths(phases: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    if phases:
        yield "CaseTotal", sum(length for name, length in phases.items() if name != "detected")
    for name, length in phases.items():
        yield f"Phase{_title(name)}", length


def _title(word: str) -> str:
    return word.title().replace("_", "")
