"""Frames of log stores and APIs: each reader yields the lines in one kind of JSON response.

They are records of CloudWatch Logs subscriptions (which `body` unpacks) and the output of `aws logs tail`, rows of
CloudWatch Logs Insights, also as the CSV table that its console exports, the console output of an EC2 instance and the
output of an SSM command, streams of Loki, records of OpenTelemetry (OTLP as JSON), and events of Splunk's HTTP Event
Collector.

`aws logs tail` prints `2026-02-03T04:05:06.123000+00:00 STREAM MESSAGE`; further lines of a message follow without a
prefix. A syslog line has the same form, with a host in place of the stream. A line therefore counts only if its stream
ends with an instance id, or if its message starts like a kernel message. Source: AWS CLI, `logs tail`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from faultbridge.decode.frames.clock import instant, iso_instant
from faultbridge.decode.frames.collector import host_in
from faultbridge.decode.frames.documents import loads, text_of
from faultbridge.decode.frames.line import Line, instance_of, lines_in
from faultbridge.decode.frames.values import lazy_pattern

_TIME = r"(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?\+00:00) "
BEFORE_KERNEL = (
    rf"{_TIME}(?P<stream>[^\s:]{{1,512}}(?= (?:\[ {{0,6}}\d{{1,10}}\.\d{{1,9}}\] |<\d{{1,3}}>|\{{|NVRM: Xid \("
    r"|(?:\w{3} [ \d]\d \d\d:\d\d:\d\d|\d{4}-[\dT:.Z+-]{15,30}) [\w.-]{1,253} kernel))"
    r"|[^\s:/]{0,256}/[^\s:]{0,256}(?= kernel(?:\[\d{1,10}\])?: )) "
)
"""Matches the time and the stream name before the kernel's own prefix. It matches no line of syslog."""

_OF_INSTANCE = re.compile(rf"^{_TIME}[^\s:]{{0,490}}(?<![^\s/_])(i-[0-9a-f]{{8,17}}) ", re.MULTILINE)


def events_of(body: bytes) -> tuple[Line, ...] | None:
    """Return the log messages of an unpacked subscription record; None for any other body."""
    if body[:64].lstrip()[:1] != b"{" or b'"logEvents"' not in body:
        return None
    try:
        record = loads(text_of(body))
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("logEvents"), list):
        return None
    node = instance_of(record.get("logStream"))
    return tuple(
        Line(str(event["message"]), instant(event.get("timestamp")), node, at_of_store=True)
        for event in record["logEvents"]
        if isinstance(event, dict) and "message" in event
    )


def tailed_events(text: str) -> tuple[Line, ...] | None:
    """Return the events of log streams of instances that `aws logs tail` printed."""
    if _OF_INSTANCE.match(text) is None:
        return None
    _, *fields = _OF_INSTANCE.split(text)
    rows = zip(fields[::3], fields[1::3], fields[2::3], strict=True)
    return tuple(Line(message, iso_instant(at), instance_id) for at, instance_id, message in rows)


_MAX_DEPTH = 8
_TABLE = lazy_pattern(r'\ufeff?(?:"?@?\w{1,64}"?,){0,32}"?@message"?(?:,"?@?\w{1,64}"?){0,32}\r?\n')
_CELL = lazy_pattern(r'(?:"([^"]*(?:""[^"]*)*)"|([^,\n]*?))(,|\r?\n|\Z)')


def stored_lines(document: object, depth: int = 0, node: str | None = None) -> Iterator[Line]:
    """Yield the log lines in the JSON response of an API or a log store, or nothing for other documents."""
    if isinstance(document, dict):
        node = _otlp_host(document) or node
        for member, read in _READERS.items():
            if member in document:
                yield from (line.within(Line("", node=node)) for line in read(document))
        document = list(document.values())
    if isinstance(document, list) and depth < _MAX_DEPTH:
        inner = [item for item in document if isinstance(item, dict | list)]
        row = _insights_row(inner) if inner else None
        if row is not None:
            yield row
            return
        for item in inner:
            yield from stored_lines(item, depth + 1, node)


