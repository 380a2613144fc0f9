"""Reads the log lines in CloudWatch Logs records, and in logs of container runtimes and collectors.

A CloudWatch Logs record is JSON, compressed with gzip and encoded as base64. The name of its log stream can contain the
instance id. `journalctl -o json-pretty` and `dmesg -J` print JSON documents over many lines, and Docker, Fluent Bit,
Container Insights and CRI wrap each of these lines (`spread_documents`).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

from faultbridge.decode.frames.clock import instant, iso_instant
from faultbridge.decode.frames.documents import (
    MAX_JSON_BYTES,
    each_document,
    embedded,
    leading_documents,
    loads,
    text_of,
)
from faultbridge.decode.frames.log_answers import instance_of, is_table, lines_of_answer, lines_of_table
from faultbridge.model.errors import Rejected
from faultbridge.model.times import from_milliseconds

# Unwraps a log line that a collector such as journald, Docker or Fluent Bit stored in a JSON object.
#
# The log line is a string, a list of bytes, or a nested object. An object without a log line is not changed, so that a
# decoder can read it.

_TEXTS = ("MESSAGE", "message", "msg", "log", "@message", "textPayload", "line", "_raw", "log_processed")
_HOSTS = ("_HOSTNAME", "host", "hostname", "node", "node_name", "nodeName")
_TIMES = (
    "_SOURCE_REALTIME_TIMESTAMP",
    "__REALTIME_TIMESTAMP",
    "time",
    "timestamp",
    "@timestamp",
    "ts",
    "date",
    "timereported",
)
_PROGRAMS = ("SYSLOG_IDENTIFIER", "ident", "program", "appname", "syslog_identifier")
_KERNEL = "kernel"
MAX_DEPTH = 3
"""Maximum number of wrappers that are removed around one line."""

_MAX_BYTES = 65536


@dataclass(frozen=True, slots=True)
class WrappedLine:
    """A log line, and the facts that its collector recorded with it.

    `program` is the name of the program that wrote the line. For a journal entry without a name, it is the transport,
    such as `kernel` or `stdout`. It is None if the collector recorded neither. `by_kernel` is True if the kernel wrote
    the line. `by_service` is True if a program wrote the line through the interface of the journal. `is_proven` is True
    if a field that no program can set shows this: the transport of the kernel, or the unit of an NVIDIA service.
    `uptime` is the time in seconds since boot.
    """

    text: str
    at: datetime | None = None
    node: str | None = None
    boot_id: str | None = None
    uptime: str | None = None
    program: str | None = None
    by_kernel: bool = False
    by_service: bool = False
    is_proven: bool = False


def unwrap(text: str) -> WrappedLine | None:
    """Return the log line in the JSON object that starts at the first brace of a text, or None.

    The result is None if no object starts there, or if the object has no log line.
    """
    record = embedded(text)
    return line_of(record) if record else None


def line_of(record: Mapping[str, Any], depth: int = 0) -> WrappedLine | None:
    """Return the log line in a collector's JSON object, or None if the object has no log line.

    The line can be in an object within `record`. `depth` is the number of objects around `record`.
    """
    for name in _TEXTS:
        value = record.get(name)
        if isinstance(value, Mapping) and depth < MAX_DEPTH:
            inner = line_of(value, depth + 1)
            if inner is not None:
                return inner
        text = _text(value)
        if text is not None:
            return _wrapped(record, text)
    return None


def _wrapped(record: Mapping[str, Any], text: str) -> WrappedLine:
    program, transport = _first_text(record, _PROGRAMS), record.get("_TRANSPORT")
    if transport is not None or "MESSAGE" in record:
        program = program or str(transport or _KERNEL)[:64]
        by_kernel = record.get("_TRANSPORT", _KERNEL) == _KERNEL and str(record.get("SYSLOG_FACILITY", "0")) == "0"
    else:
        by_kernel = program == _KERNEL
    kubernetes = record.get("kubernetes")
    return WrappedLine(
        text,
        next((at for name in _TIMES if (at := instant(record.get(name))) is not None), None),
        _first_text(record, _HOSTS) or (_first_text(kubernetes, ("host",)) if isinstance(kubernetes, dict) else None),
        _first_text(record, ("_BOOT_ID",)),
        _uptime(record.get("time")) if "pri" in record else None,
        program,
        by_kernel=by_kernel,
        by_service=transport == "journal",
        is_proven=transport == _KERNEL or str(record.get("_SYSTEMD_UNIT")).startswith("nvidia-"),
    )


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, list) and 0 < len(value) <= _MAX_BYTES and set(map(type, value)) == {int}:
        try:
            return bytes(value).decode("utf-8", "replace")
        except ValueError:
            return None
    return None


def _first_text(record: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((value[:255] for name in names if isinstance(value := record.get(name), str) and value), None)


def _uptime(value: object) -> str | None:
    """Return the time that `dmesg -J` prints, which is seconds since boot, or None if it is not valid."""
    is_seconds = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MAX_UPTIME
    return f"{value:.6f}" if is_seconds else None


_MAX_UPTIME = 10**9


# Joins JSON documents that are printed over several log lines, and removes the wrapper of each line.
#
# Lines of different nodes may be mixed. At most 16 MiB of lines are kept for documents that are not complete yet.

_DOCUMENT_BYTES = 1024
"""Bytes counted for each incomplete document besides its lines; this limits the number of documents."""

_CLOSING = {"{": "}", "[": "]"}
_CRI = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) std(?:out|err) ([FP]) ?(.*)$")


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One log message, with the time and node that the collector added.

    `instance_id` comes from the name of the log stream.
    """

    message: str
    at: datetime | None = None
    instance_id: str | None = None
    node: str | None = None


