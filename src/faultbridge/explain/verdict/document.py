"""Converts the verdict to the JSON document that `faultbridge explain --json` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from faultbridge.domain.times import to_text
from faultbridge.explain.dumps.collectives import Explained
from faultbridge.explain.signals.read_files import Evidence
from faultbridge.explain.signals.signal import LogSpan, Signal
from faultbridge.explain.verdict.devices import RankMap, devices_document
from faultbridge.explain.verdict.hypotheses import Hypothesis
from faultbridge.explain.verdict.verdict import Verdict

_MAX_LISTED = 20


def verdict_document(verdict: Verdict, evidence: Evidence, rank_map: RankMap) -> dict[str, Any]:
    """Return the verdict as JSON, with its evidence, all possible causes, and the files that were read."""
    cause = verdict.cause.mechanism if verdict.cause else None
    line = verdict.line
    return {
        "verdict": verdict.outlook,
        "nodes": list(verdict.nodes),
        "domain": verdict.domain,
        "mechanism": cause.name if cause else None,
        "summary": cause.summary if cause else "no mechanism explains what the files show",
        "settles": cause.settles if cause else "the logs of the nodes, and the logs and dumps of all ranks",
        "check": list(verdict.check),
        "checks": [_signal(one) for one in verdict.checks],
        "shared": verdict.is_shared,
        "hardware": asdict(verdict.hardware),
        "failed_at": to_text(line.failed_at) if line.failed_at else None,
        "causes": [_cause(one) for one in verdict.ranked],
        "claims": [_signal(one) for one in line.claims[:_MAX_LISTED]],
        "recovered": [_signal(one) for one in line.recovered[:_MAX_LISTED]],
        "devices": devices_document(verdict, evidence, rank_map),
        "collectives": collectives_document(evidence.collectives, rank_map.nodes) if evidence.collectives else None,
        "files": [_span(one) for one in evidence.spans],
        "skipped": list(evidence.skipped),
    }


def collectives_document(explained: Explained, nodes: Mapping[int, str]) -> dict[str, Any]:
    """Return the findings from the dumps as JSON: the ranks that other ranks wait for, and their nodes."""
    return {
        "ranks": list(explained.ranks),
        "nodes": sorted({nodes[rank] for rank in explained.ranks if rank in nodes}),
        "findings": [asdict(one) | {"node": nodes.get(one.rank)} for one in explained.findings],
        "waiting": list(explained.waiting),
        "joined": [{"group": one.group, "sequence": one.sequence} for one in explained.joined],
        "missing": list(explained.missing),
        "missing_blamed": explained.are_missing_blamed,
    }


def _cause(one: Hypothesis) -> dict[str, Any]:
    return {
        "mechanism": one.mechanism.name,
        "domain": one.mechanism.domain,
        "outlook": one.mechanism.outlook,
        "summary": one.mechanism.summary,
        "score": one.score,
        "for": list(_points(one, positive=True)),
        "against": list(_points(one, positive=False)),
    }


def _points(one: Hypothesis, *, positive: bool) -> Iterator[dict[str, Any]]:
    for point in one.points:
        if (point.points > 0) is positive:
            signal = _signal(point.signal) if point.signal else None
            yield {"weight": point.weight, "points": point.points, "signal": signal}


def _signal(one: Signal) -> dict[str, Any]:
    return {
        "name": one.name,
        "trust": one.trust,
        "role": one.role,
        "at": to_text(one.at) if one.at else None,
        "node": one.node,
        "rank": one.rank,
        "file": one.file,
        "line": one.line,
        "text": one.text,
        "count": one.count,
    }


def _span(one: LogSpan) -> dict[str, Any]:
    times = {"first_at": one.first_at, "last_at": one.last_at, "progress_at": one.progress_at}
    return {
        "file": one.file,
        "source": one.source,
        "trust": one.trust,
        "node": one.node,
        "lines": one.lines,
        **{name: to_text(at) if at else None for name, at in times.items()},
    }
