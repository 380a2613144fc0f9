"""Reads files given as text and decides, as `faultbridge explain` does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from faultbridge.decode.frames.decoder import Hints
from faultbridge.explain.signals.read_files import Evidence, InputFile, read_files
from faultbridge.explain.signals.signal import ReadContext
from faultbridge.explain.verdict.mechanisms import packaged_book, packaged_weights
from faultbridge.explain.verdict.verdict import Verdict, decide

BOOK = packaged_book()
NODES = {rank: f"n-{1 + rank // 8}" for rank in range(32)}
RECEIVED = datetime(2026, 9, 1, tzinfo=UTC)


def text_file(name: str, text: str | bytes, node: str | None = None, *, is_job_log: bool = False) -> InputFile:
    body = text if isinstance(text, bytes) else text.encode()
    return InputFile(name, lambda: iter([body]), node, is_job_log=is_job_log)


def evidence_in(
    files: Iterable[InputFile], nodes: Mapping[int, str] = NODES, received_at: datetime = RECEIVED
) -> Evidence:
    return read_files(files, ReadContext(BOOK.patterns, BOOK.roles, nodes, Hints(received_at=received_at)))


def decided(files: Iterable[InputFile], nodes: Mapping[int, str] = NODES, received_at: datetime = RECEIVED) -> Verdict:
    return decide(evidence_in(files, nodes, received_at), BOOK.mechanisms, packaged_weights(), nodes)


def verdict(job: str, node: str = "", nodes: Mapping[int, str] = NODES) -> Verdict:
    """Return the verdict on a job from its log and, if given, the kernel log of node n-2."""
    files = [text_file("job.err", job, is_job_log=True)]
    return decided([*files, text_file("kern.log", node, "n-2")] if node else files, nodes)
