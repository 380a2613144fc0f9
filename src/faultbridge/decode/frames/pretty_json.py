"""Frame of JSON documents that are printed over several lines, perhaps with each line wrapped by a collector.

`journalctl -o json-pretty` and `dmesg -J` print such documents. Lines of different nodes may be mixed. At most 16 MiB
of lines are kept for documents that are not complete yet.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from faultbridge.decode.frames.collector import line_of, unwrapped
from faultbridge.decode.frames.documents import MAX_JSON_BYTES, each_document, embedded, leading_documents, text_of
from faultbridge.decode.frames.line import MAX_DEPTH, Item, Line
from faultbridge.decode.frames.stores import is_table, lines_of_table, stored_lines

_MAX_HEADER = 4096
_CLOSING = {"{": "}", "[": "]"}
_DOCUMENT_BYTES = 1024
"""Bytes counted for each incomplete document besides its lines; this limits the number of documents."""

# A document that is printed over several lines starts with a line that is only a bracket.
_OPENING = re.compile(
    rb'(?m)" ?: ?\\{0,3}"[ \t]{0,64}[{\[](?:\\{1,4}r)?(?:\\{1,4}n)?\\{0,3}"| [FP] [ \t]{0,64}[{\[][ \t\r]{0,8}$'
)


@dataclass(slots=True)
class _Document:
    """A JSON document whose last line was not read yet.

    `items` are the lines of the document as they were read, and `texts` are the texts inside their wrappers. `first`
    is the first line. `end` is the text of the line that completes the document.
    """

    end: str
    first: Line
    items: list[Item] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    size: int = _DOCUMENT_BYTES


def may_be_spread(body: bytes) -> bool:
    """Return whether a body may have a JSON document that is printed over several wrapped log lines.

    The sign is a wrapped line whose text is only an opening bracket.
    """
    return (b"{" in body or b"[" in body) and _OPENING.search(body) is not None


def joined_documents(items: Iterable[Item]) -> Iterator[Item]:
    """Yield log lines, with each JSON document that a collector stored line by line replaced by its log lines.

    Documents in lines without a wrapper are not changed. Each new line also has the time and the node of the first line
    of the document. A document that is never completed, is not JSON or has no log line is yielded as its original
    lines. If the lines of incomplete documents exceed 16 MiB, the lines of the oldest document are yielded unchanged.
    """
    found: OrderedDict[str | None, _Document] = OrderedDict()
    size = 0
    for item in items:
        line = unwrapped(item)
        text = line.text.rstrip() if line else ""
        document = found.get(line.node) if line else None
        if line and text.strip() in _CLOSING and (document is None or text[:-1] == document.end[:-1]):
            if document is not None:
                # The document before was cut off.
                size -= found.pop(line.node).size
                yield from document.items
            document = found[line.node] = _Document(text[:-1] + _CLOSING[text[-1]], line)
            size += document.size
        if document is None:
            yield item
            continue
        document.items.append(item)
        document.texts.append(text)
        length = len(item if isinstance(item, str) else item.text) + 1
        document.size += length
        size += length
        if text.rstrip(",") == document.end:
            size -= found.pop(document.first.node).size
            yield from _lines_of(document)
        while size > MAX_JSON_BYTES:
            _, oldest = found.popitem(last=False)
            size -= oldest.size
            yield from oldest.items
    for document in found.values():
        yield from document.items


def _lines_of(document: _Document) -> list[Item]:
    text, outer = "\n".join(document.texts).rstrip(","), Line("", document.first.at, document.first.node)
    try:
        found = [line.within(outer) for value in each_document(text) for line in lines_in_document(value)]
    except (ValueError, RecursionError):
        found = []
    # An Xid in another member of the document must not get lost.
    is_lost = "Xid" in text and not any("Xid" in line.text for line in found)
    return document.items if is_lost or not found else [*found]


def lines_in_document(document: object, depth: int = 0) -> Iterator[Line]:
    """Yield the log lines in a JSON document: those of a log store's response, or of the objects of a collector."""
    stored = list(stored_lines(document)) if depth == 0 else []
    if stored:
        yield from stored
        return
    if isinstance(document, dict):
        line = line_of(document)
        if line is not None:
            yield line
            return
        document = list(document.values())
    if isinstance(document, list) and depth < MAX_DEPTH:
        for item in document:
            if isinstance(item, dict | list):
                yield from lines_in_document(item, depth + 1)


def document_lines(body: bytes) -> Iterable[Item] | None:
    """Return the log lines of a body that is a JSON document or a CSV table, and the lines after the document.

    Documents are read only as far as their lines are. The result is None for any other body, such as one that already
    has one JSON object per line.
    """
    if b"@message" in body[:_MAX_HEADER] and is_table(text_of(body[:_MAX_HEADER])):
        return list(lines_of_table(text_of(body)))
    if body[:64].lstrip()[:1] not in {b"{", b"["}:
        return None
    first, _, rest = body.lstrip().partition(b"\n")
    if rest.strip() and embedded(text_of(first)) is not None:
        return None
    lines = _leading_lines(text_of(body))
    line = next(lines, None)
    return None if line is None else chain([line], lines)


def _leading_lines(text: str) -> Iterator[Item]:
    end, has_lines = 0, False
    for document, place in leading_documents(text):
        end = place
        for line in lines_in_document(document):
            has_lines = True
            yield line
    after = text[end:].lstrip() if has_lines else ""
    # Lines of a document that was cut off do not state who wrote them.
    is_cut = after[:1] in {"{", "["}
    yield from (Line(one, program="unknown") if is_cut else one for one in after.split("\n") if one)
