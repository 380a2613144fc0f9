"""Converts the verdict to the JSON document that `faultbridge explain --json` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from faultbridge.explain.dumps.collectives import Explained
from faultbridge.explain.signals.read_files import Evidence
from faultbridge.explain.signals.signal import Attempt, LogSpan, Role, Signal, Trust
from faultbridge.explain.verdict.doubts import Hypothesis
from faultbridge.explain.verdict.mechanisms import Book, packaged_weights
from faultbridge.explain.verdict.situation import NamedRank, Situation, TimeLine, in_time, symptom_of
from faultbridge.explain.verdict.verdict import Verdict, decide
from faultbridge.model.cluster.jobs import gpu_like, gpu_of
from faultbridge.model.enums import Outlook
from faultbridge.model.faults import Component
from faultbridge.model.times import to_text

MAX_DEVICES = 64
_FACTS = ("pci", "uuid", "serial")


@dataclass(frozen=True)
class RankMap:
    """The node of each rank, and the GPUs of each node, if they are known."""

    nodes: Mapping[int, str]
    gpus: Mapping[str, Sequence[Component]] = field(default_factory=dict)

    @cached_property
    def ranks(self) -> Mapping[str, Sequence[int]]:
        """Return the ranks of each node in order; rank N is assumed to run on the GPU with index N."""
        found: dict[str, list[int]] = {}
        for rank, node in sorted(self.nodes.items()):
            found.setdefault(node, []).append(rank)
        return found

    def rank(self, node: str, index: int | None) -> int | None:
        """Return the rank that runs on the GPU with this index in a node, or None if the rank is unknown."""
        ranks = self.ranks.get(node, ())
        return ranks[index] if index is not None and index < len(ranks) else None


def devices_document(verdict: Verdict, evidence: Evidence, rank_map: RankMap) -> list[dict[str, Any]]:
    """Return at most 64 GPUs that a node's own signal or a waiting rank names, with node and rank."""
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for one in (*_of_signals(verdict, rank_map), *_of_ranks(evidence, rank_map)):
        found.setdefault((one["node"], one["index"], one["pci"], one["rank"]), one)
    return list(found.values())[:MAX_DEVICES]


def _of_signals(verdict: Verdict, rank_map: RankMap) -> Iterator[dict[str, Any]]:
    situation = Situation(verdict.line, (), (), packaged_weights())
    for one in verdict.line.signals if verdict.cause else ():
        is_sign = verdict.cause is not None and verdict.cause.mechanism.strength(one) is not None
        if is_sign and in_time(situation, one) and one.trust is Trust.NODE and one.node and one.device:
            known = gpu_like(rank_map.gpus.get(one.node, ()), one.device) or one.device
            index = one.device.index if one.device.index is not None else known.index
            device = {name: getattr(one.device, name) or getattr(known, name) for name in _FACTS}
            rank = rank_map.rank(one.node, index)
            yield {"node": one.node, "rank": rank, "index": index, **device, "signal": one.name}


def _of_ranks(evidence: Evidence, rank_map: RankMap) -> Iterator[dict[str, Any]]:
    for one in evidence.collectives.findings if evidence.collectives else ():
        node = rank_map.nodes.get(one.rank)
        if node is not None:
            index = rank_map.ranks[node].index(one.rank)
            known = gpu_of(rank_map.gpus.get(node, ()), index)
            device = {name: getattr(known, name, None) for name in _FACTS}
            yield {"node": node, "rank": one.rank, "index": index, **device, "signal": f"collective.{one.state}"}


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
        "symptom": _signal(symptom) if (symptom := symptom_of(line, evidence.spans)) else None,
        "ranks": [_named_rank(one, rank_map) for one in verdict.named_ranks],
        "attempts": _attempts(line),
        "check": list(verdict.check),
        "checks": [_signal(one) for one in verdict.checks],
        "shared": verdict.is_shared,
        "hardware": asdict(verdict.hardware),
        "failed_at": to_text(line.failed_at) if line.failed_at else None,
        "causes": [_cause(one) for one in verdict.ranked],
        "claims": [_signal(one) for one in line.claims[:_MAX_LISTED]],
        "recovered": [_signal(one) for one in line.recovered if one.role is not Role.CONTEXT][:_MAX_LISTED],
        "devices": devices_document(verdict, evidence, rank_map),
        "collectives": collectives_document(evidence.collectives, rank_map.nodes) if evidence.collectives else None,
        "files": [_facts(one, *_OF_FILES) for one in evidence.spans],
        "skipped": list(evidence.skipped),
    }


