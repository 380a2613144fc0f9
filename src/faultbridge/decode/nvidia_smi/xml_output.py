"""Decodes `nvidia-smi-xml`: `nvidia-smi -q -x`, as a health snapshot of all GPUs.

The XML is parsed safely: no entities, no external files, limits on size and depth.

Grammar: one `nvidia_smi_log` document, with or without DOCTYPE (v10 to v13). The fields differ by GPU and driver.
`N/A`, an absent element and `Requested functionality has been deprecated` mean unknown: neither healthy nor faulty.
Error messages of nvidia-smi may come before, after or within the document, and can report faults. Units: as printed.
Times: `timestamp`, the local time of the node, taken as UTC because it has no time zone. Errors: `Rejected` for input
that is neither a complete document nor error messages of nvidia-smi. Source: nvidia-smi 418 to 595, nvsmi_device_v10 to
v13.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, ParseError, XMLParser

from faultbridge.decode.data import table
from faultbridge.decode.frames.decoder import Hints
from faultbridge.decode.frames.documents import text_of
from faultbridge.decode.frames.values import bounded
from faultbridge.decode.nvidia_smi import snapshot as smi
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import Observation

SOURCE = "nvidia-smi-xml"
_WORDS = (smi.LOST.encode(), smi.NEEDS_RESET.encode())


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return a health snapshot of all GPUs in the document, with the faults of the error messages."""
    if len(body) > MAX_BYTES:
        raise Rejected("too_large", f"{len(body)} bytes of XML; at most {MAX_BYTES} are read")
    # The names of processes are in one of the removed sections: a program could forge a message with its name.
    body, messages = _without_sections(_SKIPPED, body)[0], ""
    if smi.has_failure(text_of(body)):
        body, messages = _without_messages(body)
    if messages and b"<" not in body:
        return smi.failures(SOURCE, messages)
    # The texts of a GPU are collected only if they can matter, and sections that no check reads are skipped otherwise.
    searched = any(word in body for word in _WORDS)
    root = _document(body, whole=searched)
    gpus = bounded(root.iterfind("gpu"))
    stated_faults = smi.find_failures(SOURCE, messages)
    if not gpus and not stated_faults:
        raise Rejected("no_framing", "the document contains no GPU")
    attached = root.findtext("attached_gpus")
    complete = (not attached or attached.strip() == str(len(gpus))) and not stated_faults
    outputs = (_gpu_output(gpu, index if complete else None, searched=searched) for index, gpu in enumerate(gpus))
    at = smi.local_time((root.findtext("timestamp") or "").strip())
    return (smi.gpu_snapshot(SOURCE, outputs, at, complete=complete, stated_faults=stated_faults),)


def _without_messages(body: bytes) -> tuple[bytes, str]:
    """Return the document without lines that are error messages, and the text of these lines."""
    document: list[bytes] = []
    messages: list[bytes] = []
    for line in body.split(b"\n"):
        is_message = b"<" not in line and smi.has_failure(text_of(line))
        (messages if is_message else document).append(line)
    return b"\n".join(document), text_of(b"\n".join(messages))


def _gpu_output(gpu: Element, index: int | None, *, searched: bool) -> smi.GpuOutput:
    fields = _fields(gpu)
    names = (fields.get("uuid", ""), fields.get("serial", ""), index)
    component = smi.gpu_component(gpu.get("id", ""), *names)
    if component.pci is None:
        component = smi.gpu_component(fields.get("pci/pci_bus_id", ""), *names)
    texts = (text.strip() for element in gpu.iter() if (text := element.text)) if searched else ()
    return smi.GpuOutput(fields, component, frozenset(texts))


MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 24
ROOT = "nvidia_smi_log"
# Element names alone need more bytes: a denser body is an attempt to exhaust memory.
_MIN_ELEMENT_BYTES, _SMALL = 8, 4096
# The sections of a GPU, at any depth, that contain health fields; others are skipped.
_SECTIONS = frozenset(table("nvidia_smi")["sections"])
_COUNTS = {
    "retired_pages/multiple_single_bit_retirement/retired_count": "retired_pages/single_bit",
    "retired_pages/double_bit_retirement/retired_count": "retired_pages/double_bit",
}
_MIG = "mig_devices/mig_device/ecc_error_count/volatile_count/sram_uncorrectable"
# Line breaks and tabs occur only between elements; removing them avoids a text node for each.
_BREAKS = b"\t\r\n"
_SKIPPED = re.compile(rf"<({'|'.join(table('nvidia_smi')['skipped_sections'])})>".encode())
_UNREAD = re.compile(rf"<(?!(?:{'|'.join((ROOT, 'gpu', *_SECTIONS))})>)(\w++)>\s*+(?=<\w)".encode())


def _document(body: bytes, *, whole: bool) -> Element:
    """Return the root of an XML document of nvidia-smi. A DOCTYPE line is accepted but not followed.

    Unless `whole`, the sections without health fields are left out.
    Raises `Rejected` if the body is not one complete document, is nested too deeply, or has entity declarations.
    """
    body = body.translate(None, _BREAKS)
    if b"<!ENTITY" in body:
        raise Rejected("entity_declaration", "the document declares XML entities; nvidia-smi declares none")
    if body.count(b"<") * _MIN_ELEMENT_BYTES > max(len(body), _SMALL):
        raise Rejected("too_dense", "too many XML elements for the size of the document")
    if b"<" not in body:
        raise Rejected("no_framing", "no XML element")
    if not whole:
        left, removed = _without_sections(_UNREAD, body)
        # An element that does not end, or ends elsewhere, is an error that the parser must find.
        body = left if removed.count(b"<") == 2 * removed.count(b"</") else body
    # The encoding is fixed: a declared encoding could hide the entities that are rejected above.
    parser = XMLParser(encoding="utf-8")  # noqa: S314 - entities are rejected above and no files are read
    try:
        parser.feed(body)
        root: Element = parser.close()
    except (ParseError, ValueError, LookupError) as error:
        raise Rejected("malformed_xml", str(error)[:200]) from error
    if root.tag != ROOT:
        raise Rejected("wrong_shape", f"wrong root element: {root.tag[:64]!r}; expected {ROOT!r}")
    _reject_deep(root)
    return root


def _fields(gpu: Element) -> dict[str, str]:
    fields: dict[str, str] = {}
    _collect(gpu, "", fields)
    return fields | {name: fields[path] for path, name in _COUNTS.items() if path in fields}


def _collect(element: Element, prefix: str, fields: dict[str, str]) -> None:
    for child in element:
        name = prefix + child.tag
        if len(child) == 0 and name != _MIG:
            fields[name] = (child.text or "").strip()
        elif len(child) == 0:
            smi.add_mig_errors(fields, (child.text or "").strip())
        elif prefix or child.tag in _SECTIONS:
            _collect(child, f"{name}/", fields)


def _without_sections(opening: re.Pattern[bytes], body: bytes) -> tuple[bytes, bytes]:
    """Return a document without the sections that start with a pattern, and the content of these sections."""
    kept, removed, start = [], [], 0
    while (found := opening.search(body, start)) and (end := body.find(b"</%b>" % found[1], found.end())) >= 0:
        kept.append(body[start : found.start()])
        removed.append(body[found.end() : end])
        start = end + len(found[1]) + 3
    return b"".join((*kept, body[start:])), b"".join(removed)


def _reject_deep(root: Element) -> None:
    level = [root]
    for _ in range(MAX_DEPTH):
        level = [child for element in level for child in element if len(child)]
        if not level:
            return
    raise Rejected("too_deep", f"elements are nested more than {MAX_DEPTH} levels deep")
