"""Decodes `dcgm-nvlink`: `dcgmi nvlink -s` as a health snapshot, `dcgmi nvlink -e` as counter samples.

Grammar of `-s`: `gpuId N:`, then a line with one letter for each link (U up, D down, X disabled, _ not supported).
Grammar of `-e`: `Link N` with `CRC Data Error` and other counts, as JSON (-j) or as a table below `GPU N`. Only links
of GPUs are checked, because ports of switches are often unused. Times: none. Units: errors since the driver was loaded.
Errors: `Rejected(no_framing)` for other input. Source: dcgmi's Nvlink.cpp, DCGM 2 to 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from faultbridge.decode.data import table
from faultbridge.decode.frames.decoder import Hints, bounded, elements, fault_of, members, number
from faultbridge.decode.frames.documents import objects, text_of
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Component, CounterSample, Fault, Observation, Snapshot

SOURCE = "dcgm-nvlink"
DOWN = "dcgm.nvlink_down"
_COUNTS = "NVLINK Error Counts"
_STATUS = re.compile(
    r"^[ \t]{0,16}gpuId (\d{1,3}):[ \t]{0,8}\r?\n[ \t]{1,16}([UDX_](?: [UDX_]){0,71})[ \t]{0,8}\r?$", re.MULTILINE
)
_GPU = re.compile(r"\bGPU (\d{1,3})\b")
_ROW = re.compile(r"^\|[ \t>-]{0,16}([A-Z][\w ]{1,40}?) {0,40}\| {0,16}(\d{1,20}) {0,80}\|", re.MULTILINE)
_COUNTERS: Mapping[str, str] = table("dcgm")["link_errors"]


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Decode the output of `dcgmi nvlink`."""
    text = text_of(body)
    listed = bounded(_STATUS.finditer(text))
    found: list[Observation] = [*_of_json(text), *_of_table(text)]
    if listed:
        found.insert(0, _links({int(gpu[1]): gpu[2].split() for gpu in listed}))
    if not found:
        raise Rejected("no_framing", "neither the state nor the errors of an NVLink")
    return tuple(found)


def recognize(body: bytes) -> bool:
    """Return whether a body probably has the error counts or the link states of NVLinks."""
    return _COUNTS.encode() in body or (b"gpuId " in body and _STATUS.search(text_of(body)) is not None)


def _links(states: Mapping[int, list[str]]) -> Snapshot:
    """Return a health snapshot of the links, with a fault for each GPU that has links down.

    If no link of any GPU is up, the faults are only warnings, because the node may have no NVLink bridge.
    """
    has_links = any("U" in links for links in states.values())
    present: list[Fault] = []
    covered = [_gpu(gpu) for gpu, links in states.items() if {"U", "D"} & set(links)]
    for gpu, links in states.items():
        down = ", ".join(str(link) for link, state in enumerate(links) if state == "D")
        if not down:
            continue
        text = f"NVLink {down} down." if "U" in links else "All NVLinks down."
        fault = fault_of(SOURCE, DOWN, _gpu(gpu), text, f"gpuId {gpu}: {' '.join(links)}", links=down)
        present.append(fault if has_links else fault.classified(Severity.WARNING, Action.NONE))
    return Snapshot(SOURCE, {DOWN: tuple(covered)} if covered else {}, tuple(present))


def _of_json(text: str) -> Iterator[CounterSample]:
    for _, document in objects(text):
        header = " ".join(str(line)[:64] for line in elements(document.get("header"))[:8])
        pairs = (
            (name, number(members(count).get("value")))
            for link in members(document.get("body")).values()
            for name, count in members(members(link).get("children")).items()
        )
        yield from _sample(header, pairs)


def _of_table(text: str) -> Iterator[CounterSample]:
    for part in text.split(_COUNTS)[1:]:
        yield from _sample(part, ((row[1].strip(), number(row[2])) for row in _ROW.finditer(part)))


def _sample(header: str, pairs: Iterator[tuple[str, int | None]]) -> Iterator[CounterSample]:
    gpu = _GPU.search(header)
    values: dict[str, int | str] = {}
    for name, count in pairs:
        if name in _COUNTERS and count is not None:
            values[_COUNTERS[name]] = int(values.get(_COUNTERS[name], 0)) + count
    if gpu is not None and values:
        yield CounterSample(SOURCE, _gpu(int(gpu[1])), values)


def _gpu(index: int) -> Component:
    return Component(ComponentType.GPU, index=index)
