"""Joins JSON documents that are printed over several log lines, and removes the wrapper of each line.

Lines of different nodes may be mixed. At most 16 MiB of lines are kept for documents that are not complete yet.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.decoders.common.clock import iso_instant
from faultbridge.decoders.common.documents import MAX_JSON_BYTES, each_document
from faultbridge.decoders.common.log_answers import lines_of_answer
from faultbridge.decoders.common.wrappers import MAX_DEPTH, line_of, unwrap

_DOCUMENT_BYTES = 1024
"""Bytes counted for each incomplete document besides its lines; this limits the number of documents."""

_CLOSING = {"{": "}", "[": "]"}
_CRI = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) std(?:out|err) ([FP]) ?(.*)$")


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One log message, with the time and node that the collector added.

    `instance_id` comes from the name of the log stream.
    """

    message: str
    at: datetime | None = None
    instance_id: str | None = None
    node: str | None = None


@dataclass(slots=True)
class _Document:
    """A JSON document whose last line was not read yet.

    `lines` are the log lines of the document as they were read, and `texts` are the texts inside their wrappers.
    `event` is the log event of the first line. `end` is the text of the line that completes the document.
    """

    end: str
    event: LogEvent
    lines: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    size: int = _DOCUMENT_BYTES


def joined_documents(lines: Iterable[str]) -> Iterator[str]:
    """Yield log lines, with each JSON document that a collector stored line by line joined again.

    Such a document is replaced by one line for each log record in it. Documents in other lines are not changed.
    Each new line also has the time and the node that the collector wrote for the first line of the document. A document
    that is never completed, is not JSON or has no log record is yielded as its original lines. If the lines of
    incomplete documents exceed 16 MiB, the lines of the oldest document are yielded unchanged too.
    """
    found: OrderedDict[str | None, _Document] = OrderedDict()
    size = 0
    for line in lines:
        event = log_event(line)
        text = event.message.rstrip() if event else ""
        document = found.get(event.node) if event else None
        if event and text.strip() in _CLOSING and (document is None or text[:-1] == document.end[:-1]):
            if document is not None:
                # The document before was cut off.
                size -= found.pop(event.node).size
                yield from document.lines
            document = found[event.node] = _Document(text[:-1] + _CLOSING[text[-1]], event)
            size += document.size
        if document is None:
            yield line
            continue
        document.lines.append(line)
        document.texts.append(text)
        document.size += len(line) + 1
        size += len(line) + 1
        if text.rstrip(",") == document.end:
            size -= found.pop(document.event.node).size
            yield from _records_of(document)
        while size > MAX_JSON_BYTES:
            _, oldest = found.popitem(last=False)
            size -= oldest.size
            yield from oldest.lines
    for document in found.values():
        yield from document.lines


def _records_of(document: _Document) -> Iterator[str]:
    text = "\n".join(document.texts).rstrip(",")
    try:
        found = [record for one in each_document(text) for record in log_records(one)]
    except (ValueError, RecursionError):
        found = []
    if not found:
        yield from document.lines
    event = document.event
    beside = {"host": event.node, "time": event.at.isoformat() if event.at else None}
    for record in found:
        yield json.dumps({**{name: value for name, value in beside.items() if value}, "log": json.dumps(record)})


def log_records(document: object, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in a JSON document that contain a log line.

    If the document is a response that `log_answers` reads, the log lines of the response are yielded instead. `depth`
    is the number of JSON values that contain `document`. The search ends at a depth of `MAX_DEPTH`.
    """
    answer = list(lines_of_answer(document)) if depth == 0 else []
    if answer:
        yield from answer
        return
    if isinstance(document, Mapping):
        if line_of(document) is not None:
            yield document
            return
        document = list(document.values())
    if isinstance(document, list) and depth < MAX_DEPTH:
        for item in document:
            if isinstance(item, Mapping | list):
                yield from log_records(item, depth + 1)


def log_event(line: str, depth: int = MAX_DEPTH) -> LogEvent | None:
    """Return the log message in a line that a container runtime or a log collector wrapped.

    The message can be inside several JSON objects, of which at most `depth` are removed. The result is None if the
    line has no wrapper.
    """
    cri = _CRI.match(line.strip("\r"))
    at, text = (iso_instant(cri[1]), cri[3]) if cri else (None, line)
    node, is_wrapped = None, cri is not None
    for _ in range(depth):
        wrapped = unwrap(text) if text.lstrip()[:1] == "{" else None
        if wrapped is None:
            break
        text, at, node, is_wrapped = wrapped.text.rstrip("\n"), wrapped.at or at, wrapped.node or node, True
    return LogEvent(text, at, node=node) if is_wrapped else None
