"""Decodes `nvidia-smi-query-csv`: nvidia-smi's CSV output, and the metrics into which nvidia_gpu_exporter turns it.

Grammar: the output of `nvidia-smi --query-gpu=... --format=csv`. It has a header of field names, some with `[unit]`,
then one row per GPU, or one row per page for retired pages; cells are separated by a comma and a space. A cell in
brackets has no value: `[N/A]` and similar mean unknown, and `[GPU is lost]` and similar are evidence of a fault.
nvidia-smi prints error messages between the rows. Output with `noheader` can be read only below its command, which
names the columns. The exporter prints `nvidia_smi_FIELD{uuid="U"} NUMBER`, with underscores in place of dots.

Times: `timestamp`, local without a time zone, taken as UTC. Units: as printed. Errors: `Rejected` without a header, or
for a row that does not fit the header. Source: nvidia-smi 418 to 610.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from faultbridge.decode.data import table
from faultbridge.decode.frames.clock import iso_instant
from faultbridge.decode.frames.decoder import Hints
from faultbridge.decode.frames.documents import text_of
from faultbridge.decode.frames.prometheus import samples
from faultbridge.decode.frames.values import bounded, digits
from faultbridge.decode.nvidia_smi import snapshot as smi
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import Observation

SOURCE = "nvidia-smi-query-csv"
_UNIT = re.compile(r" \[[^\]]{1,10}\]$")
_TIME = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?")
_BRACKETED = re.compile(r"\[([^\[\]]{1,80})\]$")
_PAGE = "retired_pages.address"
_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}")
_IDENTITIES = frozenset({"uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "index", "serial", "gpu_serial"})
_VOLATILE = "ecc.errors.uncorrected.volatile."
_TABLE = table("nvidia_smi")
# Columns whose names differ from the field's path in the XML.
_FIELD_PATHS: Mapping[str, str] = _TABLE["csv_fields"]
_CLOCKS = re.compile(r"clocks_(event|throttle)_reasons\.(\w{1,40})")
_COMMAND = re.compile(r"\bnvidia-smi [^\n]{0,200}?--query-[\w-]{2,32}[= ]([\w.,]{1,16384})")
_METRICS = re.compile(r"^nvidia_smi_\w{1,100}\{[^\n]{0,1024}\buuid=\"", re.MULTILINE)
_CLOCK_METRIC = re.compile(r"(clocks_(?:event|throttle)_reasons)_(\w{1,40})")
_FIELDS_BY_METRIC = {
    re.sub(r"[._]", "", name).lower(): name for name in ("gpu_recovery_action", f"{_VOLATILE}total", *_FIELD_PATHS)
}


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return one health snapshot of the GPUs and fields that the query lists."""
    text = text_of(body)
    if _METRICS.search(text):
        return (smi.gpu_snapshot(SOURCE, map(_gpu_output, bounded(_rows_of_metrics(text))), None, complete=False),)
    lines = iter(text.split("\n"))
    header = next(filter(None, map(_header, lines)), None)
    if header is None:
        if smi.has_failure(text):
            return smi.failures(SOURCE, text)
        raise Rejected("no_framing", "no header with field names of nvidia-smi; print one without `noheader`")
    names = _names(header)
    stated_faults = smi.find_failures(SOURCE, text)
    rows = (row for line in lines if (row := _row(line.rstrip("\r"), names)) is not None)
    if _PAGE in names:
        return (smi.gpu_snapshot(SOURCE, _with_page_counts(rows), None, complete=False, stated_faults=stated_faults),)
    gpu_rows = bounded(rows)
    stamps = (stamp for row in gpu_rows if _TIME.fullmatch(stamp := row.get("timestamp", "")))
    at = next((found for stamp in stamps if (found := iso_instant(stamp.replace("/", "-")))), None)
    node = next((row["hostname"] for row in gpu_rows if row.get("hostname")), None)
    is_whole = bool(gpu_rows) and all(row.get("count") == str(len(gpu_rows)) for row in gpu_rows)
    complete = is_whole and not stated_faults
    outputs = map(_gpu_output, gpu_rows)
    return (smi.gpu_snapshot(SOURCE, outputs, at, complete=complete, stated_faults=stated_faults, node=node),)


def recognize(body: bytes) -> bool:
    """Return whether one of the first 20 lines is probably a header of nvidia-smi's CSV output, or is a metric."""
    text = text_of(body)
    return any(map(_header, text.split("\n", 20)[:20])) or _METRICS.search(text) is not None


