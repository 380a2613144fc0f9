"""What stands before a kernel message: printk, dmesg, syslog, kmsg, journald and container prefixes, in any order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faultbridge.decoders.clock import calendar_time, iso_instant, yearless_time
from faultbridge.decoders.documents import embedded
from faultbridge.domain.times import from_milliseconds

MAX_PREFIXES = 8
# What no prefix begins with: there is nothing more to strip.
_DRIVERS = ("NVRM: ", "nvidia", "pcieport ", "mlx5_core ")
USER = "user"
_NETWORKD = "systemd-networkd"
_KERNEL_FACILITY, _USER_FACILITY = 0, 1


@dataclass(slots=True)
class KernelMessage:
    """One kernel message without its prefixes, and what these said.

    `uptime` is printk's own clock, seconds since boot as printed; `framed` tells whether any prefix stood there.
    It is filled in place while prefixes are stripped: a storm is tens of thousands of lines.
    """

    text: str
    observed_at: datetime | None = None
    node: str | None = None
    uptime: str | None = None
    facility: str | None = None
    boot_id: str | None = None
    count: int = 1
    framed: bool = False


def unprefixed(line: str, received_at: datetime | None = None) -> KernelMessage:
    """Strip every prefix of one line; `received_at` gives the year to times without one."""
    message = KernelMessage(line)
    for _ in range(MAX_PREFIXES):
        if message.text.startswith(_DRIVERS) or not _strip_one(message, received_at):
            break
        message.framed = True
    return message


def _strip_one(message: KernelMessage, received_at: datetime | None) -> bool:
    text = message.text
    first = text[:1]
    patterns = _BY_FIRST.get(first) or (_LETTER if first.isalpha() else _DIGIT if first.isdigit() else ())
    for pattern, strip in patterns:
        found = pattern.match(text)
        if found is not None:
            message.text = text[found.end() :]
            strip(message, found, received_at)
            return True
    return first == "{" and _from_journal(message)


_Strip = Callable[[KernelMessage, "re.Match[str]", "datetime | None"], None]
_Patterns = tuple[tuple["re.Pattern[str]", _Strip], ...]


def _uptime(message: KernelMessage, found: re.Match[str], _: datetime | None) -> None:
    message.uptime = message.uptime or found[1]


def _calendar(message: KernelMessage, found: re.Match[str], _: datetime | None) -> None:
    month, day, clock, year = found.groups()
    message.observed_at = message.observed_at or calendar_time(month, day, clock, year)


def _yearless(message: KernelMessage, found: re.Match[str], received_at: datetime | None) -> None:
    message.observed_at = message.observed_at or yearless_time(found[1], found[2], found[3], received_at)


def _iso(message: KernelMessage, found: re.Match[str], _: datetime | None) -> None:
    message.observed_at = message.observed_at or iso_instant(found[1])


def _level(message: KernelMessage, found: re.Match[str], _: datetime | None) -> None:
    message.facility = found[1]


def _priority(message: KernelMessage, found: re.Match[str], _: datetime | None) -> None:
    message.facility = _facility(int(found[1]))


def _rfc5424(message: KernelMessage, found: re.Match[str], _: datetime | None) -> None:
    message.facility = _facility(int(found[1]))
    message.observed_at = message.observed_at or iso_instant(found[2])
    message.node = message.node or found[3]


def _kmsg(message: KernelMessage, found: re.Match[str], _: datetime | None) -> None:
    seconds, micros = divmod(int(found[3]), 1_000_000)
    message.text = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), message.text)
    message.facility = _facility(int(found[1]))
    message.uptime = f"{seconds}.{micros:06d}"


def _host(message: KernelMessage, found: re.Match[str], _: datetime | None) -> None:
    message.node = message.node or found[1]
    message.facility = message.facility or "kern"


def _keep(_message: KernelMessage, _found: re.Match[str], _: datetime | None) -> None:
    pass


def _repeated(message: KernelMessage, found: re.Match[str], _: datetime | None) -> None:
    message.text = message.text.removesuffix("]").rstrip()
    message.count *= int(found[1])


def _facility(priority: int) -> str:
    number = priority >> 3
    return USER if number == _USER_FACILITY else "kern" if number == _KERNEL_FACILITY else str(number)


def _from_journal(message: KernelMessage) -> bool:
    """Read a journald export object: its message may be a byte array, its numbers are strings."""
    record = embedded(message.text)
    text = _journal_text(record.get("MESSAGE")) if record else None
    if record is None or text is None:
        return False
    kernel = record.get("_TRANSPORT", "kernel") == "kernel" and record.get("SYSLOG_FACILITY", "0") != "1"
    networkd = record.get("_TRANSPORT") == "journal" and record.get("SYSLOG_IDENTIFIER") == _NETWORKD
    message.text = f"{_NETWORKD}[0]: {text}" if networkd else text
    message.observed_at = _journal_time(record)
    message.node = _named(record, "_HOSTNAME")
    message.boot_id = _named(record, "_BOOT_ID")
    message.facility = "kern" if kernel else "daemon" if networkd else USER
    return True


def _journal_text(written: object) -> str | None:
    if isinstance(written, str):
        return written
    if isinstance(written, list) and all(type(byte) is int and 0 <= byte <= 255 for byte in written):  # noqa: PLR2004 - a byte
        return bytes(written).decode("utf-8", "replace")
    return None


def _journal_time(record: Mapping[str, Any]) -> datetime | None:
    written = record.get("_SOURCE_REALTIME_TIMESTAMP", record.get("__REALTIME_TIMESTAMP"))
    digits = str(written)
    try:
        return from_milliseconds(int(digits) // 1000) if digits.isascii() and digits.isdigit() else None
    except (OverflowError, ValueError):
        return None


def _named(record: Mapping[str, Any], key: str) -> str | None:
    value = record.get(key)
    return value if isinstance(value, str) and value else None


_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})")
_MONTH = r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d)"
_ISO = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
_FACILITY = r"(kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7])"
_BRACKET: _Patterns = (
    (re.compile(r"\[ {0,6}(\d{1,10}\.\d{1,9})\](?:\[ {0,6}[TC]\d{1,9}\])? ?"), _uptime),
    (re.compile(rf"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) {_MONTH} (\d{{4}})\] ?"), _calendar),
)
_ANGLE: _Patterns = (
    (
        re.compile(rf"<(\d{{1,3}})>1 {_ISO} (\S{{1,255}}) kernel \S{{1,64}} \S{{1,64}} (?:-|\[.{{0,256}}?\]) ?"),
        _rfc5424,
    ),
    (re.compile(r"<(\d{1,3})>"), _priority),
)
_DIGIT: _Patterns = (
    (re.compile(rf"{_ISO} (?:std(?:out|err) [FP] )?"), _iso),
    (re.compile(r"(\d{1,6}),(\d{1,20}),(\d{1,18}),[^,;]{1,16}(?:,[^;]{0,200})?;"), _kmsg),
    (re.compile(r"([0-9][\w.-]{0,253}) kernel: ?"), _host),
)
_LETTER: _Patterns = (
    (re.compile(rf"{_MONTH} "), _yearless),
    (re.compile(rf"{_FACILITY} {{0,4}}:(?:emerg|alert|crit|err|warn|notice|info|debug) {{0,4}}: "), _level),
    (re.compile(r"(?:([A-Za-z][\w.-]{0,253}) )?kernel: ?"), _host),
    (re.compile(r"MESSAGE="), _keep),
    (re.compile(r"message repeated (\d{1,6}) times: \[ ?"), _repeated),
)
_BY_FIRST: Mapping[str, _Patterns] = {"[": _BRACKET, "<": _ANGLE}
