"""Finds the log lines in the responses of AWS APIs and log stores.

It reads the console output of EC2, the output of an SSM command, results of CloudWatch Logs Insights (also the table
that its console exports), logs of OpenTelemetry (OTLP as JSON), streams of Loki, and events of Splunk's HTTP Event
Collector. Each line becomes an object that `common.wrappers` can unwrap. The object has the time and the node of the
line, if the response states them.

Source: the API references of EC2, SSM and CloudWatch Logs, OTLP, Loki's HTTP API, Splunk's HTTP Event Collector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from faultbridge.decode.frames.decoder import lazy_pattern

Lines = list[Mapping[str, Any]]
_MAX_DEPTH = 8
_INSTANCE = lazy_pattern(r"(?:^|[/_])(i-[0-9a-f]{8,17})$")
_TABLE = lazy_pattern(r'\ufeff?(?:"?@?\w{1,64}"?,){0,32}"?@message"?(?:,"?@?\w{1,64}"?){0,32}\r?\n')

_CELL = lazy_pattern(r'(?:"([^"]*(?:""[^"]*)*)"|([^,\n]*?))(,|\r?\n|\Z)')


def instance_of(stream: object) -> str | None:
    """Return the instance id at the end of the name of a log stream, or None if the name has none."""
    found = _INSTANCE.search(str(stream or ""))
    return found and found[1]


def is_table(head: str) -> bool:
    """Return whether a text starts like the CSV table that the CloudWatch Logs Insights console exports."""
    return _TABLE.match(head) is not None


def lines_of_table(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the log lines of a CSV table that the console of CloudWatch Logs Insights exported.

    A row from which no message can be read is yielded as a whole, as one log line.
    """
    rows = _rows_of(text.removeprefix("\ufeff"))
    header = next(rows, [])
    for cells in rows:
        row = _row(dict(zip(header, cells, strict=True))) if len(cells) == len(header) else None
        if row is not None or any(cells):
            yield row or {"log": ",".join(cells)}


def _rows_of(text: str) -> Iterator[list[str]]:
    cells: list[str] = []
    for found in _CELL.finditer(text):
        quoted = found[1]
        cells.append(found[2] if quoted is None else quoted.replace('""', '"'))
        if found[3] != ",":
            yield cells
            cells = []


def lines_of_answer(document: object, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the log lines in the JSON response of an API or a log store, or nothing for other documents.

    `depth` is the number of JSON values that contain `document`. The search ends at a depth of `_MAX_DEPTH`.
    """
    if isinstance(document, Mapping):
        for member, read in _SHAPES.items():
            if member in document:
                yield from read(document)
        document = list(document.values())
    if isinstance(document, list) and depth < _MAX_DEPTH:
        row = _insights_row(document)
        if row:
            yield row
            return
        for item in document:
            if isinstance(item, Mapping | list):
                yield from lines_of_answer(item, depth + 1)


def _console(answer: Mapping[str, Any]) -> Lines:
    return _lines(answer.get("Output")) if "InstanceId" in answer else []


def _command(answer: Mapping[str, Any]) -> Lines:
    return _lines(answer["StandardOutputContent"]) if "CommandId" in answer else []


def _record(record: Mapping[str, Any]) -> Lines:
    body = record.get("body")
    text = body.get("stringValue") if isinstance(body, Mapping) else None
    at = record["timeUnixNano"] or record.get("observedTimeUnixNano")
    return _lines(text, time=at if isinstance(at, str | int) else None)


def _stream(stream: Mapping[str, Any]) -> Lines:
    rows = stream.get("values")
    pairs = (row for row in rows if isinstance(row, list) and len(row) > 1) if isinstance(rows, list) else ()
    return [line for at, text, *_ in pairs for line in _lines(text, time=at if isinstance(at, str) else None)]


def _event(event: Mapping[str, Any]) -> Lines:
    is_splunk = "host" in event and isinstance(event["event"], str)
    return _lines(event["event"], time=event.get("time"), host=event["host"]) if is_splunk else []


def _insights_row(row: list[Any]) -> Mapping[str, Any] | None:
    cells = {str(cell.get("field")): cell.get("value") for cell in row if isinstance(cell, Mapping)}
    return _row(cells)


def _row(cells: Mapping[str, Any]) -> Mapping[str, Any] | None:
    text = cells.get("@message")
    beside = {"time": cells.get("@timestamp"), "host": instance_of(cells.get("@logStream"))}
    return {"log": text, **beside} if isinstance(text, str) and text.strip() else None


def _lines(text: object, **beside: object) -> Lines:
    texts = text.split("\n") if isinstance(text, str) else []
    return [{"log": line.rstrip("\r"), **beside} for line in texts if line.strip()]


_SHAPES: Mapping[str, Callable[[Mapping[str, Any]], Lines]] = {
    "Output": _console,
    "StandardOutputContent": _command,
    "timeUnixNano": _record,
    "stream": _stream,
    "event": _event,
}
