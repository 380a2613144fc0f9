"""Decodes `nvidia-smi-text`: `nvidia-smi -q`, its table, `-L`, `nvlink -s` and `-e`, error messages.

Grammar: `-q` prints `Key : Value` lines and headings, indented by four spaces per level (`full_query_text`). The other
outputs print one or two lines per GPU. A key occurs at several levels, so a field is identified by its whole path. A
`-q` output that is cut off or wrongly indented is `Rejected`, because half of the fields of a GPU would look like a
complete GPU. Units: as printed. Times: the local time at the start, taken as UTC because it has no time zone. Errors:
`Rejected(no_framing)` if no line is from nvidia-smi. Source: nvidia-smi 525 to 610.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from faultbridge.decoders.common.decoder import Decoded, Decoder, Hints
from faultbridge.decoders.common.documents import text_of
from faultbridge.decoders.nvidia_smi.failures import failures, find_failures, has_failure
from faultbridge.decoders.nvidia_smi.full_query_text import is_full_query, read_full_query
from faultbridge.decoders.nvidia_smi.nvlink import is_links, read_links
from faultbridge.decoders.nvidia_smi.snapshot import GpuOutput, gpu_component, gpu_snapshot, index_of, local_time
from faultbridge.domain.faults import Fault, Observation
from faultbridge.errors import Rejected

SOURCE = "nvidia-smi-text"


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...] | Decoded:
    """Return a health snapshot of the GPUs, and counter samples of the listed NVLink errors.

    Error messages of nvidia-smi may come before, after or instead of the output. If the output only lists links, the
    faults of error messages have a health snapshot of their own.
    """
    text = text_of(body)
    stated_faults = find_failures(SOURCE, text)
    if is_full_query(text):
        return _full_query(text, stated_faults)
    if is_table(text):
        outputs, at = read_table(text)
        # The links can be listed below the table.
        links = read_links(SOURCE, text) if is_links(text) else ()
        return (gpu_snapshot(SOURCE, outputs, at, complete=False, stated_faults=stated_faults), *links)
    if is_links(text):
        return (*(failures(SOURCE, text) if stated_faults else ()), *read_links(SOURCE, text))
    if is_list(text):
        return (gpu_snapshot(SOURCE, read_list(text), None, complete=not stated_faults, stated_faults=stated_faults),)
    if has_failure(text):
        return failures(SOURCE, text)
    raise Rejected("no_framing", "not an output of nvidia-smi -q, its table, -L, nvlink -s or -e")


def _full_query(text: str, stated_faults: Sequence[Fault]) -> Decoded:
    found = read_full_query(text)
    complete = found.complete and not stated_faults
    snapshot = gpu_snapshot(SOURCE, found.outputs, found.at, complete=complete, stated_faults=stated_faults)
    if not found.missing:
        return Decoded((snapshot,))
    # The query of one GPU (`-i`) counts all attached GPUs too, so this is no error.
    listed = f"{len(found.outputs)} of {len(found.outputs) + found.missing} attached GPUs"
    return Decoded((snapshot,), notes=(f"the output lists {listed}; nothing is known about the others",))


def recognize(body: bytes) -> bool:
    """Return whether a body is probably text output or an error message of nvidia-smi, not XML or CSV."""
    text = text_of(body)
    if "<nvidia_smi_log" in text or "gpu_bus_id" in text or "pci.bus_id" in text:
        return False
    return is_full_query(text) or is_table(text) or is_links(text) or is_list(text) or has_failure(text)


DECODER = Decoder(
    name=SOURCE,
    summary="nvidia-smi -q, its table, nvidia-smi -L, nvlink -s and -e, and its error messages",
    example="Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system to recover it",
    recognize=recognize,
    decode=decode,
)


_LISTED = re.compile(r"^GPU (\d{1,3}): [^\n(]{1,100}\(UUID: (GPU-[0-9A-Za-z-]{1,64})\)", re.MULTILINE)
_ROW = re.compile(
    r"^\| {1,4}(\d{1,3}) [^|\n]{1,80}\| {1,4}([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]) [^|\n]{1,30}"
    r"\|([^|\n]{1,40})\|",
    re.MULTILINE,
)
_CELLS = re.compile(r"^\| ?(\S{1,8}) +(\S{1,8}) +(\S{1,8}) +([^|\n]{1,40})\|", re.MULTILINE)
_CLOCK = re.compile(r"^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d{1,2} \d\d:\d\d:\d\d \d{4}", re.MULTILINE)


def is_list(text: str) -> bool:
    """Return whether a text is the list of GPUs that `nvidia-smi -L` prints."""
    return _LISTED.search(text) is not None


def is_table(text: str) -> bool:
    """Return whether a text is the table that `nvidia-smi` prints without options, or a part of it."""
    return _ROW.search(text) is not None


def read_list(text: str) -> Iterator[GpuOutput]:
    """Yield the GPUs that `nvidia-smi -L` lists. They have no health fields."""
    for found in _LISTED.finditer(text):
        yield GpuOutput({}, gpu_component("", found[2], "", index_of(found[1])))


def read_table(text: str) -> tuple[Iterator[GpuOutput], datetime | None]:
    """Return the GPUs of the nvidia-smi table with the fields to check, and the time of the table.

    The fields are the fan speed, temperature, power draw and uncorrected ECC errors.
    """
    clock = _CLOCK.search(text)
    return _rows(text), local_time(clock[0]) if clock else None


def _rows(text: str) -> Iterator[GpuOutput]:
    for row in _ROW.finditer(text):
        cells = _CELLS.search(text, row.end())
        fields = {"ecc_errors/volatile/double_bit/total": row[3].strip()}
        if cells is not None:
            names = ("fan_speed", "temperature/gpu_temp")
            fields |= dict(zip(names, cells.groups(), strict=False))
            fields["power_readings/power_draw"] = cells[4].partition("/")[0].strip()
        yield GpuOutput(fields, gpu_component(row[2], "", "", index_of(row[1])), frozenset(fields.values()))