@dataclass(slots=True)
class _Document:
    """A JSON document whose last line was not read yet.

    `lines` are the log lines of the document as they were read, and `texts` are the texts inside their wrappers.
    `event` is the log event of the first line. `end` is the text of the line that completes the document.
    """

    end: str
    event: LogEvent
    lines: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    size: int = _DOCUMENT_BYTES


def joined_documents(lines: Iterable[str]) -> Iterator[str]:
    """Yield log lines, with each JSON document that a collector stored line by line joined again.

    Such a document is replaced by one line for each log record in it. Documents in other lines are not changed.
    Each new line also has the time and the node that the collector wrote for the first line of the document. A document
    that is never completed, is not JSON or has no log record is yielded as its original lines. If the lines of
    incomplete documents exceed 16 MiB, the lines of the oldest document are yielded unchanged too.
    """
    found: OrderedDict[str | None, _Document] = OrderedDict()
    size = 0
    for line in lines:
        event = log_event(line)
        text = event.message.rstrip() if event else ""
        document = found.get(event.node) if event else None
        if event and text.strip() in _CLOSING and (document is None or text[:-1] == document.end[:-1]):
            if document is not None:
                # The document before was cut off.
                size -= found.pop(event.node).size
                yield from document.lines
            document = found[event.node] = _Document(text[:-1] + _CLOSING[text[-1]], event)
            size += document.size
        if document is None:
            yield line
            continue
        document.lines.append(line)
        document.texts.append(text)
        document.size += len(line) + 1
        size += len(line) + 1
        if text.rstrip(",") == document.end:
            size -= found.pop(document.event.node).size
            yield from _records_of(document)
        while size > MAX_JSON_BYTES:
            _, oldest = found.popitem(last=False)
            size -= oldest.size
            yield from oldest.lines
    for document in found.values():
        yield from document.lines


def _records_of(document: _Document) -> Iterator[str]:
    text = "\n".join(document.texts).rstrip(",")
    try:
        found = [record for one in each_document(text) for record in log_records(one)]
    except (ValueError, RecursionError):
        found = []
    if not found:
        yield from document.lines
    event = document.event
    beside = {"host": event.node, "time": event.at.isoformat() if event.at else None}
    for record in found:
        yield json.dumps({**{name: value for name, value in beside.items() if value}, "log": json.dumps(record)})


