"""`nvidia-smi-query-csv`: `nvidia-smi --query-gpu=... --format=csv`; also remapped rows and retired pages.

Grammar: a header with the names of fields and perhaps `[unit]`, then a row a GPU (a page, for retired pages),
separated by comma and space. Cells in brackets are words: `[N/A]` and its kind are unknown, `[GPU is lost]` and its
kind are evidence. nvidia-smi prints its errors between the rows. `noheader` output cannot be read: nothing says what
its columns are. Time: `timestamp`, local and without a zone, as UTC. Errors: `Rejected` without a header, or with
rows that do not fit it. Source: nvidia-smi 418 to 610.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from faultbridge.decoders.base import Decoder, Hints, bounded
from faultbridge.decoders.documents import text_of
from faultbridge.decoders.nvidia_smi_failures import failures, names_failure, stated_failures
from faultbridge.decoders.nvidia_smi_snapshot import Look, gpu_component, index_of, snapshot
from faultbridge.domain.faults import Observation
from faultbridge.errors import Rejected

SOURCE = "nvidia-smi-query-csv"
_UNIT = re.compile(r" \[[^\]]{1,10}\]$")
_TIME = re.compile(r"(\d{4})/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_BRACKETED = re.compile(r"\[([^\[\]]{1,80})\]")
_PAGE = "retired_pages.address"
_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}")
_IDENTITIES = frozenset({"uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "index", "serial", "gpu_serial"})
_VOLATILE = "ecc.errors.uncorrected.volatile."
# Where a column's name is not the field's place in the XML.
_NAMES: Mapping[str, str] = {
    f"{_VOLATILE}dram": "ecc_errors/volatile/dram_uncorrectable",
    f"{_VOLATILE}sram": "ecc_errors/volatile/sram_uncorrectable",
    f"{_VOLATILE}sram.parity": "ecc_errors/volatile/sram_uncorrectable_parity",
    f"{_VOLATILE}sram.secded": "ecc_errors/volatile/sram_uncorrectable_secded",
    "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded": "ecc_errors/aggregate/sram_threshold_exceeded",
    "remapped_rows.pending": "remapped_rows/remapped_row_pending",
    "remapped_rows.failure": "remapped_rows/remapped_row_failure",
    "retired_pages.pending": "retired_pages/pending_retirement",
    "retired_pages.single_bit_ecc.count": "retired_pages/single_bit",
    "retired_pages.double_bit.count": "retired_pages/double_bit",
    "fan.speed": "fan_speed",
    "temperature.gpu": "temperature/gpu_temp",
    "power.draw": "power_readings/power_draw",
    "power.draw.instant": "gpu_power_readings/instant_power_draw",
    "gpu_reset_status.reset_required": "gpu_reset_status/reset_required",
    "gpu_reset_status.drain_and_reset_recommended": "gpu_reset_status/drain_and_reset_recommended",
}
_CLOCKS = re.compile(r"clocks_(event|throttle)_reasons\.(\w{1,40})")


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Health snapshot the GPUs that the rows are about; a query is about the GPUs and fields that were asked for."""
    text = text_of(body)
    lines = iter(text.split("\n"))
    header = next((line for line in lines if _is_header(line)), None)
    if header is None:
        if names_failure(text):
            return failures(SOURCE, text)
        raise Rejected("no_framing", "no header with fields of nvidia-smi")
    names = _names(header)
    also = stated_failures(SOURCE, text)
    rows = (row for line in lines if (row := _row(line.rstrip("\r"), names)) is not None)
    if _PAGE in names:
        return (snapshot(SOURCE, _pages(rows), None, whole=False, also=also),)
    kept = bounded(rows)
    at = next((found for row in kept if (found := _time(row.get("timestamp", ""))) is not None), None)
    node = next((row["hostname"] for row in kept if row.get("hostname")), None)
    whole = _whole(kept) and not also
    return (snapshot(SOURCE, map(_look, kept), at, whole=whole, also=also, node=node),)


def recognize(body: bytes) -> bool:
    """Tell whether one of the first lines is a header of fields that only nvidia-smi has."""
    return any(_is_header(line) for line in text_of(body).split("\n", 20)[:20])


