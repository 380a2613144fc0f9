"""Recognizes the kind of a file: a Flight Recorder dump, a file of a node, or the log of a job.

The program of a job can print any line, even a line that looks like the kernel's. A text is therefore treated as a file
of a node only if its start is in the format of a node's source. A log that starts with output of a program is treated
as the log of a job.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from faultbridge.decoders import registry
from faultbridge.decoders.common.prefix import unprefixed
from faultbridge.errors import Rejected

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


class Kind(StrEnum):
    """The kind of a file given to `explain`: a dump, a file of a node, a log of a job, or binary data."""

    DUMP = "dump"
    NODE = "node"
    JOB = "job"
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class FileKind:
    """The kind of a file; `source` names the decoder of a file of a node, and is empty for other kinds."""

    kind: Kind
    source: str = ""


def kind_of(name: str, head: bytes, *, is_of_node: bool = False) -> FileKind:
    """Return the kind of a file, from its name and its first 64 KiB.

    - A kernel log in which more than 2 % of the lines are in another format counts as the log of a job, because a
      program may have printed the log. If the caller states that the file comes from a node (`is_of_node`), such a log
      counts as a file of a node.
    - A text with program output counts as the log of a job, unless it starts like a JSON or XML document.
    """
    if _DUMP_NAME.search(name) or head.startswith(_PICKLE):
        return FileKind(Kind.DUMP)
    if not _is_text(head):
        return FileKind(Kind.BINARY)
    if has_program_output(head) and not _DOCUMENTS.match(head):
        return FileKind(Kind.JOB)
    try:
        source = registry.recognize(head)
    except Rejected:
        source = "kernel-log" if _is_framed(head) else "training-log"
    if source == "training-log" or (source == "kernel-log" and not is_of_node and not _is_framed(head)):
        return FileKind(Kind.JOB)
    return FileKind(Kind.NODE, source)


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


def _is_text(head: bytes) -> bool:
    return b"\x00" not in head[:512] and len(head.translate(None, _CONTROL)) >= _MIN_TEXT * len(head)


_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\x1b"))
