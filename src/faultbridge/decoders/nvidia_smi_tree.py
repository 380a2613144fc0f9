"""Reads the XML of `nvidia-smi -q -x` without the dangers of XML: no entities, no other files, bounded in size."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element, ParseError, XMLParser

from faultbridge.errors import Rejected

MOST_BYTES = 16 * 1024 * 1024
MOST_DEPTH = 24
ROOT = "nvidia_smi_log"


def read_log(body: bytes) -> Element:
    """Return the root element; anything that is not one whole, plain `nvidia_smi_log` document is `Rejected`.

    A DOCTYPE line is accepted and never followed; any entity declaration is refused.
    """
    if len(body) > MOST_BYTES:
        raise Rejected("too_large", f"{len(body)} bytes of XML, at most {MOST_BYTES} are read")
    if b"<!ENTITY" in body:
        raise Rejected("entity_declaration", "the document declares XML entities, which nvidia-smi never does")
    if b"<" not in body:
        raise Rejected("no_framing", "no XML element in it")
    root = _parsed(body)
    if root.tag != ROOT:
        raise Rejected("wrong_shape", f"the root element is {root.tag[:64]!r}, not {ROOT!r}")
    _refuse_deep(root)
    return root


def value(element: Element, path: str) -> str | None:
    """Return the trimmed text of a field, or None where the element is absent."""
    found = element.findtext(path)
    return None if found is None else found.strip()


def texts(element: Element) -> Iterator[tuple[str, str]]:
    """Yield the tag and the trimmed text of each field that has one."""
    for field in element.iter():
        if field.text and (text := field.text.strip()):
            yield field.tag, text


def _parsed(body: bytes) -> Element:
    # The encoding is imposed: a declared one could hide what was looked for above.
    parser = XMLParser(encoding="utf-8")  # noqa: S314 - as at the import
    try:
        parser.feed(_without_clock_lists(body))
        root: Element = parser.close()
    except (ParseError, ValueError, LookupError) as error:
        raise Rejected("malformed_xml", str(error)[:200]) from error
    return root


def _without_clock_lists(body: bytes) -> bytes:
    """Leave out the lists of supported clocks: more than half of the text, of no use, and parsing is the cost."""
    opening, closing = b"<supported_clocks>", b"</supported_clocks>"
    kept, start = [], 0
    while (begins := body.find(opening, start)) >= 0 and (ends := body.find(closing, begins)) >= 0:
        kept.append(body[start:begins])
        start = ends + len(closing)
    return b"".join((*kept, body[start:]))


def _refuse_deep(root: Element) -> None:
    level = [root]
    for _ in range(MOST_DEPTH):
        level = [child for element in level for child in element]
        if not level:
            return
    raise Rejected("too_deep", f"elements are nested more than {MOST_DEPTH} deep")