def _header(line: str) -> str | None:
    """Return the names of the columns in a line: a header, or the command of an output without a header."""
    command = _COMMAND.search(line[:_MAX_HEADER])
    header = command[1] if command and "noheader" in line else "" if command else line
    if not header or len(header) > _MAX_HEADER:
        return None
    names = set(_names(header))
    is_known = any(name in _KNOWN_FIELDS or name.startswith(_FIELD_PREFIXES) for name in names)
    return header if is_known and names & {*_IDENTITIES, "name", "gpu_name"} else None


def _rows_of_metrics(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each GPU in the metrics of nvidia_gpu_exporter, as nvidia-smi prints them."""
    rows: dict[str, dict[str, str]] = {}
    for sample in samples(text, ("nvidia_smi_",)):
        name, uuid = sample.name.removeprefix("nvidia_smi_"), sample.labels.get("uuid", "")
        if not uuid or sample.value is None:
            continue
        row = rows.setdefault(uuid, {"uuid": uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"})
        field = _FIELDS_BY_METRIC.get(name.replace("_", ""), "")
        words = _TABLE["words"].get(field, ())
        if field and (not words or sample.value in range(len(words))):
            row[field] = words[int(sample.value)] if words else str(sample.value)
        elif name.startswith("clocks_") and (reason := _CLOCK_METRIC.fullmatch(name)):
            row[f"{reason[1]}.{reason[2]}"] = "Active" if sample.value else "Not Active"
    yield from rows.values()


def _names(line: str) -> list[str]:
    return [_UNIT.sub("", name.strip()) for name in line.rstrip("\r").split(",")]


# A header with all fields of a driver has about 8 KB.
_MAX_HEADER = 16 * 1024
_KNOWN_FIELDS = frozenset(
    {"gpu_bus_id", "gpu_uuid", "pci.bus_id", "driver_version", "gpu_recovery_action", *_FIELD_PATHS}
)
_FIELD_PREFIXES = tuple(_TABLE["csv_prefixes"])


def _row(line: str, names: list[str]) -> dict[str, str] | None:
    if not line.strip() or smi.has_failure(line):
        return None
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(names):
        raise Rejected("malformed_row", f"{len(cells)} cells under {len(names)} names: {line.strip()[:80]!r}")
    return dict(zip(names, cells, strict=True))


def _gpu_output(row: Mapping[str, str]) -> smi.GpuOutput:
    # A cell in brackets states why it has no value.
    fields = {_field_path(name): found[1] if (found := _BRACKETED.match(cell)) else cell for name, cell in row.items()}
    total = row.get(f"{_VOLATILE}total", "")
    parts = ("dram_uncorrectable", "sram_uncorrectable")
    if not any(fields.get(f"ecc_errors/volatile/{part}", "").isdigit() for part in parts):
        fields["ecc_errors/volatile/double_bit/total"] = total
    address, uuid = (row.get(name, row.get(f"gpu_{name.rpartition('.')[2]}", "")) for name in ("pci.bus_id", "uuid"))
    serial = row.get("serial", row.get("gpu_serial", ""))
    return smi.GpuOutput(
        fields, smi.gpu_component(address, uuid, serial, digits(row.get("index", ""), 3)), frozenset(row.values())
    )


def _field_path(name: str) -> str:
    clocks = _CLOCKS.fullmatch(name)
    if clocks is not None:
        return f"clocks_{clocks[1]}_reasons/clocks_{clocks[1]}_reason_{clocks[2]}"
    return _FIELD_PATHS.get(name) or (name.replace(".", "/") if name.startswith("fabric.") else name)


def _with_page_counts(rows: Iterable[dict[str, str]]) -> Iterator[smi.GpuOutput]:
    """Yield each GPU of a list of retired pages, with the number of its pages."""
    outputs: dict[str, smi.GpuOutput] = {}
    counts: dict[str, int] = {}
    for row in rows:
        name = row.get("gpu_bus_id") or row.get("gpu_uuid") or ""
        if name not in outputs:
            outputs[name] = _gpu_output(row)
            bounded(outputs)
        counts[name] = counts.get(name, 0) + (_HEX.fullmatch(row[_PAGE]) is not None)
    for name, output in outputs.items():
        yield smi.GpuOutput(
            {**output.fields, "retired_pages/single_bit": str(counts[name])}, output.component, output.texts
        )
