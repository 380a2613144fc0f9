"""Reads the listing of FreeIPMI's `ipmi-sel`: a heading with column names, and one event per line.

Grammar: `ID | Date | Time | Name | Type [| State] [| Event Direction] | Event`, separated by `|` or, with an option, by
commas. A date is `MON-DD-YYYY`, or `PreInit` or `PostInit` if the clock of the controller was not set yet. Without a
heading, the columns are those of the default output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from faultbridge.dataclass import dataclass

_DEFAULT = ("ID", "Date", "Time", "Name", "Type", "Event")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_COLUMN = r"[ \t]{0,64}[|,][ \t]{0,8}"
_HEADING = re.compile(
    rf"^ID{_COLUMN}Date{_COLUMN}Time{_COLUMN}Name{_COLUMN}[^\n]{{0,200}}\bEvent[ \t]{{0,64}}\r?$", re.MULTILINE
)
_ROW = re.compile(
    rf"^[ \t]{{0,8}}\d{{1,6}}{_COLUMN}(?:[A-Z][a-z]{{2}}-\d\d-\d{{4}}|P(?:re|ost)Init){_COLUMN}"
    rf"(?:\d\d:\d\d:\d\d|P(?:re|ost)Init){_COLUMN}[^\n]{{1,400}}$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Event:
    """One event: the name and type of the sensor, what the event reports (`says`), and its time.

    `at` is the time of the controller in ISO 8601, or None if its clock was not set. `ended` is True for a deasserted
    event.
    """

    name: str
    type: str
    says: str
    at: str | None
    ended: bool
    line: str


def is_listing(text: str) -> bool:
    """Return whether a text has the heading or an event of an `ipmi-sel` listing."""
    return _HEADING.search(text) is not None or _ROW.search(text) is not None


def events(text: str) -> Iterator[Event]:
    """Yield the events of an `ipmi-sel` listing."""
    heading = _HEADING.search(text)
    names = _cells(heading[0], len(heading[0])) if heading else _DEFAULT
    for row in _ROW.finditer(text):
        cells = _cells(row[0], len(names))
        if len(cells) >= len(_DEFAULT):
            yield _event(dict(zip(names, cells, strict=False)), row[0].strip())


def _event(cells: Mapping[str, str], line: str) -> Event:
    says = cells.get("Event", "")
    direction = next((value for name, value in cells.items() if "Direction" in name), "")
    ended = direction.startswith("Deassert")
    return Event(cells["Name"], cells["Type"], says, _time(cells["Date"], cells["Time"]), ended, line)


def _time(date: str, clock: str) -> str | None:
    month, _, rest = date.partition("-")
    day, _, year = rest.partition("-")
    if month not in _MONTHS or ":" not in clock:
        return None
    return f"{year}-{_MONTHS.index(month) + 1:02}-{day}T{clock}"


def _cells(line: str, count: int) -> Sequence[str]:
    separator = "|" if "|" in line else ","
    return [cell.strip() for cell in line.split(separator, count - 1)]
