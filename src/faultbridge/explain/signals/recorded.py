"""Reads what Faultbridge recorded about the nodes of a job: faults, and the last heartbeats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from faultbridge.explain.signals.patterns import LogPattern, matches_of
from faultbridge.explain.signals.signal import EvidenceStore, LogSpan, Role, Signal, Trust
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import GPU_PARTS, Component
from faultbridge.model.times import from_text

AFTER_END = timedelta(minutes=10)
"""Faults that are observed up to this long after the end are read: many are observed after the processes died."""

FAULT_TYPES = ("Node Fault Detected", "Node Fault Updated")
SILENT = "host.silent"
SOURCE = "faultbridge"
MAX_TEXT = 400


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """The nodes and the time range to explain. `label` names the job or the time range in the evidence."""

    label: str
    cluster: str
    nodes: frozenset[str]
    since: datetime
    ended_at: datetime


def recorded_evidence(
    window: RecordedWindow,
    events: Iterable[Mapping[str, Any]],
    heartbeats: Mapping[str, datetime],
    roles: Mapping[str, Role],
) -> tuple[tuple[Signal, ...], tuple[LogSpan, ...]]:
    """Return the recorded faults of nodes as signals, and the time ranges for which records exist.

    Faults up to ten minutes after the window are included. In the range of a node, up to its last heartbeat, the
    absence of a fault shows that it reported none. A node without heartbeats, or with `host.silent`, has no range.
    """
    store = EvidenceStore()
    for event in events:
        signal = _signal(event, roles)
        part = f"{signal.node}{_device(event['data'])}"
        in_window = signal.at is not None and window.since <= signal.at <= window.ended_at + AFTER_END
        if signal.node in window.nodes and in_window and store.is_new(signal.name, signal.at, part=part):
            store.add(signal, part)
    signals = tuple(store.signals())
    return signals, tuple(_spans(window, signals, heartbeats))


def _signal(event: Mapping[str, Any], roles: Mapping[str, Role]) -> Signal:
    metadata, data = event["metadata"], event["data"]
    is_harmless = data["severity"] == Severity.INFO.value and not Action(data["action"]).opens_case
    return Signal(
        data["code"],
        roles.get(data["code"], Role.CONTEXT if is_harmless else Role.INITIATING),
        Trust.NODE,
        _stream(metadata["cluster"], metadata["node"]),
        metadata["sequence"],
        f"{_device(data)} {data['message']}".strip()[:MAX_TEXT],
        from_text(data["observed_at"]),
        metadata["node"],
        kind=f"fault.{data['component']['type']}.{data['severity']}",
        device=_gpu(data["component"]),
    )


def _spans(window: RecordedWindow, signals: Iterable[Signal], heartbeats: Mapping[str, datetime]) -> Iterator[LogSpan]:
    yield LogSpan(window.label, Trust.JOB, SOURCE, None, window.since, window.ended_at)
    silent = {one.node for one in signals if one.name == SILENT}
    for node in sorted(window.nodes & heartbeats.keys() - silent):
        until = max(window.since, heartbeats[node])
        yield LogSpan(_stream(window.cluster, node), Trust.NODE, SOURCE, node, window.since, until)


def _gpu(component: Mapping[str, Any]) -> Component | None:
    return Component.read(component) if component["type"] in GPU_PARTS else None


def _device(data: Mapping[str, Any]) -> str:
    return str(data["component"]["pci"] or data["component"]["name"] or "")


def _stream(cluster: str, node: str) -> str:
    return f"timeline of {cluster}/{node}"


CANCELED = "scheduler.canceled"
ENDED_BY_USER = "cancelled"
MAX_REASON = 512
_OF_SCHEDULER = "scheduler."


def end_signals(
    label: str, outcome: str | None, reason: str, ended_at: datetime, patterns: Sequence[LogPattern]
) -> Iterator[Signal]:
    """Yield the signals of a job's recorded outcome and of the first 512 characters of its reason.

    A signal from the reason counts as one of the job, so it cannot prove a fault of a node.
    """
    text = reason[:MAX_REASON]
    found = {one.name: (one, match) for one, match in matches_of(patterns, text)}
    for name, (pattern, match) in found.items():
        node = match.groupdict().get("node")
        yield Signal(name, pattern.role, Trust.JOB, label, None, text, ended_at, node)
    if outcome == ENDED_BY_USER and not any(name.startswith(_OF_SCHEDULER) for name in found):
        yield Signal(CANCELED, Role.INITIATING, Trust.JOB, label, None, f"outcome: {outcome}; {text}", ended_at)
