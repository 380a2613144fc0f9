"""Reads the time, the rank and the host that a line of a job log states."""

from __future__ import annotations

import re
from datetime import datetime

from faultbridge.decoders.common.clock import instant, iso_instant, yearless_time
from faultbridge.decoders.common.prefix import unprefixed

_HEAD = 120
_MAX_LINES = 1024
_TIME = re.compile(
    r"(?P<iso>\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
    r"|\b[EWIF](?P<month>\d{1,2})(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)"
    r"|(?P<name>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}(?P<date>\d{1,2}) (?P<hour>\d\d:\d\d:\d\d)"
)
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_RANK = re.compile(r"\[rank(\d{1,6})\]|\[(?:PG [^\[\]]{0,64} )?Rank (\d{1,6})\]|\b[Rr]ank (\d{1,6})\b|^(\d{1,6}): ")
_HOST = re.compile(r"\bnode: (?P<node>[\w.-]{1,253})|(?:^|[\] ])(?P<host>[A-Za-z][\w.-]{0,252}):\d{1,8}:\d{1,8} \[\d")
# A field of `journalctl -o export` starts a line; in JSON, a quotation mark within a message is escaped.
_JOURNAL_TIME = re.compile(
    r"^[ \t]{0,16}__REALTIME_TIMESTAMP=(?P<export>\d{16})$"
    r'|(?<!\\)"__REALTIME_TIMESTAMP" {0,4}: {0,4}"(?P<json>\d{16})"',
    re.MULTILINE,
)
_NAMED_RANK = re.compile(r"rank[_-]?(\d{1,6})")


def time_of(text: str, received_at: datetime | None, *, last: bool = False) -> datetime | None:
    """Return the first time in a text, or None if the text has no time.

    A time counts if it is in the first 120 characters of its line. If `last` is True, the time in the last line with a
    time is returned. A time without a zone is taken as UTC. A time without a year gets its year from `received_at`, and
    is ignored if `received_at` is None.
    """
    lines = text.splitlines()
    for line in reversed(lines) if last else lines:
        found = _TIME.search(line[:_HEAD])
        instant = _instant(found, received_at) if found else None
        if instant is not None:
            return instant
    return None


def span_time_of(text: str, received_at: datetime | None, *, last: bool = False) -> datetime | None:
    """Return the first time in a text, for the start of a log's span; None if the text has no time.

    If `last` is True, the last time is returned, for the end of the span. The times of journal entries are used if the
    text has any. If not, the times at the start of the lines are used.
    """
    entries = _JOURNAL_TIME.findall(text)
    if entries:
        return instant("".join(entries[-1 if last else 0]))
    return time_of(text, received_at, last=last)


def latest_date_of(head: bytes) -> datetime | None:
    """Return the latest time with a year in the first 1,024 lines of a text, or None if there is none."""
    lines = head.decode("utf-8", "replace").splitlines()[:_MAX_LINES]
    return max((at for line in lines if (at := unprefixed(line).observed_at or time_of(line, None))), default=None)


def _instant(found: re.Match[str], received_at: datetime | None) -> datetime | None:
    if found["iso"]:
        return iso_instant(found["iso"].replace("/", "-").replace(" ", "T"))
    if found["name"]:
        return yearless_time(found["name"], found["date"], found["hour"], received_at)
    month = int(found["month"])
    return yearless_time(_NAMES[month - 1], found["day"], found["clock"], received_at) if 1 <= month <= 12 else None  # noqa: PLR2004 - months


def rank_of(line: str) -> int | None:
    """Return the first global rank that a line states, or None if the line does not state a rank."""
    found = _RANK.search(line)
    return int(next(one for one in found.groups() if one)) if found else None


def rank_of_file(file: str) -> int | None:
    """Return the rank in the name of a file such as `rank_3.err`, or None if the name states no rank."""
    found = _NAMED_RANK.search(file.rsplit("/", 1)[-1])
    return int(found[1]) if found else None


def host_of(line: str) -> str | None:
    """Return the host that a line states in NCCL's log format or after `node:`, or None."""
    found = _HOST.search(line[:512])
    return (found["node"] or found["host"]) if found else None
