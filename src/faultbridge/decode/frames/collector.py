"""Frame of log collectors: a JSON object around a line, as journald, Docker, Fluent Bit, GCP and Filebeat write it.

The log line is a string, a list of bytes, or a nested object. An object without a log line is not changed, so that a
decoder can read it. The node is a member of the object, of its `kubernetes` metadata, or of its labels or attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.decode.frames.clock import instant, iso_instant
from faultbridge.decode.frames.documents import embedded
from faultbridge.decode.frames.line import MAX_DEPTH, Item, Line

_TEXTS = ("MESSAGE", "message", "msg", "log", "@message", "textPayload", "line", "_raw", "log_processed")
_HOSTS = ("_HOSTNAME", "host", "hostname", "node", "node_name", "nodeName")
# Labels and attributes of a log store or of OpenTelemetry; the name of the node comes before that of a container.
_LABELS = (
    *("k8s.node.name", "pod_node_name", "node_name", "nodename", "node", "compute.googleapis.com/resource_name"),
    *("host.name", "hostname", "host", "host.id"),
)
_LABELED = ("kubernetes", "labels", "attributes", "resource", "host")
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
_MAX_BYTES = 65536
_MAX_UPTIME = 10**9
_CRI = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) std(?:out|err) ([FP]) ?(.*)$")


def unwrap(text: str) -> Line | None:
    """Return the log line in the JSON object that starts at the first brace of a text, or None."""
    record = embedded(text)
    return line_of(record) if record else None


def line_of(record: Mapping[str, Any], depth: int = 0) -> Line | None:
    """Return the log line in a collector's JSON object, or None if the object has no log line."""
    for value in filter(None, map(record.get, _TEXTS)):
        if isinstance(value, dict) and depth < MAX_DEPTH:
            inner = line_of(value, depth + 1)
            if inner is not None:
                return inner
        text = _text(value)
        if text is not None:
            return _wrapped(record, text)
    return None


def unwrapped(item: Item, depth: int = MAX_DEPTH) -> Line | None:
    """Return the innermost line in a line that a container runtime or a log collector wrapped."""
    line, is_wrapped = (Line(item), False) if isinstance(item, str) else (item, True)
    cri = _CRI.match(line.text.strip("\r")) if line.text[:1].isdigit() else None
    if cri is not None:
        line, is_wrapped = Line(cri[3], iso_instant(cri[1])).within(line), True
    for _ in range(depth):
        inner = unwrap(line.text) if line.text.lstrip()[:1] == "{" else None
        if inner is None:
            break
        line, is_wrapped = inner.within(line), True
    return line if is_wrapped else None


def host_in(record: Mapping[str, Any], names: tuple[str, ...] = _LABELS) -> str | None:
    """Return the node that the labels or attributes of a log store name, or None."""
    return next((value[:255] for value in filter(None, map(record.get, names)) if isinstance(value, str)), None)


def _hosts(record: Mapping[str, Any]) -> Iterator[str | None]:
    yield host_in(record, _HOSTS)
    for name in _LABELED:
        labels = record.get(name)
        if isinstance(labels, dict):
            yield host_in(labels, ("name",) if name == "host" else _LABELS)
            inner = (labels.get("labels") or labels.get("attributes")) if name == "resource" else None
            yield host_in(inner) if isinstance(inner, dict) else None


def _wrapped(record: Mapping[str, Any], text: str) -> Line:
    program, transport = host_in(record, _PROGRAMS), record.get("_TRANSPORT")
    if transport is not None or "MESSAGE" in record:
        program = program or str(transport or _KERNEL)[:64]
        by_kernel = record.get("_TRANSPORT", _KERNEL) == _KERNEL and str(record.get("SYSLOG_FACILITY", "0")) == "0"
    else:
        by_kernel = program == _KERNEL
    return Line(
        text.rstrip("\n"),
        next(filter(None, map(instant, filter(None, map(record.get, _TIMES)))), None),
        next(filter(None, _hosts(record)), None),
        boot_id=host_in(record, ("_BOOT_ID",)),
        uptime=_uptime(record.get("time")) if "pri" in record else None,
        program=program,
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


def _uptime(value: object) -> str | None:
    """Return the time that `dmesg -J` prints, which is seconds since boot, or None if it is not valid."""
    is_seconds = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MAX_UPTIME
    return f"{value:.6f}" if is_seconds else None
