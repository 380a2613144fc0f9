"""Strips the prefixes of a kernel log line: printk, dmesg, syslog, kmsg, journald and container."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faultbridge.decoders.common.clock import calendar_time, iso_instant, yearless_time
from faultbridge.decoders.common.documents import embedded
from faultbridge.domain.times import from_milliseconds

MAX_PREFIXES = 8
# Driver messages start with one of these; no prefix follows.
_DRIVERS = ("NVRM: ", "nvidia", "pcieport ", "mlx5_core ")
USER = "user"
_NETWORKD = "systemd-networkd"
_KERNEL_FACILITY, _USER_FACILITY = 0, 1


@dataclass(slots=True)
class KernelMessage:
    """One kernel message without its prefixes, with the facts from those prefixes.

    `uptime` is the seconds since boot, as printk printed them. `framed` is true if the line had any prefix.
    The object is filled in place for speed: a burst of errors is tens of thousands of lines.
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
    """Return one line as a message without prefixes; `received_at` supplies the year of times without one."""
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
        match = pattern.match(text)
        if match is not None:
            message.text = text[match.end() :]
            strip(message, match, received_at)
            return True
    return first == "{" and _from_journal(message)


_Strip = Callable[[KernelMessage, "re.Match[str]", "datetime | None"], None]
_Patterns = tuple[tuple["re.Pattern[str]", _Strip], ...]


def _uptime(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    message.uptime = message.uptime or match[1]


def _calendar(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    month, day, clock, year = match.groups()
    message.observed_at = message.observed_at or calendar_time(month, day, clock, year)


def _yearless(message: KernelMessage, match: re.Match[str], received_at: datetime | None) -> None:
    message.observed_at = message.observed_at or yearless_time(match[1], match[2], match[3], received_at)


def _iso(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    message.observed_at = message.observed_at or iso_instant(match[1])


def _level(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    message.facility = match[1]


def _priority(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    message.facility = _facility(int(match[1]))


def _rfc5424(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    message.facility = _facility(int(match[1]))
    message.observed_at = message.observed_at or iso_instant(match[2])
    message.node = message.node or match[3]


def _kmsg(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    seconds, micros = divmod(int(match[3]), 1_000_000)
    message.text = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), message.text)
    message.facility = _facility(int(match[1]))
    message.uptime = f"{seconds}.{micros:06d}"


def _host(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    message.node = message.node or match[1]
    message.facility = message.facility or "kern"


def _strip_only(_message: KernelMessage, _match: re.Match[str], _: datetime | None) -> None:
    pass


def _repeated(message: KernelMessage, match: re.Match[str], _: datetime | None) -> None:
    message.text = message.text.removesuffix("]").rstrip()
    message.count *= int(match[1])


def _facility(priority: int) -> str:
    number = priority >> 3
    return USER if number == _USER_FACILITY else "kern" if number == _KERNEL_FACILITY else str(number)


def _from_journal(message: KernelMessage) -> bool:
    """Read a journald export object in place; its message may be a byte array, its numbers are strings."""
    record = embedded(message.text)
    text = _journal_text(record.get("MESSAGE")) if record else None
    if record is None or text is None:
        return False
    kernel = record.get("_TRANSPORT", "kernel") == "kernel" and record.get("SYSLOG_FACILITY", "0") != "1"
    networkd = record.get("_TRANSPORT") == "journal" and record.get("SYSLOG_IDENTIFIER") == _NETWORKD
    message.text = f"{_NETWORKD}[0]: {text}" if networkd else text
    message.observed_at = _journal_time(record)
    message.node = _text_field(record, "_HOSTNAME")
    message.boot_id = _text_field(record, "_BOOT_ID")
    message.facility = "kern" if kernel else "daemon" if networkd else USER
    return True


def _journal_text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(type(byte) is int and 0 <= byte <= 255 for byte in value):  # noqa: PLR2004 - a byte
        return bytes(value).decode("utf-8", "replace")
    return None


def _journal_time(record: Mapping[str, Any]) -> datetime | None:
    value = record.get("_SOURCE_REALTIME_TIMESTAMP", record.get("__REALTIME_TIMESTAMP"))
    digits = str(value)
    try:
        return from_milliseconds(int(digits) // 1000) if digits.isascii() and digits.isdigit() else None
    except (OverflowError, ValueError):
        return None


def _text_field(record: Mapping[str, Any], key: str) -> str | None:
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
    (re.compile(r"MESSAGE="), _strip_only),
    (re.compile(r"message repeated (\d{1,6}) times: \[ ?"), _repeated),
)
_BY_FIRST: Mapping[str, _Patterns] = {"[": _BRACKET, "<": _ANGLE}
