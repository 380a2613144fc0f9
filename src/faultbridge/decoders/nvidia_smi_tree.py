"""Reads the XML of `nvidia-smi -q -x` without the dangers of XML: no entities, no other files, bounded in size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element, ParseError, XMLParser

from faultbridge.decoders.base import bounded
from faultbridge.errors import Rejected

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 24
ROOT = "nvidia_smi_log"
# Names alone are longer: a body that has more elements is made to fill the memory with them.
_FEWEST_BYTES, _SMALL = 8, 4096
# The parts of a GPU that hold anything about its health; the others are left where they are.
_SECTIONS = frozenset(
    {
        "clocks_event_reasons",
        "clocks_throttle_reasons",
        "ecc_errors",
        "remapped_rows",
        "retired_pages",
        "fabric",
        "gpu_reset_status",
        "temperature",
        "power_readings",
        "gpu_power_readings",
        "mig_devices",
        "pci",
    }
)
_COUNTS = {
    "retired_pages/multiple_single_bit_retirement/retired_count": "retired_pages/single_bit",
    "retired_pages/double_bit_retirement/retired_count": "retired_pages/double_bit",
}
_MIG = "mig_devices/mig_device/ecc_error_count/volatile_count/sram_uncorrectable"
# nvidia-smi breaks lines and indents between elements only; each of these would be parsed as a text of its own.
_BREAKS = b"\t\r\n"
_BALLAST = tuple(
    (f"<{section}>".encode(), f"</{section}>".encode())
    for section in ("supported_clocks", "processes", "clocks", "max_clocks", "applications_clocks", "bar1_memory_usage")
)


@dataclass(frozen=True, slots=True)
class GpuLog:
    """One GPU of a log: its address as printed, its fields, and every word that its fields hold where asked for."""

    address: str
    fields: Mapping[str, str]
    words: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SmiLog:
    """One log: its local time and its count of GPUs as printed, and the GPUs that are in it."""

    timestamp: str
    attached: str | None
    gpus: tuple[GpuLog, ...]


def read_log(body: bytes, words: tuple[bytes, ...] = ()) -> SmiLog:
    """Read a log; anything that is not one whole, plain `nvidia_smi_log` document is `Rejected`.

    A DOCTYPE line is accepted and never followed; any entity declaration is refused. All texts of a GPU are collected
    only where one of `words` occurs anywhere in the body.
    """
    if len(body) > MAX_BYTES:
        raise Rejected("too_large", f"{len(body)} bytes of XML, at most {MAX_BYTES} are read")
    body = _without_ballast(body).translate(None, _BREAKS)
    if b"<!ENTITY" in body:
        raise Rejected("entity_declaration", "the document declares XML entities, which nvidia-smi never does")
    if body.count(b"<") * _FEWEST_BYTES > max(len(body), _SMALL):
        raise Rejected("too_dense", "more elements than nvidia-smi would write into so few bytes")
    if b"<" not in body:
        raise Rejected("no_framing", "no XML element in it")
    root = _parsed(body)
    if root.tag != ROOT:
        raise Rejected("wrong_shape", f"the root element is {root.tag[:64]!r}, not {ROOT!r}")
    _refuse_deep(root)
    searched = any(word in body for word in words)
    gpus = tuple(
        GpuLog(gpu.get("id", ""), _fields(gpu), _words(gpu) if searched else frozenset())
        for gpu in bounded(root.iterfind("gpu"))
    )
    attached = root.findtext("attached_gpus")
    return SmiLog((root.findtext("timestamp") or "").strip(), attached.strip() if attached else None, gpus)


def _fields(gpu: Element) -> dict[str, str]:
    fields: dict[str, str] = {}
    for child in gpu:
        if len(child) == 0:
            fields[child.tag] = (child.text or "").strip()
        elif child.tag in _SECTIONS:
            _collect(child, child.tag, fields)
    for path, name in _COUNTS.items():
        if path in fields:
            fields[name] = fields[path]
    return fields


def _collect(element: Element, path: str, fields: dict[str, str]) -> None:
    for child in element:
        name = f"{path}/{child.tag}"
        if len(child):
            _collect(child, name, fields)
        elif name == _MIG:
            _add(fields, (child.text or "").strip())
        else:
            fields[name] = (child.text or "").strip()


def _add(fields: dict[str, str], text: str) -> None:
    """Add up what the MIG instances of a GPU count, each for itself."""
    total = "ecc_errors/volatile/mig_sram_uncorrectable"
    if text.isascii() and text.isdigit() and len(text) < len(str(2**63)):
        fields[total] = str(int(fields.get(total, "0")) + int(text))


def _words(element: Element) -> frozenset[str]:
    return frozenset(field.text.strip() for field in element.iter() if field.text)


def _parsed(body: bytes) -> Element:
    # The encoding is imposed: a declared one could hide what was looked for above.
    parser = XMLParser(encoding="utf-8")  # noqa: S314 - no entities, no files: both are refused above
    try:
        parser.feed(body)
        root: Element = parser.close()
    except (ParseError, ValueError, LookupError) as error:
        raise Rejected("malformed_xml", str(error)[:200]) from error
    return root


def _without_ballast(body: bytes) -> bytes:
    """Leave out what fills most of the text and says nothing about health, as parsing is the cost."""
    for opening, closing in _BALLAST:
        kept, start = [], 0
        while (begins := body.find(opening, start)) >= 0 and (ends := body.find(closing, begins)) >= 0:
            kept.append(body[start:begins])
            start = ends + len(closing)
        if start:
            body = b"".join((*kept, body[start:]))
    return body


def _refuse_deep(root: Element) -> None:
    level = [root]
    for _ in range(MAX_DEPTH):
        level = [child for element in level for child in element if len(child)]
        if not level:
            return
    raise Rejected("too_deep", f"elements are nested more than {MAX_DEPTH} deep")
