"""Unwraps a log line that a collector such as journald, Docker or Fluent Bit stored in a JSON object.

The log line is a string, a list of bytes, or a nested object. An object without a log line is not changed, so that a
decoder can read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.decoders.common.clock import instant
from faultbridge.decoders.common.documents import embedded

_TEXTS = ("MESSAGE", "message", "msg", "log", "@message", "textPayload", "line", "_raw", "log_processed")
_HOSTS = ("_HOSTNAME", "host", "hostname", "node", "node_name", "nodeName")
_TIMES = (
    "_SOURCE_REALTIME_TIMESTAMP",
    "__REALTIME_TIMESTAMP",
    "time",
    "timestamp",
    "@timestamp",
    "ts",
    "date",
    "timereported",
)
_PROGRAMS = ("SYSLOG_IDENTIFIER", "ident", "program", "appname", "syslog_identifier")
_KERNEL = "kernel"
MAX_DEPTH = 3
"""Maximum number of wrappers that are removed around one line."""

_MAX_BYTES = 65536


@dataclass(frozen=True, slots=True)
class WrappedLine:
    """A log line, and the facts that its collector recorded with it.

    `program` is the name of the program that wrote the line. For a journal entry without a name, it is the transport,
    such as `kernel` or `stdout`. It is None if the collector recorded neither. `by_kernel` is True if the kernel wrote
    the line. `by_service` is True if a program wrote the line through the interface of the journal. `is_proven` is True
    if a field that no program can set shows this: the transport of the kernel, or the unit of an NVIDIA service.
    `uptime` is the time in seconds since boot.
    """

    text: str
    at: datetime | None = None
    node: str | None = None
    boot_id: str | None = None
    uptime: str | None = None
    program: str | None = None
    by_kernel: bool = False
    by_service: bool = False
    is_proven: bool = False


def unwrap(text: str) -> WrappedLine | None:
    """Return the log line in the JSON object that starts at the first brace of a text, or None.

    The result is None if no object starts there, or if the object has no log line.
    """
    record = embedded(text)
    return line_of(record) if record else None


def line_of(record: Mapping[str, Any], depth: int = 0) -> WrappedLine | None:
    """Return the log line in a collector's JSON object, or None if the object has no log line.

    The line can be in an object within `record`. `depth` is the number of objects around `record`.
    """
    for name in _TEXTS:
        value = record.get(name)
        if isinstance(value, Mapping) and depth < MAX_DEPTH:
            inner = line_of(value, depth + 1)
            if inner is not None:
                return inner
        text = _text(value)
        if text is not None:
            return _wrapped(record, text)
    return None


def _wrapped(record: Mapping[str, Any], text: str) -> WrappedLine:
    program, transport = _first_text(record, _PROGRAMS), record.get("_TRANSPORT")
    if transport is not None or "MESSAGE" in record:
        program = program or str(transport or _KERNEL)[:64]
        by_kernel = record.get("_TRANSPORT", _KERNEL) == _KERNEL and str(record.get("SYSLOG_FACILITY", "0")) == "0"
    else:
        by_kernel = program == _KERNEL
    kubernetes = record.get("kubernetes")
    return WrappedLine(
        text,
        next((at for name in _TIMES if (at := instant(record.get(name))) is not None), None),
        _first_text(record, _HOSTS) or (_first_text(kubernetes, ("host",)) if isinstance(kubernetes, dict) else None),
        _first_text(record, ("_BOOT_ID",)),
        _uptime(record.get("time")) if "pri" in record else None,
        program,
        by_kernel=by_kernel,
        by_service=transport == "journal",
        is_proven=transport == _KERNEL or str(record.get("_SYSTEMD_UNIT")).startswith("nvidia-"),
    )


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, list) and 0 < len(value) <= _MAX_BYTES and set(map(type, value)) == {int}:
        try:
            return bytes(value).decode("utf-8", "replace")
        except ValueError:
            return None
    return None


def _first_text(record: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((value[:255] for name in names if isinstance(value := record.get(name), str) and value), None)


def _uptime(value: object) -> str | None:
    """Return the time that `dmesg -J` prints, which is seconds since boot, or None if it is not valid."""
    is_seconds = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MAX_UPTIME
    return f"{value:.6f}" if is_seconds else None


_MAX_UPTIME = 10**9