def log_records(document: object, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in a JSON document that contain a log line.

    If the document is a response that `log_answers` reads, the log lines of the response are yielded instead. `depth`
    is the number of JSON values that contain `document`. The search ends at a depth of `MAX_DEPTH`.
    """
    answer = list(lines_of_answer(document)) if depth == 0 else []
    if answer:
        yield from answer
        return
    if isinstance(document, Mapping):
        if line_of(document) is not None:
            yield document
            return
        document = list(document.values())
    if isinstance(document, list) and depth < MAX_DEPTH:
        for item in document:
            if isinstance(item, Mapping | list):
                yield from log_records(item, depth + 1)


def log_event(line: str, depth: int = MAX_DEPTH) -> LogEvent | None:
    """Return the log message in a line that a container runtime or a log collector wrapped.

    The message can be inside several JSON objects, of which at most `depth` are removed. The result is None if the
    line has no wrapper.
    """
    cri = _CRI.match(line.strip("\r"))
    at, text = (iso_instant(cri[1]), cri[3]) if cri else (None, line)
    node, is_wrapped = None, cri is not None
    for _ in range(depth):
        wrapped = unwrap(text) if text.lstrip()[:1] == "{" else None
        if wrapped is None:
            break
        text, at, node, is_wrapped = wrapped.text.rstrip("\n"), wrapped.at or at, wrapped.node or node, True
    return LogEvent(text, at, node=node) if is_wrapped else None


_MAX_PIECE = 1024 * 1024
_MAX_HEADER = 4096
# A document that is printed over several lines starts with a line that is only a bracket.
_OPENING = re.compile(
    rb'(?m)" ?: ?\\{0,3}"[ \t]{0,64}[{\[](?:\\{1,4}r)?(?:\\{1,4}n)?\\{0,3}"| [FP] [ \t]{0,64}[{\[][ \t\r]{0,8}$'
)


def log_events(body: bytes) -> tuple[LogEvent, ...] | None:
    """Return the log messages of an unpacked CloudWatch Logs subscription record.

    Returns None for any other body.
    """
    if body[:64].lstrip()[:1] != b"{" or b'"logEvents"' not in body:
        return None
    try:
        record = loads(text_of(body))
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("logEvents"), list):
        return None
    instance_id = instance_of(record.get("logStream"))
    return tuple(
        LogEvent(str(event["message"]), _instant(event.get("timestamp")), instance_id)
        for event in record["logEvents"]
        if isinstance(event, dict) and "message" in event
    )


def unpacked(body: bytes, limit: int = MAX_JSON_BYTES) -> bytes:
    """Return the JSON of a packed CloudWatch Logs record; any other body is returned unchanged.

    Raises Rejected if a record cannot be unpacked, is packed twice, or unpacks to more than `limit` bytes. Ingest
    unpacks a body before it masks secrets. Ingest would not mask the text of a record that is packed twice.
    """
    if body[:64].lstrip()[:1] != b"{" or b'"awslogs"' not in body[:256]:
        return body
    try:
        envelope = loads(text_of(body))
    except (ValueError, RecursionError):
        return body
    return _unpacked(envelope["awslogs"], limit) if isinstance(envelope, dict) and "awslogs" in envelope else body


def _unpacked(awslogs: object, limit: int) -> bytes:
    data = awslogs.get("data") if isinstance(awslogs, dict) else None
    if not isinstance(data, str):
        raise Rejected("wrong_shape", "awslogs.data is not a string; expected base64 of gzip of JSON")
    try:
        packed = base64.b64decode(data, validate=True)
        inflate = zlib.decompressobj(wbits=31)
        record = inflate.decompress(packed, limit)
        if inflate.unconsumed_tail:
            raise Rejected("too_large", f"awslogs.data unpacks to more than {limit} bytes")
        document = loads(text_of(record))
    except (binascii.Error, zlib.error, ValueError, RecursionError) as error:
        raise Rejected("malformed_envelope", "awslogs.data is not base64 of gzip of JSON") from error
    if isinstance(document, dict) and "awslogs" in document:
        raise Rejected("malformed_envelope", "awslogs.data contains another packed record")
    return record


def _instant(milliseconds: object) -> datetime | None:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int):
        return None
    try:
        return from_milliseconds(milliseconds)
    except OverflowError:
        return None


def _may_be_spread(body: bytes) -> bool:
    """Return whether a body may have a JSON document that is printed over several wrapped log lines.

    The sign is a wrapped line whose text is only an opening bracket.
    """
    return (b"{" in body or b"[" in body) and _OPENING.search(body) is not None


def wrapped_lines(body: bytes) -> bytes | None:
    """Return the log lines of a JSON document or of a CSV table, with one JSON object per log record.

    `dmesg -J` and `journalctl -o json-pretty` write such documents; a log collector may have stored each line of one as
    a record of its own. Lines outside the document stay unchanged. The result is None for any other body, such as one
    that already has one JSON object per line, and for a body of more than 16 MiB.
    """
    if len(body) > MAX_JSON_BYTES:
        return None
    if _may_be_spread(body):
        return "\n".join(joined_documents(text_of(body).split("\n"))).encode()
    return _lines_of_document(body)


def _lines_of_document(body: bytes) -> bytes | None:
    if b"@message" in body[:_MAX_HEADER] and is_table(text_of(body[:_MAX_HEADER])):
        return "\n".join(map(json.dumps, lines_of_table(text_of(body)))).encode()
    if body[:64].lstrip()[:1] not in {b"{", b"["}:
        return None
    first, _, rest = body.lstrip().partition(b"\n")
    if rest.strip() and embedded(text_of(first)) is not None:
        return None
    lines: list[str] = []
    text, end = text_of(body), 0
    for document, place in leading_documents(text):
        lines.extend(json.dumps(record) for record in log_records(document))
        end = place
    if not lines:
        return None
    after = text[end:].lstrip()
    # Lines of a document that was cut off do not state who wrote them.
    is_cut = after[:1] in {"{", "["}
    lines += [json.dumps({"program": "unknown", "message": one}) if is_cut else one for one in after.split("\n") if one]
    return "\n".join(lines).encode()


def joined_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a log after joining the complete JSON documents that were wrapped line by line.

    A collector may wrap each line of a document that is printed over several lines. In the result, such a document has
    one line for each log record in it. Other lines do not change. Nothing is joined unless the first piece has a
    wrapped line that is only an opening bracket. Each piece must have whole lines.
    """
    pieces = iter(pieces)
    head = next(pieces, b"")
    if not _may_be_spread(head):
        yield head
        yield from pieces
        return
    lines = (line for piece in chain([head], pieces) for line in text_of(piece).removesuffix("\n").split("\n"))
    group, size = [], 0
    for line in joined_documents(lines):
        group.append(line)
        size += len(line) + 1
        if size >= _MAX_PIECE:
            yield ("\n".join(group) + "\n").encode("utf-8", "replace")
            group, size = [], 0
    if group:
        yield ("\n".join(group) + "\n").encode("utf-8", "replace")


def spread_events(events: Sequence[LogEvent]) -> bytes | None:
    """Join the JSON documents that are spread over several lines or events, and return all log lines.

    Each line of the result is a JSON object with the text (`log`), time and host of one event or of one record in a
    joined document. The lines of an incomplete document are not joined. The result is None if the events contain no
    document that may be spread.
    """
    messages = [one.message.strip() for one in events]
    has_lines = any(one in {"{", "["} or (one[:1] == "{" and "\n" in one) for one in messages)
    if not has_lines and not _may_be_spread("\n".join(messages).encode("utf-8", "replace")):
        return None
    facts = ({"log": one.message, "time": one.at and one.at.isoformat(), "host": one.node} for one in events)
    return "\n".join(joined_documents(map(json.dumps, facts))).encode()


def wrapped_events(body: bytes) -> Iterator[tuple[LogEvent, ...]]:
    """Yield up to three versions of the unwrapped lines of a body, for the caller to try in order.

    A wrapper is the form in which a container runtime or log collector stores a line. The versions are:

    - the lines with all wrappers removed
    - the lines with only the outer wrapper removed, because its content may be a document in the form of a wrapper
    - the lines with all wrappers removed, after JSON documents that are spread over several lines were joined

    A version is left out if one of the lines of the body has no wrapper. A body of more than 16 MiB yields nothing.
    """
    if len(body) > MAX_JSON_BYTES:
        return
    lines = text_of(_lines_of_document(body) or body).split("\n")
    yield from _all_wrapped(lines)
    yield from _all_wrapped(lines, depth=1)
    if _may_be_spread(body):
        yield from _all_wrapped(joined_documents(text_of(body).split("\n")))


def _all_wrapped(lines: Iterable[str], depth: int = MAX_DEPTH) -> list[tuple[LogEvent, ...]]:
    """Return a list with one tuple: the log event of each line, with at most `depth` wrappers removed.

    Blank lines are skipped. The list is empty if a line has no wrapper, or if all lines are blank.
    """
    events = []
    for line in filter(str.strip, lines):
        event = log_event(line, depth)
        if event is None:
            return []
        events.append(event)
    return [tuple(events)] if events else []


# Reads the output of `aws logs tail`: the time, log stream name and message of each event.
#
# Grammar: `2026-02-03T04:05:06.123000+00:00 STREAM MESSAGE`. Further lines of a message follow without a prefix. A
# syslog line has the same form, with a host in place of the stream. A line therefore counts only if its stream ends
# with an instance id, or if its message starts like a kernel message. Source: AWS CLI, `logs tail`.

_TIME = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?\+00:00) "
BEFORE_KERNEL = _TIME + (
    r"(?:[^\s:]{1,512} (?=\[ {0,6}\d{1,10}\.\d{1,9}\] |<\d{1,3}>|\{|NVRM: Xid \("
    r"|(?:\w{3} [ \d]\d \d\d:\d\d:\d\d|\d{4}-[\dT:.Z+-]{15,30}) [\w.-]{1,253} kernel)"
    r"|[^\s:/]{0,256}/[^\s:]{0,256} (?=kernel(?:\[\d{1,10}\])?: ))"
)
"""Matches the time and the stream name before the kernel's own prefix. It matches no line of syslog."""

_OF_INSTANCE = re.compile(rf"^{_TIME}[^\s:]{{0,490}}(?<![^\s/_])(i-[0-9a-f]{{8,17}}) ", re.MULTILINE)


def events_of_instances(text: str) -> tuple[LogEvent, ...] | None:
    """Return the events of log streams whose names end with an instance id.

    Returns None if the text does not start with such an event.
    """
    if _OF_INSTANCE.match(text) is None:
        return None
    _, *fields = _OF_INSTANCE.split(text)
    rows = zip(fields[::3], fields[1::3], fields[2::3], strict=True)
    return tuple(LogEvent(message, iso_instant(at), instance_id) for at, instance_id, message in rows)
