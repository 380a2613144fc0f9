"""Reads nvidia-smi's table, its list of GPUs (`-L`) and its list of links (`nvlink -s`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from faultbridge.decoders.base import bounded
from faultbridge.decoders.nvidia_smi_snapshot import Look, gpu_component, index_of, local_time, stated
from faultbridge.domain.faults import Component, Fault, Snapshot

_LISTED = re.compile(r"^GPU (\d{1,3}): [^\n(]{1,100}\(UUID: (GPU-[0-9A-Za-z-]{1,64})\)", re.MULTILINE)
_LINK = re.compile(r"^[ \t]{1,16}Link (\d{1,3}): (<inactive>|[\d.]{1,10} GB/s)", re.MULTILINE)
_ROW = re.compile(
    r"^\| {1,4}(\d{1,3}) [^|\n]{1,80}\| {1,4}([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]) [^|\n]{1,30}"
    r"\|([^|\n]{1,40})\|",
    re.MULTILINE,
)
_CELLS = re.compile(r"^\| ?(\S{1,8}) +(\S{1,8}) +(\S{1,8}) +([^|\n]{1,40})\|", re.MULTILINE)
_CLOCK = re.compile(r"^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d{1,2} \d\d:\d\d:\d\d \d{4}", re.MULTILINE)
LINK_CODE = "smi.nvlink_inactive"


def is_list(text: str) -> bool:
    """Tell whether it is the list of GPUs."""
    return _LISTED.search(text) is not None


def is_links(text: str) -> bool:
    """Tell whether it is the list of links of each GPU."""
    return _LINK.search(text) is not None and is_list(text)


def is_table(text: str) -> bool:
    """Tell whether it is the table, whole or a piece of it."""
    return _ROW.search(text) is not None


def read_list(text: str) -> Iterator[Look]:
    """Yield the GPUs that are there, of which nothing else is known."""
    for found in _LISTED.finditer(text):
        yield Look({}, gpu_component("", found[2], "", index_of(found[1])))


def read_table(text: str) -> tuple[Iterator[Look], datetime | None]:
    """Read of each GPU the cells for the fan, the temperature, the power and the uncorrected ECC errors."""
    clock = _CLOCK.search(text)
    return _rows(text), local_time(clock[0]) if clock else None


def _rows(text: str) -> Iterator[Look]:
    for row in _ROW.finditer(text):
        cells = _CELLS.search(text, row.end())
        fields = {"ecc_errors/volatile/double_bit/total": row[3].strip()}
        if cells is not None:
            names = ("fan_speed", "temperature/gpu_temp")
            fields |= dict(zip(names, cells.groups(), strict=False))
            fields["power_readings/power_draw"] = cells[4].partition("/")[0].strip()
        yield Look(fields, gpu_component(row[2], "", "", index_of(row[1])), frozenset(fields.values()))


def read_links(source: str, text: str) -> Snapshot:
    """Health snapshot the links: one that is inactive beside active ones of its GPU is wrong, a GPU without any has none."""
    listed = bounded(_LISTED.finditer(text))
    present: list[Fault] = []
    covered: list[Component] = []
    for place, gpu in enumerate(listed):
        end = listed[place + 1].start() if place + 1 < len(listed) else len(text)
        links = {int(found[1]): found[2] for found in _LINK.finditer(text, gpu.end(), end)}
        idle = sorted(number for number, speed in links.items() if speed == "<inactive>")
        component = gpu_component("", gpu[2], "", index_of(gpu[1]))
        if len(idle) == len(links):
            continue
        covered.append(component)
        if idle:
            told = ", ".join(map(str, idle))
            present.append(stated(source, LINK_CODE, component, f"NVLink {told} inactive.", {"links": told}))
    return Snapshot(source, {LINK_CODE: tuple(covered)} if covered else {}, tuple(present))
