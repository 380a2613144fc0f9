"""Frame of OpenTelemetry (OTLP as JSON): log records, whose resource names the host in its attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.collector import host_in
from faultbridge.decode.frames.line import Line, lines_in


def host_of(value: Mapping[str, Any]) -> str | None:
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
    return lines_in(text, instant(at) if isinstance(at, str | int) else None, host_of(record))


READERS = {"timeUnixNano": _record}
