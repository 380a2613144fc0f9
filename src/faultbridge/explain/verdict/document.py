"""Converts the verdict to the document that `faultbridge explain --json` prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TypeVar

from msgspec import Struct

from faultbridge.explain.dumps.collectives import Explained
from faultbridge.explain.signals.read_files import Evidence
from faultbridge.explain.signals.signal import Attempt, LogSpan, Role, Signal, Trust
from faultbridge.explain.verdict.doubts import Hypothesis
from faultbridge.explain.verdict.mechanisms import Book, packaged_weights
from faultbridge.explain.verdict.situation import NamedRank, Situation, TimeLine, in_time, symptom_of
from faultbridge.explain.verdict.verdict import Verdict, decide
from faultbridge.model.cluster.jobs import gpu_like, gpu_of
from faultbridge.model.enums import Outlook
from faultbridge.model.event_data import JobDevice
from faultbridge.model.faults import Component
from faultbridge.model.values import replace
from faultbridge.model.verdicts import (
    JobVerdictDocument,
    ShownAttempts,
    ShownCall,
    ShownCause,
    ShownCollectives,
    ShownFile,
    ShownFinding,
    ShownPoint,
    ShownRank,
    ShownSignal,
)

S = TypeVar("S", bound=Struct)
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


def devices_of(verdict: Verdict, evidence: Evidence, rank_map: RankMap) -> tuple[JobDevice, ...]:
    """Return at most 64 GPUs that a node's own signal or a waiting rank names, with node and rank."""
    found: dict[tuple[object, ...], JobDevice] = {}
    for one in (*_of_signals(verdict, rank_map), *_of_ranks(evidence, rank_map)):
        found.setdefault((one.node, one.index, one.pci, one.rank), one)
    return tuple(found.values())[:MAX_DEVICES]


def _of_signals(verdict: Verdict, rank_map: RankMap) -> Iterator[JobDevice]:
    situation = Situation(verdict.line, (), (), packaged_weights())
    for one in verdict.line.signals if verdict.cause else ():
        is_sign = verdict.cause is not None and verdict.cause.mechanism.strength(one) is not None
        if is_sign and in_time(situation, one) and one.trust is Trust.NODE and one.node and one.device:
            known = gpu_like(rank_map.gpus.get(one.node, ()), one.device) or one.device
            index = one.device.index if one.device.index is not None else known.index
            device = {name: getattr(one.device, name) or getattr(known, name) for name in _FACTS}
            yield JobDevice(node=one.node, rank=rank_map.rank(one.node, index), index=index, **device, signal=one.name)


def _of_ranks(evidence: Evidence, rank_map: RankMap) -> Iterator[JobDevice]:
    for one in evidence.collectives.findings if evidence.collectives else ():
        node = rank_map.nodes.get(one.rank)
        if node is not None:
            index = rank_map.ranks[node].index(one.rank)
            known = gpu_of(rank_map.gpus.get(node, ()), index)
            device = {name: getattr(known, name, None) for name in _FACTS}
            yield JobDevice(node=node, rank=one.rank, index=index, **device, signal=f"collective.{one.state}")


_MAX_LISTED = 20


def verdict_document(verdict: Verdict, evidence: Evidence, rank_map: RankMap) -> JobVerdictDocument:
    """Return the verdict with its evidence, all possible causes, and the files that were read."""
    cause = verdict.cause.mechanism if verdict.cause else None
    line = verdict.line
    recovered = [one for one in line.recovered if one.role is not Role.CONTEXT]
    return JobVerdictDocument(
        verdict=verdict.outlook,
        nodes=tuple(verdict.nodes),
        domain=verdict.domain,
        mechanism=cause.name if cause else None,
        summary=cause.summary if cause else "no mechanism explains what the files show",
        settles=cause.settles if cause else "the logs of the nodes, and the logs and dumps of all ranks",
        symptom=_shown(symptom_of(line, evidence.spans)),
        ranks=tuple(_named_rank(one, rank_map) for one in verdict.named_ranks),
        attempts=_attempts(line),
        check=tuple(verdict.check),
        checks=_all_shown(verdict.checks),
        shared=verdict.is_shared,
        hardware=verdict.hardware,
        failed_at=line.failed_at,
        causes=tuple(map(_cause, verdict.ranked)),
        claims=_all_shown(line.claims[:_MAX_LISTED]),
        recovered=_all_shown(recovered[:_MAX_LISTED]),
        devices=devices_of(verdict, evidence, rank_map),
        collectives=_collectives(evidence.collectives, rank_map.nodes) if evidence.collectives else None,
        files=tuple(_copied(ShownFile, one) for one in evidence.spans),
        skipped=tuple(evidence.skipped),
    )


def without_repaired(document: JobVerdictDocument, repaired: AbstractSet[str]) -> JobVerdictDocument:
    """Return the verdict on the present instances: `repaired` nodes are neither left out nor tested."""
    nodes, check = (tuple(one for one in named if one not in repaired) for named in (document.nodes, document.check))
    without_none = document.verdict == Outlook.RESTART_WITHOUT and not nodes
    verdict = Outlook.RESTART if without_none else document.verdict
    checks = tuple(one for one in document.checks if one.node not in repaired)
    return replace(document, verdict=verdict, nodes=nodes, check=check, checks=checks)


def _named_rank(one: NamedRank, rank_map: RankMap) -> ShownRank:
    node = rank_map.nodes.get(one.rank) or (one.signal.node if one.signal else None)
    ranks = rank_map.ranks.get(node or "", ())
    return ShownRank(one.rank, node, ranks.index(one.rank) if one.rank in ranks else None, one.reason)


def _attempts(line: TimeLine) -> ShownAttempts:
    last = line.repeated[-1] if line.repeated else Attempt()
    return ShownAttempts(len(line.attempts), len(line.repeated), last.step, _shown(last.error))


def _collectives(explained: Explained, nodes: Mapping[int, str]) -> ShownCollectives:
    return ShownCollectives(
        ranks=explained.ranks,
        nodes=tuple(sorted({nodes[rank] for rank in explained.ranks if rank in nodes})),
        findings=tuple(_copied(ShownFinding, one, node=nodes.get(one.rank)) for one in explained.findings),
        waiting=explained.waiting,
        joined=tuple(ShownCall(one.group, one.sequence) for one in explained.joined),
        missing=explained.missing,
        missing_blamed=explained.are_missing_blamed,
    )


def _cause(one: Hypothesis) -> ShownCause:
    points = [ShownPoint(point.weight, point.points, _shown(point.signal)) for point in one.points]
    return ShownCause(
        mechanism=one.mechanism.name,
        domain=one.mechanism.domain,
        outlook=one.mechanism.outlook,
        summary=one.mechanism.summary,
        score=one.score,
        pro=tuple(point for point in points if point.points > 0),
        against=tuple(point for point in points if point.points <= 0),
    )


def _shown(one: Signal | None) -> ShownSignal | None:
    return _copied(ShownSignal, one) if one else None


def _all_shown(signals: Iterable[Signal]) -> tuple[ShownSignal, ...]:
    return tuple(_copied(ShownSignal, one) for one in signals)


def _copied(kind: type[S], source: object, **given: object) -> S:
    names = (name for name in kind.__struct_fields__ if name not in given)
    return kind(**{name: getattr(source, name) for name in names}, **given)


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
            verdict = verdict_on(book, case.signals)
            found = verdict.cause.mechanism.name if verdict.cause else "unknown"
            if (found, verdict.outlook) != (mechanism.name, case.verdict):
                yield f"mechanism {mechanism.name}: {found} {verdict.outlook} instead of {case.verdict}"


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
