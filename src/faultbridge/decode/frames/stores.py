"""Frames of log stores and APIs: each reader yields the lines in one kind of JSON response.

They are the console output of an EC2 instance and the output of an SSM command, streams of Loki, records of
OpenTelemetry (OTLP as JSON), events of Splunk's HTTP Event Collector, and rows of CloudWatch Logs Insights, also as the
CSV table that its console exports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.collector import host_in
from faultbridge.decode.frames.decoder import lazy_pattern
from faultbridge.decode.frames.line import Line, instance_of, lines_in

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
