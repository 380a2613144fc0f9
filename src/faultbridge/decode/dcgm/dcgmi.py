"""Decodes `dcgm-nvlink` and `dcgm-policy`: what `dcgmi nvlink` and `dcgmi policy --reg` print.

`dcgmi nvlink -s` is a health snapshot, and `dcgmi nvlink -e` gives counter samples. A policy violation is a fault on a
GPU that it does not name.

Grammar of `-s`: `gpuId N:`, then a line with one letter for each link (U up, D down, X disabled, _ not supported).
Grammar of `-e`: `Link N` with `CRC Data Error` and other counts, as JSON (-j) or as a table below `GPU N`. Only links
of GPUs are checked, because ports of switches are often unused. Grammar of a violation: `Timestamp: T`, a sentence that
names the policy, and a line with a value. An Xid is one line, `XID error N detected.`. Times: none of links; those of
violations are the local time of the node, taken as UTC because they have no time zone. Units: errors since the driver
was loaded; as printed with the value (a count, degrees Celsius, watts). Errors: `Rejected(no_framing)` for other input.
Source: dcgmi's Nvlink.cpp and Policy.cpp, DCGM 2 to 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from faultbridge.decode.data import table
from faultbridge.decode.frames.decoder import Hints, Judged, fault_of, snapshot_of
from faultbridge.decode.frames.documents import objects, text_of
from faultbridge.decode.frames.values import bounded, elements, key_of, members, number
from faultbridge.decode.nvidia_smi.snapshot import local_time
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Component, CounterSample, Observation

NVLINK, POLICY = "dcgm-nvlink", "dcgm-policy"
DOWN = "dcgm.nvlink_down"
_COUNTS = "NVLINK Error Counts"
_STATUS = re.compile(
    r"^[ \t]{0,16}gpuId (\d{1,3}):[ \t]{0,8}\r?\n[ \t]{1,16}([UDX_](?: [UDX_]){0,71})[ \t]{0,8}\r?$", re.MULTILINE
)
_GPU = re.compile(r"\bGPU (\d{1,3})\b")
_ROW = re.compile(r"^\|[ \t>-]{0,16}([A-Z][\w ]{1,40}?) {0,40}\| {0,16}(\d{1,20}) {0,80}\|", re.MULTILINE)
_COUNTERS: Mapping[str, str] = table("dcgm")["link_errors"]


def decode(source: str, body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return the states and error counts of links, or a fault for each policy violation."""
    return _violations(body) if source == POLICY else _of_nvlink(body)


def recognize(source: str, body: bytes) -> bool:
    """Return whether a body has states or error counts of links, or the start message or a violation of a policy."""
    text = text_of(body)
    if source == POLICY:
        is_named = _LISTENING in text or "has violated policy manager values" in text
        return is_named or any(_XID.match(line.strip()) for line in text.split("\n"))
    return _COUNTS in text or ("gpuId " in text and _STATUS.search(text) is not None)


def _of_nvlink(body: bytes) -> tuple[Observation, ...]:
    text = text_of(body)
    listed = bounded(_STATUS.finditer(text))
    found: list[Observation] = [*_samples(text)]
    if listed:
        states = {int(gpu[1]): gpu[2].split() for gpu in listed}
        found.insert(0, snapshot_of(NVLINK, _links(states)))
    if not found:
        raise Rejected("no_framing", "neither the state nor the errors of an NVLink")
    return tuple(found)


def _links(states: Mapping[int, list[str]]) -> Iterator[Judged]:
    """Judge the links of each GPU that has links; a fault names the links that are down.

    If no link of any GPU is up, the faults are only warnings, because the node may have no NVLink bridge.
    """
    has_links = any("U" in links for links in states.values())
    for gpu, links in states.items():
        down = ", ".join(str(link) for link, state in enumerate(links) if state == "D")
        text = f"NVLink {down} down." if "U" in links else "All NVLinks down."
        fault = fault_of(NVLINK, DOWN, _gpu(gpu), text, f"gpuId {gpu}: {' '.join(links)}", links=down)
        if down:
            yield DOWN, _gpu(gpu), fault if has_links else fault.classified(Severity.WARNING, Action.NONE)
        elif "U" in links:
            yield DOWN, _gpu(gpu), None


def _samples(text: str) -> Iterator[CounterSample]:
    for header, counts in _counted(text):
        gpu = _GPU.search(header)
        values: dict[str, int | str] = {}
        for name, count in counts:
            if name in _COUNTERS and count is not None:
                values[_COUNTERS[name]] = int(values.get(_COUNTERS[name], 0)) + count
        if gpu is not None and values:
            yield CounterSample(NVLINK, _gpu(int(gpu[1])), values)


def _counted(text: str) -> Iterator[tuple[str, list[tuple[str, int | None]]]]:
    """Yield a text that names a GPU, and the error counts of its links, from JSON or a table."""
    for _, document in objects(text):
        links = (members(members(link).get("children")) for link in members(document.get("body")).values())
        counts = [(name, number(members(count).get("value"))) for link in links for name, count in link.items()]
        yield " ".join(str(line)[:64] for line in elements(document.get("header"))[:8]), counts
    for part in text.split(_COUNTS)[1:]:
        yield part, [(row[1].strip(), number(row[2])) for row in _ROW.finditer(part)]


def _gpu(index: int) -> Component:
    return Component(ComponentType.GPU, index=index)


_LISTENING = "Listening for violations"
_TIME = re.compile(r"Timestamp: (.{8,40})$")
_XID = re.compile(r"XID error (\d{1,5}) detected")
_VALUE = re.compile(r"([A-Za-z/ ]{3,40}): (\d{1,20})\s*$")
_POLICIES = [(re.compile(phrase), code) for phrase, code in table("dcgm")["policies"].items()]
_UNKNOWN_GPU = Component(ComponentType.GPU)


def _violations(body: bytes) -> tuple[Observation, ...]:
    if not recognize(POLICY, body):
        raise Rejected("no_framing", "no policy violation and no `Listening for violations.`")
    at: datetime | None = None
    found: list[tuple[datetime | None, str, list[str], dict[str, Any]]] = []
    for line in map(str.strip, text_of(body).split("\n")):
        if (stated := _stated(line)) is not None:
            found.append((at, stated[0], [line], stated[1]))
        elif (timestamp := _TIME.match(line)) is not None:
            at = local_time(timestamp[1].strip())
        elif found and (value := _VALUE.match(line)) is not None:
            found[-1][2].append(line)
            found[-1][3][key_of(value[1])] = value[2]
    return tuple(
        fault_of(POLICY, code, _UNKNOWN_GPU, " ".join(lines), "\n".join(lines), at, **details)
        for at, code, lines, details in found
    )


def _stated(line: str) -> tuple[str, dict[str, Any]] | None:
    """Return the fault code and the attributes of a line that starts a violation, or None for any other line."""
    if (xid := _XID.match(line)) is not None:
        return f"xid.{int(xid[1])}", {}
    matches = ((code, phrase.match(line)) for phrase, code in _POLICIES)
    return next(((code, found.groupdict()) for code, found in matches if found), None)
