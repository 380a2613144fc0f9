"""Finds the log lines in the answers of AWS APIs and log stores, each with its own time and node.

Read are EC2's console output, the output of an SSM command, CloudWatch Logs Insights, OpenTelemetry's logs (OTLP as
JSON), Loki's streams and events of Splunk's collector. Each line becomes an object that `common.wrappers` unwraps.
Source: the API references of EC2, SSM and CloudWatch Logs, OTLP, Loki's HTTP API, Splunk's HTTP Event Collector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Lines = list[Mapping[str, Any]]
_MAX_DEPTH = 8


def lines_of_answer(document: object, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the log lines within the JSON answer of an API or a log store; nothing for other documents."""
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
    text = cells.get("@message")
    return {"log": text, "time": cells.get("@timestamp")} if isinstance(text, str) and text.strip() else None


def _lines(text: object, **beside: object) -> Lines:
    """Return an object for each line of a text that is not empty; nothing for other values."""
    texts = text.split("\n") if isinstance(text, str) else []
    return [{"log": line.rstrip("\r"), **beside} for line in texts if line.strip()]


_SHAPES: Mapping[str, Callable[[Mapping[str, Any]], Lines]] = {
    "Output": _console,
    "StandardOutputContent": _command,
    "timeUnixNano": _record,
    "stream": _stream,
    "event": _event,
}
