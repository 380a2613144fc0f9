"""Metrics: computes counts and durations from published entries, and gauges from the numbers of nodes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from msgspec import Struct, field

from faultbridge.model.enums import EntryType, NodeStatus, NoteKind
from faultbridge.model.event_data import CaseStatusData, EventData, FaultData, NoteData
from faultbridge.model.recorded import read_data
from faultbridge.model.storage.writes import Item
from faultbridge.model.times import from_text

MILLISECONDS_PER_SECOND = 1000

NODE_GAUGES: Mapping[str, frozenset[NodeStatus]] = {
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
"""The gauges of a cluster: each counts the nodes in some statuses."""

_FAULT_METRICS = {EntryType.FAULT_DETECTED: "FaultsDetected", EntryType.FAULT_CLEARED: "FaultsCleared"}
_CASE_METRICS = {
    "open": "CasesOpened",
    "in_progress": "RepairsStarted",
    "escalated": "CasesEscalated",
    "resolved": "CasesEnded",
}


class ClusterMetrics(Struct):
    """The metrics of one cluster: counts and durations (ms) by metric name, and counts by fault code.

    `codes` maps each fault code to its counts by metric name.
    """

    counts: Counter[str] = field(default_factory=Counter)
    durations: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    codes: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


def node_gauges(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the gauges of a cluster, such as `NodesHealthy`, from the number of its nodes by status.

    A status that `counts` does not contain counts as 0 nodes.
    """
    return {name: sum(counts.get(status.value, 0) for status in statuses) for name, statuses in NODE_GAUGES.items()}


def count_entries(entries: Iterable[Item], now: datetime) -> dict[str, ClusterMetrics]:
    """Return the metrics of a batch of published entries, by cluster; `now` is the time of publication."""
    by_cluster: dict[str, ClusterMetrics] = defaultdict(ClusterMetrics)
    for entry in entries:
        metrics = by_cluster[str(entry["cluster"])]
        lag = now - from_text(str(entry["recorded_at"]))
        metrics.durations["PublishLag"].append(max(int(lag.total_seconds() * MILLISECONDS_PER_SECOND), 0))
        _add_entry(metrics, EntryType(str(entry["type"])), read_data(json.loads(str(entry["body"]))))
    return dict(by_cluster)


def _add_entry(metrics: ClusterMetrics, kind: EntryType, data: EventData | None) -> None:
    if isinstance(data, FaultData):
        metrics.codes[data.code][_FAULT_METRICS[kind]] += 1
    elif isinstance(data, CaseStatusData):
        _add_case(metrics, data)
    elif isinstance(data, NoteData) and data.kind == NoteKind.REFUSED:
        reason = str(data.facts.get("waiting_for") or "other")
        metrics.counts[f"Refused{_title(reason)}"] += 1


def _add_case(metrics: ClusterMetrics, data: CaseStatusData) -> None:
    if data.to in _CASE_METRICS and data.from_ != data.to:
        metrics.counts[_CASE_METRICS[data.to]] += 1
    for name, milliseconds in _phase_durations(data.phases):
        metrics.durations[name].append(milliseconds)
    if isinstance(data.gpu_time_lost, int):
        metrics.counts["GpuSecondsLost"] += data.gpu_time_lost // MILLISECONDS_PER_SECOND


def _phase_durations(phases: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield metric names and durations (ms) of a closed case: the total, then each phase.

    The total excludes the phase `detected`, which is the time before the case opened. Without recorded phases, nothing
    is yielded.
    """
    if phases:
        yield "CaseTotal", sum(milliseconds for name, milliseconds in phases.items() if name != "detected")
    for name, milliseconds in phases.items():
        yield f"Phase{_title(name)}", milliseconds


def _title(name: str) -> str:
    return name.title().replace("_", "")
