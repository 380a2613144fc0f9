"""Reads the text of `nvidia-smi -q`: `Key : Value` and headings, four spaces deeper for each level."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from faultbridge.decoders.common.fields import MAX_GPUS
from faultbridge.decoders.nvidia_smi.peers import WIDTH
from faultbridge.decoders.nvidia_smi.snapshot import GpuOutput, gpu_component, local_time
from faultbridge.errors import Rejected

_TITLE = "NVSMI LOG"
_STEP = 4
_MAX_DEPTH = 10
# nvidia-smi 470 to 610 prints at least a hundred fields of a GPU before its processes.
_FIELDS_OF_A_WHOLE_GPU = 100
_GPU = re.compile(r"GPU ([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])$")
_FIELD = re.compile(r"( {0,60})(\S[^:]{0,80}?) *: ?(.*)$")
_HEADING = re.compile(r"( {0,60})([A-Z][\w .()/&-]{0,60}?) *$")
_KNOWN_KEY = re.compile(
    r"^ {4,8}(?:GPU Recovery Action|Reset Required|GPU UUID|Pending Page Blacklist) *:", re.MULTILINE
)
# Labels that differ from the field's path in the XML.
_FIELD_PATHS: Mapping[str, str] = {
    "serial_number": "serial",
    "gpu_uuid": "uuid",
    "ecc_errors/volatile/sram_uncorrectable_sec_ded": "ecc_errors/volatile/sram_uncorrectable_secded",
    "remapped_rows/pending": "remapped_rows/remapped_row_pending",
    "remapped_rows/remapping_failure_occurred": "remapped_rows/remapped_row_failure",
    "retired_pages/pending_page_blacklist": "retired_pages/pending_blacklist",
    "retired_pages/pending_page_retirement": "retired_pages/pending_retirement",
    "retired_pages/single_bit_ecc": "retired_pages/single_bit",
    "retired_pages/double_bit_ecc": "retired_pages/double_bit",
    "temperature/gpu_current_temp": "temperature/gpu_temp",
    "pci/gpu_link_info/link_width/current": WIDTH,
    "gpu_power_readings/instantaneous_power_draw": "gpu_power_readings/instant_power_draw",
}
_CLOCKS = re.compile(r"clocks_(event|throttle)_reasons/(?:hw_slowdown/)?(\w+)")
_MIG_ECC = "mig_device/ecc_errors/volatile/sram_uncorrectable"


@dataclass(slots=True)
class FullQuery:
    """One `nvidia-smi -q` output: its time, its GPUs, and whether these are all GPUs of the node."""

    at: datetime | None = None
    attached: str | None = None
    outputs: tuple[GpuOutput, ...] = ()
    complete: bool = False


@dataclass(slots=True)
class _Gpu:
    address: str = ""
    fields: dict[str, str] = field(default_factory=dict)


def is_full_query(text: str) -> bool:
    """Return whether a text is the output of `nvidia-smi -q` or a part of it."""
    return _TITLE in text or _KNOWN_KEY.search(text) is not None


def read_full_query(text: str) -> FullQuery:
    """Return the parsed text; a text that is cut off or wrongly indented is `Rejected`."""
    query, gpus, head = FullQuery(), list[_Gpu](), dict[str, str]()
    has_head = _TITLE in text
    for path, value in _fields(text):
        if len(gpus) > MAX_GPUS:
            raise Rejected("too_many_devices", f"more than {MAX_GPUS} devices of one node")
        if not path:
            gpus.append(_Gpu(value))
        elif has_head and not gpus:
            head[path] = value
        else:
            # A part of an output names no GPU: a repeated field starts the next GPU.
            if not gpus or (path in gpus[-1].fields and not gpus[-1].address):
                gpus.append(_Gpu())
            _set_field(gpus[-1].fields, path, value)
    if not gpus:
        raise Rejected("no_framing", "the output contains no GPU")
    if _is_cut_off(text, gpus):
        # Half of a GPU's fields would look like a healthy GPU.
        raise Rejected("truncated", "a GPU without its last section `Processes`; send the whole output")
    query.at = local_time(head.get("timestamp", ""))
    query.complete = head.get("attached_gpus") == str(len(gpus)) and all(gpu.address for gpu in gpus)
    query.outputs = tuple(_gpu_output(gpu, index if query.complete else None) for index, gpu in enumerate(gpus))
    return query


def _is_cut_off(text: str, gpus: list[_Gpu]) -> bool:
    """Return whether the output ends before the last section (processes) of its last GPU.

    The output of a single section has no such section: it is cut off only if its last line is incomplete.
    """
    last = gpus[-1].fields
    if "product_name" not in last or any(path.partition("/")[0] == "processes" for path in last):
        return False
    is_whole = any(len(gpu.fields) > _FIELDS_OF_A_WHOLE_GPU for gpu in gpus)
    return is_whole or not text.endswith("\n")


def _set_field(fields: dict[str, str], path: str, value: str) -> None:
    if path == _MIG_ECC:
        total = "ecc_errors/volatile/mig_sram_uncorrectable"
        if value.isascii() and value.isdigit() and len(value) <= len(str(2**53)):
            fields[total] = str(int(fields.get(total, "0")) + int(value))
        return
    clocks = _CLOCKS.fullmatch(path)
    if clocks is not None:
        path = f"clocks_{clocks[1]}_reasons/clocks_{clocks[1]}_reason_{clocks[2]}"
    fields[_FIELD_PATHS.get(path, path)] = value


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield the path and value of each field; yield an empty path and the address where a GPU starts."""
    path: list[str] = []
    heading = ""
    for line in text.split("\n"):
        stripped = line.rstrip()
        if not stripped or stripped.startswith("="):
            continue
        gpu = _GPU.match(stripped)
        if gpu is not None:
            path, heading = [], ""
            yield "", gpu[1]
            continue
        query = _FIELD.match(stripped) or _HEADING.match(stripped)
        if query is None:
            raise Rejected(
                "malformed_text", f"neither a field nor a heading: {stripped.strip()[:80]!r}; expected `Key : Value`"
            )
        path = _extended_path(path, len(query[1]), _key(query[2]))
        heading = stripped.strip() if query.re is _HEADING else ""
        if not heading:
            yield "/".join(path), query[3].strip()
    if heading:
        raise Rejected("truncated", f"the text ends with the heading {heading[:80]!r}; send the whole output")


def _extended_path(path: list[str], indent: int, key: str) -> list[str]:
    depth = max(indent // _STEP - 1, 0)
    fits = indent % _STEP == 0 and depth <= min(len(path), _MAX_DEPTH)
    if not fits and path:
        raise Rejected(
            "bad_indentation", f"wrong indentation of {key[:80]!r}: {indent} spaces; expected {_STEP} spaces a level"
        )
    return [*path[:depth], key]


def _key(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


def _gpu_output(gpu: _Gpu, index: int | None) -> GpuOutput:
    fields = gpu.fields
    address = gpu.address or fields.get("pci/bus_id", "")
    component = gpu_component(address, fields.get("uuid", ""), fields.get("serial", ""), index)
    return GpuOutput(fields, component, frozenset(fields.values()))