def _names(line: str) -> list[str]:
    return [_UNIT.sub("", name.strip()) for name in line.rstrip("\r").split(",")]


def _is_header(line: str) -> bool:
    if len(line) > _MAX_HEADER:
        return False
    names = set(_names(line))
    identified = bool(names & _IDENTITIES) or "name" in names or "gpu_name" in names
    return identified and any(name in _KNOWN or name.startswith(_FAMILIES) for name in names)


# All fields of a driver at once make about 8 KB.
_MAX_HEADER = 16 * 1024
_KNOWN = frozenset({"gpu_bus_id", "gpu_uuid", "pci.bus_id", "driver_version", "gpu_recovery_action", *_NAMES})
_FAMILIES = (
    "remapped_rows.",
    "retired_pages.",
    "ecc.",
    "clocks_",
    "clocks.",
    "utilization.",
    "fabric.",
    "memory.",
    "power.",
)


def _row(line: str, names: list[str]) -> dict[str, str] | None:
    """Return the cells of a row by name; a line that is one of nvidia-smi's sentences is none."""
    if not line.strip() or names_failure(line):
        return None
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(names):
        raise Rejected("malformed_row", f"{len(cells)} cells under {len(names)} names: {line.strip()[:80]!r}")
    return dict(zip(names, cells, strict=True))


def _look(row: Mapping[str, str]) -> Look:
    fields = {_name(name): _plain(cell) for name, cell in row.items()}
    total = row.get(f"{_VOLATILE}total", "")
    parts = ("dram_uncorrectable", "sram_uncorrectable")
    if not any(fields.get(f"ecc_errors/volatile/{part}", "").isdigit() for part in parts):
        fields["ecc_errors/volatile/double_bit/total"] = total
    address, uuid = (row.get(name, row.get(f"gpu_{name.rpartition('.')[2]}", "")) for name in ("pci.bus_id", "uuid"))
    serial = row.get("serial", row.get("gpu_serial", ""))
    return Look(fields, gpu_component(address, uuid, serial, index_of(row.get("index", ""))), frozenset(row.values()))


def _name(name: str) -> str:
    clocks = _CLOCKS.fullmatch(name)
    if clocks is not None:
        return f"clocks_{clocks[1]}_reasons/clocks_{clocks[1]}_reason_{clocks[2]}"
    return _NAMES.get(name) or (name.replace(".", "/") if name.startswith("fabric.") else name)


def _plain(cell: str) -> str:
    bracketed = _BRACKETED.fullmatch(cell)
    return bracketed[1] if bracketed else cell


def _pages(rows: Iterable[dict[str, str]]) -> Iterator[Look]:
    """Count the retired pages of each GPU: a healthy one has rows too, but without addresses in them."""
    looks: dict[str, Look] = {}
    counts: dict[str, int] = {}
    for row in rows:
        name = row.get("gpu_bus_id") or row.get("gpu_uuid") or ""
        if name not in looks:
            looks[name] = _look(row)
            bounded(looks)
        counts[name] = counts.get(name, 0) + (_HEX.fullmatch(row[_PAGE]) is not None)
    for name, look in looks.items():
        yield Look({**look.fields, "retired_pages/single_bit": str(counts[name])}, look.component, look.words)


def _whole(rows: list[dict[str, str]]) -> bool:
    """Tell whether the rows are all GPUs of the node: the field `count` says how many there are."""
    return bool(rows) and all(row.get("count") == str(len(rows)) for row in rows)


def _time(text: str) -> datetime | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    *parts, fraction = found.groups()
    year, month, day, hour, minute, second = map(int, parts)
    try:
        return datetime(year, month, day, hour, minute, second, int((fraction or "0").ljust(6, "0")), tzinfo=UTC)
    except ValueError:
        return None


DECODER = Decoder(
    name=SOURCE,
    summary="nvidia-smi --query-gpu, --query-remapped-rows, --query-retired-pages with --format=csv and a header",
    example="index, pci.bus_id, remapped_rows.pending, remapped_rows.failure\n0, 00000000:53:00.0, No, Yes",
    recognize=recognize,
    decode=decode,
)