def _console(answer: Mapping[str, Any]) -> Iterator[Line]:
    instance_id = answer.get("InstanceId")
    return lines_in(answer["Output"], node=instance_id) if isinstance(instance_id, str) else iter(())


def _command(answer: Mapping[str, Any]) -> Iterator[Line]:
    instance_id = answer.get("InstanceId")
    node = instance_id if isinstance(instance_id, str) and instance_id.startswith("i-") else None
    return lines_in(answer["StandardOutputContent"], node=node) if "CommandId" in answer else iter(())


def _stream(stream: Mapping[str, Any]) -> Iterator[Line]:
    labels, rows = stream["stream"], stream.get("values")
    node = host_in(labels) if isinstance(labels, Mapping) else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, list) and len(row) > 1:
            metadata = row[2] if len(row) > 2 and isinstance(row[2], Mapping) else {}  # noqa: PLR2004 - structured metadata is third
            at = instant(row[0]) if isinstance(row[0], str) else None
            yield from lines_in(row[1], at, host_in(metadata) or node)


def _otlp_host(value: Mapping[str, Any]) -> str | None:
    """Return the host that the attributes of an OTLP record, or of its `resource`, name; None without one."""
    for holder in (value, value.get("resource")):
        attributes = holder.get("attributes") if isinstance(holder, dict) else None
        if isinstance(attributes, list):
            named = {str(one.get("key")): one.get("value") for one in attributes if isinstance(one, Mapping)}
            texts = {name: one.get("stringValue") for name, one in named.items() if isinstance(one, Mapping)}
            if host := host_in(texts):
                return host
    return None


def _record(record: Mapping[str, Any]) -> Iterator[Line]:
    body = record.get("body")
    text = body.get("stringValue") if isinstance(body, Mapping) else None
    at = record["timeUnixNano"] or record.get("observedTimeUnixNano")
    return lines_in(text, instant(at) if isinstance(at, str | int) else None, _otlp_host(record))


def _event(event: Mapping[str, Any]) -> Iterator[Line]:
    host = event.get("host")
    if not isinstance(event["event"], str) or "host" not in event:
        return iter(())
    return lines_in(event["event"], instant(event.get("time")), host[:255] if isinstance(host, str) and host else None)


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[Line]]] = {
    "Output": _console,
    "StandardOutputContent": _command,
    "stream": _stream,
    "timeUnixNano": _record,
    "event": _event,
}


def is_table(head: str) -> bool:
    """Return whether a text starts like the CSV table that the CloudWatch Logs Insights console exports."""
    return _TABLE.match(head) is not None


def lines_of_table(text: str) -> Iterator[Line]:
    """Yield the log lines of a table. A row from which no message can be read is yielded as one line."""
    rows = _rows_of(text.removeprefix("\ufeff"))
    header = next(rows, [])
    for cells in rows:
        row = _row(dict(zip(header, cells, strict=True))) if len(cells) == len(header) else None
        if row is not None or any(cells):
            yield row or Line(",".join(cells))


def _insights_row(row: list[Any]) -> Line | None:
    """Return the line in a row of a query result, which is a list of fields and values; None for another list."""
    return _row({str(cell.get("field")): cell.get("value") for cell in row if isinstance(cell, Mapping)})


def _rows_of(text: str) -> Iterator[list[str]]:
    cells: list[str] = []
    for found in _CELL.finditer(text):
        quoted = found[1]
        cells.append(found[2] if quoted is None else quoted.replace('""', '"'))
        if found[3] != ",":
            yield cells
            cells = []


def _row(cells: Mapping[str, Any]) -> Line | None:
    text = cells.get("@message")
    if not isinstance(text, str) or not text.strip():
        return None
    return Line(text, instant(cells.get("@timestamp")), instance_of(cells.get("@logStream")))
