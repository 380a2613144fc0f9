"""Reads the outline of `nvidia-smi -q`: `Key : Value` and headings, four spaces deeper for each level."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from faultbridge.decoders.base import MAX_GPUS
from faultbridge.decoders.nvidia_smi_snapshot import Look, gpu_component, local_time
from faultbridge.errors import Rejected

_HEAD = "NVSMI LOG"
_STEP = 4
_MAX_DEPTH = 10
_GPU = re.compile(r"GPU ([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])$")
_FIELD = re.compile(r"( {0,60})(\S[^:]{0,80}?) *: ?(.*)$")
_HEADING = re.compile(r"( {0,60})([A-Z][\w .()/&-]{0,60}?) *$")
_KNOWN_KEY = re.compile(
    r"^ {4,8}(?:GPU Recovery Action|Reset Required|GPU UUID|Pending Page Blacklist) *:", re.MULTILINE
)
# Where the words for people differ from the names in the XML.
_NAMES: Mapping[str, str] = {
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
    "gpu_power_readings/instantaneous_power_draw": "gpu_power_readings/instant_power_draw",
    "fabric/health/route_recovery_in_progress": "fabric/health/route_recovery_in_progress",
}
_CLOCKS = re.compile(r"clocks_(event|throttle)_reasons/(?:hw_slowdown/)?(\w+)")
_MIG_ECC = "mig_device/ecc_errors/volatile/sram_uncorrectable"


@dataclass(slots=True)
class Outline:
    """What one capture says: when, of which GPUs, and whether these are all that are attached."""

    at: datetime | None = None
    attached: str | None = None
    looks: tuple[Look, ...] = ()
    whole: bool = False


@dataclass(slots=True)
class _Gpu:
    address: str = ""
    fields: dict[str, str] = field(default_factory=dict)


def is_outline(text: str) -> bool:
    """Tell whether a text is the outline of a whole log or a piece of one."""
    return _HEAD in text or _KNOWN_KEY.search(text) is not None


def read_outline(text: str) -> Outline:
    """Read the outline; one that is cut off, or whose lines are not indented level by level, is `Rejected`."""
    found, gpus, head = Outline(), list[_Gpu](), dict[str, str]()
    begins = _HEAD in text
    for path, value in _fields(text):
        if len(gpus) > MAX_GPUS:
            raise Rejected("too_many_devices", f"more than {MAX_GPUS} devices of one node")
        if not path:
            gpus.append(_Gpu(value))
        elif begins and not gpus:
            head[path] = value
        else:
            # A piece of a log names no GPU: a field that comes again belongs to the next one.
            if not gpus or (path in gpus[-1].fields and not gpus[-1].address):
                gpus.append(_Gpu())
            _put(gpus[-1].fields, path, value)
    if not gpus:
        raise Rejected("no_framing", "the log names no GPU")
    found.at = local_time(head.get("timestamp", ""))
    found.whole = head.get("attached_gpus") == str(len(gpus)) and all(gpu.address for gpu in gpus)
    found.looks = tuple(_look(gpu, index if found.whole else None) for index, gpu in enumerate(gpus))
    return found


def _put(fields: dict[str, str], path: str, value: str) -> None:
    if path == _MIG_ECC:
        total = "ecc_errors/volatile/mig_sram_uncorrectable"
        if value.isascii() and value.isdigit() and len(value) <= len(str(2**53)):
            fields[total] = str(int(fields.get(total, "0")) + int(value))
        return
    clocks = _CLOCKS.fullmatch(path)
    if clocks is not None:
        path = f"clocks_{clocks[1]}_reasons/clocks_{clocks[1]}_reason_{clocks[2]}"
    fields[_NAMES.get(path, path)] = value


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield the path and value of each field, and an empty path with the address where a GPU begins."""
    path: list[str] = []
    heading = ""
    for line in text.split("\n"):
        written = line.rstrip()
        if not written or written.startswith("="):
            continue
        gpu = _GPU.match(written)
        if gpu is not None:
            path, heading = [], ""
            yield "", gpu[1]
            continue
        found = _FIELD.match(written) or _HEADING.match(written)
        if found is None:
            raise Rejected("malformed_text", f"neither a field nor a heading: {written.strip()[:80]!r}")
        path = _deeper(path, len(found[1]), _key(found[2]))
        heading = written.strip() if found.re is _HEADING else ""
        if not heading:
            yield "/".join(path), found[3].strip()
    if heading:
        raise Rejected("truncated", f"it ends with the heading {heading[:80]!r}")


def _deeper(path: list[str], indent: int, key: str) -> list[str]:
    depth = max(indent // _STEP - 1, 0)
    fits = indent % _STEP == 0 and depth <= min(len(path), _MAX_DEPTH)
    if not fits and path:
        raise Rejected("bad_indentation", f"{key[:80]!r} is indented by {indent} spaces")
    return [*path[:depth], key]


def _key(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


def _look(gpu: _Gpu, index: int | None) -> Look:
    fields = gpu.fields
    address = gpu.address or fields.get("pci/bus_id", "")
    component = gpu_component(address, fields.get("uuid", ""), fields.get("serial", ""), index)
    return Look(fields, component, frozenset(fields.values()))