def without_repaired(document: dict[str, Any], repaired: AbstractSet[str]) -> dict[str, Any]:
    """Return the verdict on the present instances: `repaired` nodes are neither left out nor tested."""
    nodes, check = ([one for one in document[name] if one not in repaired] for name in ("nodes", "check"))
    without_none = document["verdict"] == Outlook.RESTART_WITHOUT and not nodes
    verdict = Outlook.RESTART if without_none else document["verdict"]
    checks = [one for one in document["checks"] if one["node"] not in repaired]
    return {**document, "verdict": verdict, "nodes": nodes, "check": check, "checks": checks}


def _named_rank(one: NamedRank, rank_map: RankMap) -> dict[str, Any]:
    node = rank_map.nodes.get(one.rank) or (one.signal.node if one.signal else None)
    ranks = rank_map.ranks.get(node or "", ())
    index = ranks.index(one.rank) if one.rank in ranks else None
    return {"rank": one.rank, "node": node, "gpu": index, "reason": one.reason}


def _attempts(line: TimeLine) -> dict[str, Any]:
    last = line.repeated[-1] if line.repeated else Attempt()
    error = _signal(last.error) if last.error else None
    return {"count": len(line.attempts), "repeated": len(line.repeated), "step": last.step, "error": error}


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
    about, points = one.mechanism, {True: list[dict[str, Any]](), False: list[dict[str, Any]]()}
    for point in one.points:
        signal = _signal(point.signal) if point.signal else None
        points[point.points > 0].append({"weight": point.weight, "points": point.points, "signal": signal})
    facts = {name: getattr(about, name) for name in ("domain", "outlook", "summary")}
    return {"mechanism": about.name, **facts, "score": one.score, "for": points[True], "against": points[False]}


def _signal(one: Signal) -> dict[str, Any]:
    return _facts(one, "name", "trust", "role", "at", "node", "rank", "file", "line", "text", "count")


_OF_FILES = ("file", "source", "trust", "node", "lines", "first_at", "last_at", "progress_at")


def _facts(one: Signal | LogSpan, *names: str) -> dict[str, Any]:
    values = ((name, getattr(one, name)) for name in names)
    return {name: to_text(value) if isinstance(value, datetime) else value for name, value in values}


PROGRESS = "progress"
_START = datetime(2026, 1, 1, tzinfo=UTC)


def broken_cases(book: Book) -> Iterator[str]:
    """Yield one sentence for each golden case whose result differs from the expected result."""
    for pattern in book.patterns:
        lines = [(one, True) for one in pattern.cases] + [(one, False) for one in pattern.not_cases]
        for line, is_expected in lines:
            if (pattern.find(line) is not None) is not is_expected:
                yield f"pattern {pattern.name}: {'no match' if is_expected else 'a match'} in {line[:80]!r}"
    for mechanism in book.mechanisms:
        for case in mechanism.cases:
            verdict = verdict_on(book, case["signals"])
            found = verdict.cause.mechanism.name if verdict.cause else "unknown"
            if (found, verdict.outlook) != (mechanism.name, case["verdict"]):
                yield f"mechanism {mechanism.name}: {found} {verdict.outlook} instead of {case['verdict']}"


def verdict_on(book: Book, rows: Sequence[str]) -> Verdict:
    """Return the verdict on the signals of a golden case, as rows `+SECONDS node|dump|job NODE|- NAME`."""
    parsed = [_signal_of_golden_cases(number, row, book) for number, row in enumerate(rows, 1)]
    progressed = [one for one in parsed if one.name == PROGRESS]
    signals = tuple(one for one in parsed if one.name != PROGRESS)
    last_at = max((one.at for one in signals if one.trust is Trust.JOB and one.at), default=None)
    at = last_at if progressed else None
    span = LogSpan("job", Trust.JOB, "job-log", None, _START, last_at, at, 0 if at else None)
    return decide(Evidence(signals, (span,)), book.mechanisms, packaged_weights(), {})


def _signal_of_golden_cases(number: int, row: str, book: Book) -> Signal:
    seconds, trust, node, name = row.split()
    kind = name if name.startswith("fault.") else ""
    at = None if trust == Trust.DUMP else _START + timedelta(seconds=int(seconds))
    roles = {**book.roles, **{one.name: one.role for one in reversed(book.patterns)}}
    place = trust, number, row, at, None if node == "-" else node
    return Signal(name, roles.get(name, Role.INITIATING), Trust(trust), *place, kind=kind)
