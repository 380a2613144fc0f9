"""Parses the output of `nvidia-smi -q`: `Key : Value` lines and headings, with four spaces per level."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.decoders.common.fields import MAX_GPUS
from faultbridge.decoders.nvidia_smi.checks import LOST
from faultbridge.decoders.nvidia_smi.peers import WIDTH
from faultbridge.decoders.nvidia_smi.snapshot import GpuOutput, gpu_component, index_of, local_time
from faultbridge.errors import Rejected

_TITLE = "NVSMI LOG"
_PROCESSES = "processes"
_STEP = 4
_MAX_DEPTH = 10
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
    """One `nvidia-smi -q` output: its time, its GPUs, and whether it lists all GPUs of the node.

    `missing` is the number of attached GPUs that the output does not list.
    """

    at: datetime | None = None
    outputs: tuple[GpuOutput, ...] = ()
    complete: bool = False
    missing: int = 0


@dataclass(slots=True)
class _Gpu:
    address: str = ""
    fields: dict[str, str] = field(default_factory=dict)


def is_full_query(text: str) -> bool:
    """Return whether a text is probably the output of `nvidia-smi -q`, or a part of it."""
    return _TITLE in text or _KNOWN_KEY.search(text) is not None


def read_full_query(text: str) -> FullQuery:
    """Return the parsed output of `nvidia-smi -q`.

    Raises `Rejected` if the text is cut off, has a wrong indentation or an unknown line, or contains no GPU or more
    than 128 GPUs.
    """
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
    if _is_cut_off(gpus):
        # Half of a GPU's fields would look like a healthy GPU.
        raise Rejected("truncated", "a GPU without its last fields; send the whole output")
    query.at = local_time(head.get("timestamp", ""))
    attached = index_of(head.get("attached_gpus", "")) or 0
    query.complete = attached == len(gpus) and all(gpu.address for gpu in gpus)
    query.missing = max(attached - len(gpus), 0)
    query.outputs = tuple(_gpu_output(gpu, index if query.complete else None) for index, gpu in enumerate(gpus))
    return query


def _is_cut_off(gpus: list[_Gpu]) -> bool:
    """Return whether the output of a GPU lacks its last fields.

    - A GPU with a product name is part of a complete output, so it must have the last section, the processes.
    - If several GPUs are readable, the last GPU must end with the same field as another GPU. This also shows that an
      output of single sections (`-d`) was cut off. A single GPU is not checked.

    A lost GPU is not checked, because its fields prove nothing.
    """
    readable = [gpu.fields for gpu in gpus if LOST not in gpu.fields.values()]
    if any("product_name" in fields and _PROCESSES not in _sections(fields) for fields in readable):
        return True
    ends = [_end(fields) for fields in readable]
    is_last_readable = LOST not in gpus[-1].fields.values()
    return is_last_readable and len(ends) > 1 and ends[-1] not in ends[:-1]


def _sections(fields: Mapping[str, str]) -> set[str]:
    return {path.partition("/")[0] for path in fields}


def _end(fields: dict[str, str]) -> str:
    """Return the path of the last field of a GPU.

    If the GPU has a processes section, the path of that section is returned, because its fields differ by GPU.
    """
    return _PROCESSES if _PROCESSES in _sections(fields) else next(reversed(fields), "")


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
    """Yield the path and value of each field. At the start of a GPU, yield an empty path and its address."""
    path: list[str] = []
    heading, least = "", 0
    for line in text.split("\n"):
        stripped = line.rstrip()
        if not stripped or stripped.startswith("="):
            continue
        gpu = _GPU.match(stripped)
        if gpu is not None:
            _reject_empty(heading)
            path, heading, least = [], stripped, _STEP
            yield "", gpu[1]
            continue
        query = _FIELD.match(stripped) or _HEADING.match(stripped)
        if query is None:
            raise Rejected(
                "malformed_text", f"neither a field nor a heading: {stripped.strip()[:80]!r}; expected `Key : Value`"
            )
        indent = len(query[1])
        if indent < least:
            raise _bad_indentation(query[2], indent)
        path = _extended_path(path, indent, query[2])
        is_heading = query.re is _HEADING
        heading = stripped.strip() if is_heading else ""
        # The fields of a heading are deeper than it; only the head above the first GPU is not indented.
        least = indent + _STEP if is_heading else min(least, _STEP)
        if not is_heading:
            yield "/".join(path), query[3].strip()
    _reject_empty(heading)


def _reject_empty(heading: str) -> None:
    if heading:
        raise Rejected("truncated", f"no field below the heading {heading[:80]!r}; send the whole output")


def _extended_path(path: list[str], indent: int, label: str) -> list[str]:
    depth = max(indent // _STEP - 1, 0)
    fits = indent % _STEP == 0 and depth <= min(len(path), _MAX_DEPTH)
    if not fits and path:
        raise _bad_indentation(label, indent)
    return [*path[:depth], _key(label)]


def _bad_indentation(label: str, indent: int) -> Rejected:
    return Rejected(
        "bad_indentation",
        f"wrong indentation of {_key(label)[:80]!r}: {indent} spaces; expected {_STEP} spaces a level",
    )


def _key(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


def _gpu_output(gpu: _Gpu, index: int | None) -> GpuOutput:
    fields = gpu.fields
    address = gpu.address or fields.get("pci/bus_id", "")
    component = gpu_component(address, fields.get("uuid", ""), fields.get("serial", ""), index)
    return GpuOutput(fields, component, frozenset(fields.values()))
