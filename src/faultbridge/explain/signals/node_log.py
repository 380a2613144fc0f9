"""Reads the files of a node: kernel logs, and each other format that has a decoder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from faultbridge.data import load_catalog
from faultbridge.decoders import registry
from faultbridge.decoders.common.decoder import Hints
from faultbridge.decoders.common.journal import journal_lines
from faultbridge.decoders.common.prefix import USER, unprefixed
from faultbridge.decoders.kernel.line_filter import whole_lines
from faultbridge.domain.catalog import Catalog
from faultbridge.domain.faults import GPU_PARTS, Action, Fault, Severity, faults_of
from faultbridge.errors import Rejected
from faultbridge.explain.signals.evidence_store import EvidenceStore
from faultbridge.explain.signals.file_kind import has_program_output
from faultbridge.explain.signals.kernel_claims import mark_claims
from faultbridge.explain.signals.line_facts import span_time_of
from faultbridge.explain.signals.signal import LogSpan, Role, Signal, Trust

SLAB_BYTES = 4 * 1024 * 1024
MAX_TEXT = 400
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
"""The longest document that is read whole; `nvidia-smi -q -x` of eight GPUs has 200 KB."""
_HEAD = 4096
_KEY = 60


@dataclass(frozen=True, slots=True)
class NodeContext:
    """The inputs for reading a file of a node.

    `roles` maps fault codes to their role in a failure, such as first sign or consequence. A code that is not in
    `roles` counts as a first sign, unless its severity is `info` and it requires no repair. `hints` are facts that the
    decoder needs and the file may lack, such as the time of receipt, which determines the year of times without a year.
    """

    roles: Mapping[str, Role]
    hints: Hints


class NodeLogReader:
    """Reads one file of a node with one decoder, and converts its faults to signals."""

    def __init__(self, file: str, source: str, context: NodeContext, node: str | None = None) -> None:
        """Store the names of the file and its decoder, and the node that wrote the file, if it is known."""
        self._file, self._source, self._context, self._node = file, source, context, node
        self._store = EvidenceStore()
        self._catalog: Catalog = load_catalog()
        self._span = LogSpan(file, Trust.NODE, source, node)

    def read(self, pieces: Iterable[bytes]) -> tuple[list[Signal], LogSpan]:
        """Return the signals of the file, and the span that states which times and lines the file covers.

        Parts of a log that cannot be read are skipped. Raises `Rejected` in these cases:

        - The file is a document of more than 16 MiB.
        - The file is a document that the decoder cannot read.
        - The file is a log with lines of a program, and the caller did not name its node.
        """
        is_log = registry.get(self._source).decode_pieces is not None
        # An entry of a journal must not be divided: what remains of it has no field that states who wrote it.
        for slab in _slabs(journal_lines(whole_lines(pieces))) if is_log else [_document(pieces)]:
            self._read_slab(mark_claims(slab) if is_log else slab, is_log=is_log)
        found = self._store.signals()
        if self._span.node is not None:
            found = [one if one.node else replace(one, node=self._span.node) for one in found]
        return found, self._span

    def _read_slab(self, slab: bytes, *, is_log: bool) -> None:
        if is_log and self._node is None and has_program_output(slab):
            raise Rejected("program_output", "lines of a program; give NODE=FILE if it is a log of a node")
        span, hints = self._span, self._context.hints
        head, tail = _text(slab[:_HEAD]).lstrip(), _text(slab[-_HEAD:])
        node = span.node or (unprefixed(head.partition("\n")[0], hints.received_at).node if is_log else None)
        try:
            observations = registry.read(self._source, slab, replace(hints, node=node or hints.node)).observations
        except Rejected:
            if not is_log:
                raise
            observations = ()
        self._add(slab, [fault for one in observations for fault in faults_of(one)])
        self._span = replace(
            span,
            node=node,
            first_at=span.first_at or (span_time_of(head, hints.received_at) if is_log else None),
            last_at=(span_time_of(tail, hints.received_at, last=True) if is_log else None) or span.last_at,
            lines=span.lines + slab.count(b"\n"),
        )

    def _add(self, slab: bytes, faults: Iterable[Fault]) -> None:
        position, counted, line = 0, 0, self._span.lines + 1
        for fault in faults:
            by_program = fault.attributes.get("facility") == USER
            name = f"claim.{fault.code.partition('.')[0]}" if by_program else fault.code
            part = f"{fault.node}{fault.component.pci or fault.component.name or ''}"
            if not self._store.is_new(name, fault.observed_at, part=part):
                continue
            key = fault.evidence[:_KEY].encode()
            at = slab.find(key, position) if key else -1
            at = at if at >= 0 else slab.find(key) if key else -1
            if at >= counted:
                line += slab.count(b"\n", counted, at)
                position, counted = at + 1, at
            signal = self._signal(fault, line if at >= 0 else None)
            # A line that a program wrote in the form of a kernel line is no evidence.
            claim = replace(signal, name=name, role=Role.CONTEXT, trust=Trust.JOB, kind="")
            self._store.add(claim if by_program else signal, part=part)

    def _signal(self, fault: Fault, line: int | None) -> Signal:
        row = self._catalog.rows.get(fault.code)
        severity = fault.severity or (row.severity if row else Severity.ERROR)
        action = fault.action or (row.action if row else Action.CONTACT_SUPPORT)
        is_harmless = severity is Severity.INFO and not action.opens_case
        return Signal(
            fault.code,
            self._context.roles.get(fault.code, Role.CONTEXT if is_harmless else Role.INITIATING),
            Trust.NODE,
            self._file,
            line,
            (fault.evidence or fault.message)[:MAX_TEXT],
            fault.observed_at,
            fault.node or self._node,
            kind=f"fault.{fault.component.type}.{severity}",
            count=fault.count,
            device=fault.component if fault.component.type in GPU_PARTS else None,
        )


def _document(pieces: Iterable[bytes]) -> bytes:
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > MAX_DOCUMENT_BYTES:
            raise Rejected("too_large", f"a document of more than {MAX_DOCUMENT_BYTES} bytes")
    return bytes(body)


def _slabs(pieces: Iterable[bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        parts.append(bytes(piece))
        size += len(piece)
        if size >= SLAB_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")
