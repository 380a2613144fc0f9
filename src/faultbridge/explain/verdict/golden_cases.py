"""Tests log patterns and failure mechanisms with golden cases: inputs with their expected results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from faultbridge.explain.signals.read_files import Evidence
from faultbridge.explain.signals.signal import LogSpan, Role, Signal, Trust
from faultbridge.explain.verdict.mechanisms import Book, packaged_weights
from faultbridge.explain.verdict.verdict import Verdict, decide

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
    """Return the verdict on the signals of a golden case.

    Each row is one signal, written as `+SECONDS node|dump|job NODE|- NAME`: its time after the start, its source
    (`Trust`), its node (`-` for none), and its name. A row with the name `progress` states that the job made progress.
    """
    parsed = [_signal(number, row, book) for number, row in enumerate(rows, 1)]
    progressed = [one for one in parsed if one.name == PROGRESS]
    signals = tuple(one for one in parsed if one.name != PROGRESS)
    last_at = max((one.at for one in signals if one.trust is Trust.JOB and one.at), default=None)
    at = last_at if progressed else None
    span = LogSpan("job", Trust.JOB, "job-log", None, _START, last_at, at, 0 if at else None)
    return decide(Evidence(signals, (span,)), book.mechanisms, packaged_weights(), {})


def _signal(number: int, row: str, book: Book) -> Signal:
    seconds, trust, node, name = row.split()
    kind = name if name.startswith("fault.") else ""
    at = None if trust == Trust.DUMP else _START + timedelta(seconds=int(seconds))
    return Signal(
        name, _role(name, book), Trust(trust), trust, number, row, at, None if node == "-" else node, kind=kind
    )


def _role(name: str, book: Book) -> Role:
    found = next((one.role for one in book.patterns if one.name == name), None)
    return found or book.roles.get(name, Role.INITIATING)
