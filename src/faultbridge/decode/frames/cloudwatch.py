"""Frame of CloudWatch Logs: the record of a log subscription, and the output of `aws logs tail`.

`body` unpacks a subscription record, which is JSON. The name of a log stream can end with an instance id.
`aws logs tail` prints `2026-02-03T04:05:06.123000+00:00 STREAM MESSAGE`; further lines of a message follow without a
prefix. A syslog line has the same form, with a host in place of the stream. A line therefore counts only if
its stream ends with an instance id, or if its message starts like a kernel message. Source: AWS CLI, `logs tail`.
"""

from __future__ import annotations

import re
from datetime import datetime

from faultbridge.decode.frames.clock import iso_instant
from faultbridge.decode.frames.documents import loads, text_of
from faultbridge.decode.frames.line import Line, instance_of
from faultbridge.model.times import from_milliseconds

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
        Line(str(event["message"]), _instant(event.get("timestamp")), node, at_of_store=True)
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


def _instant(milliseconds: object) -> datetime | None:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int):
        return None
    try:
        return from_milliseconds(milliseconds)
    except OverflowError:
        return None
