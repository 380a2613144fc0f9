"""Reads the output of `aws logs tail`: the time, log stream name and message of each event.

Grammar: `2026-02-03T04:05:06.123000+00:00 STREAM MESSAGE`. Further lines of a message follow without a prefix. A syslog
line has the same form, with a host in place of the stream. A line therefore counts only if its stream ends with an
instance id, or if its message starts like a kernel message. Source: AWS CLI, `logs tail`.
"""

from __future__ import annotations

import re

from faultbridge.decoders.common.clock import iso_instant
from faultbridge.decoders.common.spread_documents import LogEvent

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
