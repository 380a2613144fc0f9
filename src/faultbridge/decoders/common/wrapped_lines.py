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
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain

from faultbridge.decoders.common.documents import MAX_JSON_BYTES, embedded, leading_documents, loads, text_of
from faultbridge.decoders.common.log_answers import instance_of, is_table, lines_of_table
from faultbridge.decoders.common.spread_documents import LogEvent, joined_documents, log_event, log_records
from faultbridge.decoders.common.wrappers import MAX_DEPTH
from faultbridge.domain.times import from_milliseconds
from faultbridge.errors import Rejected

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
