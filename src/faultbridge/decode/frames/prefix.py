"""Strips the prefixes of a kernel log line: printk, dmesg, syslog, kmsg, journald, container and JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from faultbridge.decode.frames.clock import calendar_time, instant, iso_instant, month_name, yearless_time
from faultbridge.decode.frames.cloudwatch import BEFORE_KERNEL
from faultbridge.decode.frames.collector import unwrap
from faultbridge.decode.frames.decoder import lazy_pattern
from faultbridge.decode.frames.line import Item, Line, instance_of

MAX_PREFIXES = 12
# Driver messages start with one of these; no prefix follows.
_DRIVERS = ("NVRM: ", "nvidia", "pcieport ", "mlx5_core ")
USER, DAEMON = "user", "daemon"
_KERNEL, _NETWORKD, _KERNEL_FACILITY, _DAEMON_FACILITY = "kern", "systemd-networkd", 0, 3
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
    patterns = _BY_FIRST.get(first) or (_from_letter if first.isalpha() else _from_digit if first.isdigit() else None)
    for pattern, strip in patterns() if patterns else ():
        match = pattern.match(text)
        if match is not None:
            message.text = text[match.end() :]
            message.framed = True
            strip(message, match, received_at)
            return True
    if first == "{":
        return _from_json(message)
    if first == "\x1b" or first.isspace() or first == "\ufeff":
        message.text = ANSI.sub("", text).lstrip().removeprefix("\ufeff")
        return message.text != text
    return False


_Strip = Callable[[KernelMessage, "re.Match[str]", "datetime | None"], None]
_Patterns = tuple[tuple["re.Pattern[str]", _Strip], ...]


def _uptime(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    message.uptime = message.uptime or match[1]
    if message.facility not in {None, _KERNEL}:
        message.facility = USER


def _calendar(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    month, day, clock, year = match.groups()
    message.observed_at = message.observed_at or calendar_time(month, day, clock, year)
    message.claimed |= match[0][0] != "["


def _yearless(message: KernelMessage, match: re.Match[str], received_at: datetime | None) -> None:
    message.observed_at = message.observed_at or yearless_time(match[1], match[2], match[3], received_at)
    message.claimed = True


def _minute(message: KernelMessage, match: re.Match[str], received_at: datetime | None) -> None:
    if month_name(match[1]):
        message.observed_at = message.observed_at or yearless_time(match[1], match[2], f"{match[3]}:00", received_at)


def _localized(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    month = month_name(match[1])
    if month is not None:
        message.observed_at = message.observed_at or calendar_time(month, match[2], match[3], match[4])


def _date_and_time(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    message.observed_at = message.observed_at or iso_instant(match[1].replace("/", "-").replace(" ", "T"))
    # `dmesg` prints a comma before the microseconds, and a container runtime names the stream; syslog does neither.
    message.claimed |= "," not in match[1] and " std" not in match[0]


def _stream(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    _date_and_time(message, match, None)
    message.node = message.node or instance_of(match[2] or match[3])


def _epoch(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    message.observed_at = message.observed_at or instant(float(match[1]))


def _level(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    # `dmesg -x` prints this before each record of /dev/kmsg.
    message.facility = match[1] if match[1] == _KERNEL else USER


def _priority(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    message.facility = DAEMON if int(match[1]) >> 3 == _DAEMON_FACILITY else _facility(int(match[1]))


def _rfc5424(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    message.facility = _facility(int(match[1]))
    message.observed_at = message.observed_at or iso_instant(match[2])
    message.node = message.node or match[3]
    message.claimed = True


def _kmsg(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    seconds, micros = divmod(int(match[3]), 1_000_000)
    message.text = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), message.text)
    message.facility = _facility(int(match[1]))
    message.uptime = f"{seconds}.{micros:06d}"


def _talos(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    message.node = message.node or match[1]
    message.facility = match[2] if match[2] == _KERNEL else USER
    message.observed_at = message.observed_at or iso_instant(match[3])


def _host(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    message.node = message.node or match[1]
    message.facility = _KERNEL if message.facility in {None, _KERNEL} else USER
    message.claimed = True


def _strip_only(_message: KernelMessage, _match: re.Match[str], _: datetime | None) -> None:
    pass


def _repeated(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    message.text = message.text.removesuffix("]").rstrip()
    message.count *= int(match[1])


def _facility(priority: int) -> str:
    return _KERNEL if priority >> 3 == _KERNEL_FACILITY else USER


def _from_json(message: KernelMessage) -> bool:
    line = unwrap(message.text)
    if line is not None:
        _add_facts(message, line)
    return line is not None


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
_MONTH = r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d)"
_ISO = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
_DATE_AND_TIME = r"(\d{4}[-/]\d\d[-/]\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?: ?(?:UTC|Z|\+00:?00))?"
_FACILITY = r"(kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7])"
# The node, facility, level and time that `talosctl dmesg` prints.
_TALOS = rf"([\w.:-]{{1,253}}): {_FACILITY}: {{1,8}}(?:emerg|alert|crit|err|warning|notice|info|debug): \[{_ISO}\]: "
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
# The thread or processor that wrote a message, if the kernel records it; `dmesg` aligns it from util-linux 2.41.
_CALLER = r"(?: {0,4}\[ {0,12}[TC]\d{1,9}\])?"


@cache
def _in_brackets() -> _Patterns:
    heads: tuple[tuple[str, _Strip], ...] = (
        (r" {0,6}(\d{1,10}\.\d{1,9})(?: <[ \d.+]{1,24}>)?", _uptime),
        (rf"{_WEEKDAY} {_MONTH} (\d{{4}})", _calendar),
        (r" {0,8}[<+] {0,8}\d{1,10}\.\d{1,9}>?", _strip_only),
        (r"(\w{3}) {1,2}(\d{1,2}) (\d\d:\d\d)", _minute),
        (r"\S{1,5} {1,3}(\S{1,6}) {1,3}(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4})", _localized),
    )
    times = tuple((re.compile(rf"\[{head}\]{_CALLER} ?"), strip) for head, strip in heads)
    return (*times, (re.compile(r"\[(?:pod|container)/[\w./-]{1,253}\] "), _strip_only))


@cache
def _in_angle_brackets() -> _Patterns:
    return (
        (
            re.compile(rf"<(\d{{1,3}})>1 {_ISO} (\S{{1,255}}) kernel \S{{1,64}} \S{{1,64}} (?:-|\[.{{0,256}}?\]) ?"),
            _rfc5424,
        ),
        (re.compile(r"<(\d{1,3})>"), _priority),
    )


@cache
def _from_digit() -> _Patterns:
    return (
        (re.compile(BEFORE_KERNEL), _stream),
        (re.compile(rf"{_ISO}(?: std(?:out|err) [FP]|{_CALLER}) "), _date_and_time),
        (re.compile(r"(\d{1,6}),(\d{1,20}),(\d{1,18}),[^,;]{1,16}(?:,[^;]{0,200})?;"), _kmsg),
        (re.compile(rf"{_DATE_AND_TIME} "), _date_and_time),
        (re.compile(r"(\d{10}\.\d{3,9}) (?=[\w.-]{1,253} kernel)"), _epoch),
        (re.compile(r"([0-9][\w.-]{0,253}) kernel(?:\[\d{1,10}\])?: ?"), _host),
        (re.compile(_TALOS), _talos),
    )


@cache
def _from_letter() -> _Patterns:
    return (
        (re.compile(rf"{_MONTH}(?:\.\d{{1,9}})? "), _yearless),
        (re.compile(rf"{_FACILITY} {{0,4}}:(?:emerg|alert|crit|err|warn|notice|info|debug) {{0,4}}: "), _level),
        (re.compile(r"(?:([A-Za-z][\w.-]{0,253}) )?kernel(?:\[\d{1,10}\])?: ?"), _host),
        (re.compile(r"MESSAGE="), _strip_only),
        (re.compile(r"message repeated (\d{1,6}) times: \[ ?"), _repeated),
        (re.compile(rf"{_WEEKDAY} {_DATE_AND_TIME} "), _date_and_time),
        (re.compile(rf"{_WEEKDAY} {_MONTH} (\d{{4}}) "), _calendar),
        (re.compile(r"([^\W\d_]{3,6}\.?) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d) (?=[\w.-]{1,253} kernel)"), _yearless),
        (re.compile(r"(?:[\w.-]{1,253} )?login: {0,8}"), _strip_only),
        (re.compile(r"[\w.-]{1,64} {1,24}\| "), _strip_only),
        (re.compile(_TALOS), _talos),
    )


@cache
def _rest_of_head() -> _Patterns:
    """Return the pattern for the end of a /dev/kmsg prefix whose start was cut off."""
    return ((re.compile(r"-; ?"), _strip_only),)


# Each group of patterns is compiled when a line first needs it: compiling them all takes longer than a short decoding.
_BY_FIRST: Mapping[str, Callable[[], _Patterns]] = {
    "[": _in_brackets,
    "<": _in_angle_brackets,
    "-": _rest_of_head,
}
