"""Strips the prefixes of a kernel log line: printk, dmesg, syslog, kmsg, journald, container and JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from faultbridge.decode.frames.clock import calendar_time, instant, iso_instant, month_name, yearless_time
from faultbridge.decode.frames.collector import unwrap
from faultbridge.decode.frames.line import Item, Line, instance_of
from faultbridge.decode.frames.stores import BEFORE_KERNEL
from faultbridge.decode.frames.values import lazy_pattern

MAX_PREFIXES = 12
# Driver messages start with one of these; no prefix follows.
_DRIVERS = ("NVRM: ", "nvidia", "pcieport ", "mlx5_core ")
USER, DAEMON = "user", "daemon"
_KERNEL, _NETWORKD, _DAEMON_FACILITY, _FACILITY_STEP = "kern", "systemd-networkd", 3, 8
_OF_NETWORKD = lazy_pattern(rf"(?:\S{{1,255}} )?{_NETWORKD}\[\d{{1,10}}\]: ")
ANSI = lazy_pattern(r"\x1b\[[0-9;]{0,16}[A-Za-z]")


@dataclass(slots=True)
class KernelMessage:
    """One kernel message without its prefixes, and the facts that the prefixes contained.

    `facility` is `kern`, `daemon` for a message of networkd, `user` for any other program, or None if it is unknown.
    `uptime` is the seconds since boot. `count` is how often the message was logged, and `framed` whether the line had
    any prefix. `claimed` is True for text of syslog, in which any program can write the kernel's tag. The object is
    modified in place for speed, because a burst of errors has tens of thousands of lines.
    """

    text: str
    observed_at: datetime | None = None
    node: str | None = None
    uptime: str | None = None
    facility: str | None = None
    boot_id: str | None = None
    count: int = 1
    framed: bool = False
    claimed: bool = False


def unprefixed(line: Item, received_at: datetime | None = None) -> KernelMessage:
    """Return the kernel message in a line. `received_at` supplies the year of a time that has no year."""
    if isinstance(line, str):
        message = KernelMessage(line)
    else:
        message = KernelMessage(line.text)
        _add_facts(message, line)
    for _ in range(MAX_PREFIXES):
        if message.text.startswith(_DRIVERS) or not _strip_one(message, received_at):
            break
    if message.facility == DAEMON and _OF_NETWORKD.match(message.text) is None:
        message.facility = USER  # any program can use this facility, and only networkd's messages are read
    return message


def _strip_one(message: KernelMessage, received_at: datetime | None) -> bool:
    text = message.text
    first = text[:1]
    patterns = _BY_FIRST.get(first) or (_FROM_LETTER if first.isalpha() else _FROM_DIGIT if first.isdigit() else ())
    for pattern in patterns:
        found = pattern.match(text)
        if found is not None:
            message.text = text[found.end() :]
            message.framed = True
            if pattern.groups:
                _add_prefix(message, found, received_at)
            return True
    if first == "{":
        line = unwrap(text)
        if line is not None:
            _add_facts(message, line)
        return line is not None
    if first == "\x1b" or first.isspace() or first == "\ufeff":
        message.text = ANSI.sub("", text).lstrip().removeprefix("\ufeff")
        return message.text != text
    return False


def _add_prefix(message: KernelMessage, found: re.Match[str], received_at: datetime | None) -> None:
    """Add the facts of a prefix to its message. The groups of its pattern name them."""
    facts = {name: value for name, value in found.groupdict().items() if value is not None}
    message.observed_at = message.observed_at or _time(facts, received_at)
    message.node = message.node or facts.get("host") or instance_of(facts.get("stream"))
    # `dmesg` prints a comma before the microseconds, and a runtime or Talos more than the time; syslog does neither.
    is_of_syslog = "iso" in facts and "," not in facts["iso"] and "proof" not in facts
    message.claimed |= is_of_syslog or "claim" in facts
    if "uptime" in facts:
        message.uptime = message.uptime or facts["uptime"]
        message.facility = USER if message.facility not in {None, _KERNEL} else message.facility
    elif "level" in facts:  # `dmesg -x` prints it before each record of /dev/kmsg
        message.facility = facts["level"] if facts["level"] == _KERNEL else USER
    elif "micros" in facts:  # a record of /dev/kmsg
        seconds, micros = divmod(int(facts["micros"]), 1_000_000)
        message.text = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), message.text)
        message.facility = _KERNEL if int(facts["priority"]) < _FACILITY_STEP else USER
        message.uptime = f"{seconds}.{micros:06d}"
    elif "priority" in facts:
        facility = int(facts["priority"]) // _FACILITY_STEP
        is_daemon = facility == _DAEMON_FACILITY and "host" not in facts
        message.facility = DAEMON if is_daemon else USER if facility else _KERNEL
    elif "kernel" in facts:
        message.facility = _KERNEL if message.facility in {None, _KERNEL} else USER
    elif "repeats" in facts:
        message.text = message.text.removesuffix("]").rstrip()
        message.count *= int(facts["repeats"])


def _time(facts: Mapping[str, str], received_at: datetime | None) -> datetime | None:
    if "iso" in facts:
        return iso_instant(facts["iso"].replace("/", "-").replace(" ", "T"))
    if "epoch" in facts:
        return instant(float(facts["epoch"]))
    month = month_name(facts.get("month", ""))
    if month is None:
        return None
    clock = facts["clock"] if facts["clock"].count(":") > 1 else f"{facts['clock']}:00"
    if "year" in facts:
        return calendar_time(month, facts["day"], clock, facts["year"])
    return yearless_time(month, facts["day"], clock, received_at)


def _add_facts(message: KernelMessage, line: Line) -> None:
    """Add the text and the facts of a line in a frame to the message that contained the frame."""
    networkd = line.by_service and line.program == _NETWORKD
    message.text = f"{_NETWORKD}[0]: {line.text}" if networkd else line.text
    message.observed_at = (None if line.at_of_store else line.at) or message.observed_at
    message.node = (None if line.at_of_store else line.node) or message.node
    message.boot_id = line.boot_id or message.boot_id
    message.uptime = line.uptime or message.uptime
    if line.program is not None:
        message.facility = _KERNEL if line.by_kernel else DAEMON if networkd else USER
        message.claimed |= line.by_kernel and not line.is_proven
    message.framed = True


_ESCAPE = lazy_pattern(r"\\x([0-9a-fA-F]{2})")
_DAY_AND_CLOCK = r" {1,3}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d)"
_MONTH = rf"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec){_DAY_AND_CLOCK}"
_ISO = r"(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
_DATE = r"(?P<iso>\d{4}[-/]\d\d[-/]\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?: ?(?:UTC|Z|\+00:?00))?"
_FACILITY = r"(?P<level>kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7])"
# The node, facility, level and time that `talosctl dmesg` prints.
_TALOS = (
    rf"(?P<host>[\w.:-]{{1,253}}): {_FACILITY}: {{1,8}}(?:emerg|alert|crit|err|warning|notice|info|debug): "
    rf"\[{_ISO}\]: (?P<proof>)"
)
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_YEAR, _CLAIM = r"(?P<year>\d{4})", r"(?P<claim>)"
_HOST = rf"(?P<kernel>kernel)(?:\[\d{{1,10}}\])?: ?{_CLAIM}"
# The thread or processor that wrote a message, if the kernel records it; `dmesg` aligns it from util-linux 2.41.
_CALLER = r"(?: {0,4}\[ {0,12}[TC]\d{1,9}\])?"
_TIMES = (
    r" {0,6}(?P<uptime>\d{1,10}\.\d{1,9})(?: <[ \d.+]{1,24}>)?",
    rf"{_WEEKDAY} {_MONTH} {_YEAR}",
    r" {0,8}[<+] {0,8}\d{1,10}\.\d{1,9}>?",
    r"(?P<month>\w{3}) {1,2}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d)",
    rf"\S{{1,5}} {{1,3}}(?P<month>\S{{1,6}}){_DAY_AND_CLOCK} {_YEAR}",
)
_RFC5424 = rf"1 {_ISO} (?P<host>\S{{1,255}}) kernel \S{{1,64}} \S{{1,64}} (?:-|\[.{{0,256}}?\]) ?{_CLAIM}"

# The patterns of a prefix by its first character; each is compiled when a line first needs it.


def _lazy(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(lazy_pattern(pattern) for pattern in patterns)


_BY_FIRST = {
    "[": _lazy(*(rf"\[{time}\]{_CALLER} ?" for time in _TIMES), r"\[(?:pod|container)/[\w./-]{1,253}\] "),
    "<": _lazy(*(rf"<(?P<priority>\d{{1,3}})>{rest}" for rest in (_RFC5424, ""))),
    "-": _lazy("-; ?"),  # the end of a /dev/kmsg prefix whose start was cut off
}
_FROM_DIGIT = _lazy(
    BEFORE_KERNEL,
    rf"{_ISO}(?:(?P<proof> std(?:out|err) [FP])|{_CALLER}) ",
    r"(?P<priority>\d{1,6}),\d{1,20},(?P<micros>\d{1,18}),[^,;]{1,16}(?:,[^;]{0,200})?;",
    rf"{_DATE} ",
    r"(?P<epoch>\d{10}\.\d{3,9}) (?=[\w.-]{1,253} kernel)",
    rf"(?P<host>[0-9][\w.-]{{0,253}}) {_HOST}",
    _TALOS,
)
_FROM_LETTER = _lazy(
    rf"{_MONTH}(?:\.\d{{1,9}})? {_CLAIM}",
    rf"{_FACILITY} {{0,4}}:(?:emerg|alert|crit|err|warn|notice|info|debug) {{0,4}}: ",
    rf"(?:(?P<host>[A-Za-z][\w.-]{{0,253}}) )?{_HOST}",
    "MESSAGE=",
    r"message repeated (?P<repeats>\d{1,6}) times: \[ ?",
    rf"{_WEEKDAY} {_DATE} ",
    rf"{_WEEKDAY} {_MONTH} {_YEAR} {_CLAIM}",
    rf"(?P<month>[^\W\d_]{{3,6}}\.?){_DAY_AND_CLOCK} (?=[\w.-]{{1,253}} kernel){_CLAIM}",
    r"(?:[\w.-]{1,253} )?login: {0,8}",
    r"[\w.-]{1,64} {1,24}\| ",
    _TALOS,
)
