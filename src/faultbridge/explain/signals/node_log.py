"""Reads the files of a node: kernel logs, and each other format that has a decoder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.decode.frames.journal import journal_lines
from faultbridge.decode.frames.prefix import USER, unprefixed
from faultbridge.decode.kernel.line_filter import whole_lines
from faultbridge.explain.signals.signal import (
    MAX_TEXT,
    EvidenceStore,
    LogSpan,
    ReadContext,
    Role,
    Signal,
    Trust,
    span_time_of,
    text_of,
)
from faultbridge.model.catalog import Catalog
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import GPU_PARTS, Fault, faults_of

# The program of a job can print any line, even one that looks like the kernel's. A text is therefore a file of a node
# only if its start is in the format of a node's source.

HEAD_BYTES = 64 * 1024
_MIN_FRAMED = 0.98
_MIN_TEXT = 0.7
_DUMP_NAME = re.compile(r"_?dump_\d{1,6}(?:\.(?:json|pickle|pkl))?\Z")
_PICKLE = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_PROGRAM = re.compile(
    rb"Traceback \(most recent|ProcessGroupNCCL|NCCL (?:INFO|WARN)|torch\.distributed|\[rank\d|slurmstepd: |^srun: "
    rb"|\b(?:loss|grad_norm|iteration|epoch)\b['\"]?[:= ]{1,12}\d",
    re.MULTILINE,
)
_SYSLOG = re.compile(
    r"(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.,]{8,18}(?:Z|[+-]\d\d:?\d\d)?)"
    r" ([\w.-]{1,253}) [\w./@-]{1,64}(?:\[\d{1,10}\])?: "
)
_DOCUMENTS = re.compile(rb"\s{0,64}[{\[<]")


DUMP, JOB, BINARY = "dump", "job", "binary"
"""The kinds of files that no decoder reads. A file of a node has the name of its decoder as its kind."""


def kind_of(name: str, head: bytes, *, is_of_node: bool = False) -> str:
    """Return the kind of a file, from its name and its first 64 KiB: the name of a node's decoder, or no decoder.

    A kernel log with more than 2 % of other lines is the log of a job, because a program may have printed it, unless
    the caller states that the file comes from a node (`is_of_node`). So is a text with program output that does not
    start like a JSON or XML document, and a table of Kubernetes events: these are signs of a job's end.
    """
    if _DUMP_NAME.search(name) or head.startswith(_PICKLE):
        return DUMP
    if b"\x00" in head[:512] or len(head.translate(None, _CONTROL)) < _MIN_TEXT * len(head):
        return BINARY
    if (has_program_output(head) and not _DOCUMENTS.match(head)) or _EVENTS.match(head):
        return JOB
    try:
        source = registry.recognize(head)
    except Rejected:
        source = "kernel-log" if _is_framed(head) else "training-log"
    if source == "training-log" or (source == "kernel-log" and not is_of_node and not _is_framed(head)):
        return JOB
    return source


_EVENTS = re.compile(rb"(?:NAMESPACE +)?LAST SEEN +TYPE +REASON +OBJECT\b")


def has_program_output(piece: bytes) -> bool:
    """Return whether a text has a line of a form that only programs print, such as a Python traceback."""
    return _PROGRAM.search(piece) is not None


def _is_framed(head: bytes) -> bool:
    """Return whether at least 98 % of the lines start as in a kernel log, or as in one host's system log."""
    lines = [one for one in head.decode("utf-8", "replace").splitlines() if one.strip()]
    if len(head) >= HEAD_BYTES:
        lines = lines[:-1]
    hosts = {found[1] for one in lines if (found := _SYSLOG.match(one))}
    messages = [unprefixed(one) for one in lines if not _SYSLOG.match(one)]
    framed = sum(one.facility is not None or one.uptime is not None for one in messages) + len(lines) - len(messages)
    return bool(lines) and len(hosts) <= 1 and framed >= _MIN_FRAMED * len(lines)


_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\x1b"))


# A decoder accepts lines without proof that the kernel wrote them, because a log collector may have removed it. A
# verdict needs the proof, so these lines are marked before: a line from `kernel[123]`, because the kernel has no
# process id, and a journal record without `_TRANSPORT`, whose value no program can choose.

