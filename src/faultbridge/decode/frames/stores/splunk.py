"""Frame of Splunk's HTTP Event Collector: an event with its host and time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.line import Line, lines_in


def _event(event: Mapping[str, Any]) -> Iterator[Line]:
    host = event.get("host")
    if not isinstance(event["event"], str) or "host" not in event:
        return iter(())
    return lines_in(event["event"], instant(event.get("time")), host[:255] if isinstance(host, str) and host else None)


READERS = {"event": _event}