_PID = re.compile(
    rb"^((?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\dT[\d:.,]{8,18}(?:Z|[+-]\d\d:?\d\d)?)"
    rb" [\w.-]{1,253} kernel)\[[1-9]\d{0,9}\](?=:)",
    re.MULTILINE,
)
_BY_PROGRAM = rb"user:notice: \1"
_RECORD = re.compile(
    rb"^[ \t]{0,16}\{(?=[^\n]*\"(?:__REALTIME_TIMESTAMP|__CURSOR|_UID|_PID|_HOSTNAME)\")", re.MULTILINE
)
_TRANSPORT = b'"_TRANSPORT"'
_STATED = b'{"_TRANSPORT": "stdout", '


def mark_claims(body: bytes) -> bytes:
    """Return a log with its unproven kernel lines marked as lines of a program, numbered as before."""
    if b" kernel[" in body:
        body = _PID.sub(_BY_PROGRAM, body)
    if b'"MESSAGE"' not in body:
        return body
    return b"\n".join(_RECORD.sub(_STATED, one) if _TRANSPORT not in one else one for one in body.split(b"\n"))


SLAB_BYTES = 4 * 1024 * 1024
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
"""The longest document that is read whole; `nvidia-smi -q -x` of eight GPUs has 200 KB."""
_HEAD = 4096
_KEY = 60
_BOOT = re.compile(
    rb"^[^\n]{0,200}\bkernel: [^\n]{0,32}\b(?:Linux version \d|Command line: |BIOS-provided )[^\n]*"
    rb"|^-- (?:Boot [0-9a-f]{32}|Reboot) --\n[^\n]*",  # as journalctl prints a new boot, before its first line
    re.MULTILINE,
)
_MAX_BOOTS = 64


class NodeLogReader:
    """Reads one file of a node with one decoder, and converts its faults to signals."""

    def __init__(self, file: str, source: str, context: ReadContext, node: str | None = None) -> None:
        """Store the names of the file and its decoder, and the node that wrote the file, if it is known."""
        self._file, self._source, self._context, self._node = file, source, context, node
        self._store = EvidenceStore()
        self._catalog: Catalog = load_catalog()
        self._span = LogSpan(file, Trust.NODE, source, node)

    def read(self, pieces: Iterable[bytes]) -> tuple[list[Signal], LogSpan]:
        """Return the signals of the file, and the span of times and lines that it covers; skip what cannot be read.

        Raises `Rejected` for a document of more than 16 MiB or that the decoder cannot read, and for a log with lines
        of a program if the caller did not name its node.
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
        head, tail = text_of(slab[:_HEAD]).lstrip(), text_of(slab[-_HEAD:])
        node = span.node or (unprefixed(head.partition("\n")[0], hints.received_at).node if is_log else None)
        try:
            observations = registry.read(self._source, slab, replace(hints, node=node or hints.node)).observations
        except Rejected:
            if not is_log:
                raise
            observations = ()
        found = _BOOT.finditer(slab) if is_log else ()
        boots = [span_time_of(text_of(one[0]), hints.received_at) for one in found]
        self._add(slab, [fault for one in observations for fault in faults_of(one)])
        self._span = replace(
            span,
            node=node,
            first_at=span.first_at or (span_time_of(head, hints.received_at) if is_log else None),
            last_at=(span_time_of(tail, hints.received_at, last=True) if is_log else None) or span.last_at,
            lines=span.lines + slab.count(b"\n"),
            boots=(*span.boots, *(one for one in boots if one is not None))[-_MAX_BOOTS:],
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
        role = self._context.roles.get(fault.code, Role.CONTEXT if is_harmless else Role.INITIATING)
        text, node = (fault.evidence or fault.message)[:MAX_TEXT], fault.node or self._node
        signal = Signal(fault.code, role, Trust.NODE, self._file, line, text, fault.observed_at, node)
        component = fault.component
        device = component if component.type in GPU_PARTS else None
        return replace(signal, kind=f"fault.{component.type}.{severity}", count=fault.count, device=device)


def joined(pieces: Iterable[bytes], limit: int) -> bytes:
    """Return the pieces as one, without those after the first that exceeds a limit in bytes."""
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > limit:
            break
    return bytes(body)


def _document(pieces: Iterable[bytes]) -> bytes:
    body = joined(pieces, MAX_DOCUMENT_BYTES)
    if len(body) > MAX_DOCUMENT_BYTES:
        raise Rejected("too_large", f"a document of more than {MAX_DOCUMENT_BYTES} bytes")
    return body


def _slabs(pieces: Iterable[bytes]) -> Iterator[bytes]:
    slab = bytearray()
    for piece in pieces:
        slab += piece
        if len(slab) >= SLAB_BYTES:
            yield bytes(slab)
            slab.clear()
    if slab:
        yield bytes(slab)
