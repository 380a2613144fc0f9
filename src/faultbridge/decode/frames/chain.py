"""The chain of frames: from a body to its log lines, whatever runtime, collector or log store wrapped them.

`body` unpacks the bytes. `stores` and `pretty_json` find the lines of a document, `collector` and
`container` remove the wrapper of one line, and `prefix` strips the prefixes of a kernel line. Decoders call `lines_of`,
or get the texts of `versions` one after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from faultbridge.decode.frames.collector import unwrapped
from faultbridge.decode.frames.documents import MAX_JSON_BYTES, text_of
from faultbridge.decode.frames.line import MAX_DEPTH, Item, Line
from faultbridge.decode.frames.pretty_json import document_lines, joined_documents, may_be_spread
from faultbridge.decode.frames.stores import events_of, tailed_events
from faultbridge.model.values import replace

_HEADS = frozenset("{ \t0123456789")


def messages_of(body: bytes) -> tuple[Line, ...]:
    """Return the messages of a CloudWatch Logs record or of `aws logs tail`; otherwise the whole body as one."""
    events = events_of(body)
    if events is not None:
        return events
    text = text_of(body)
    return tailed_events(text) or (Line(text),)


def framed_lines(body: bytes) -> Iterable[Item] | None:
    """Return the lines of a body that is a document or contains documents of many lines; None for other text.

    Lines of a collector that has one object per line, and lines with a prefix, are other text.
    """
    events = events_of(body)
    if events is not None:
        # A document of many lines can be one event.
        return joined_documents(unwrapped(one) or one if "\n" in one.text else one for one in events)
    if len(body) > MAX_JSON_BYTES:
        return None
    lines = document_lines(body)
    return joined_documents(text_of(body).split("\n")) if lines is None and may_be_spread(body) else lines


def framed_pieces(pieces: Iterable[bytes]) -> Iterator[bytes | Item]:
    """Yield the pieces of a log, or its lines if documents of many lines were wrapped line by line.

    The first piece decides. Each piece must have whole lines.
    """
    pieces = iter(pieces)
    head = next(pieces, b"")
    pieces = chain([head], pieces)
    if not may_be_spread(head):
        return pieces
    return joined_documents(line for piece in pieces for line in text_of(piece).removesuffix("\n").split("\n"))


def lines_of(body: bytes) -> Iterator[Item]:
    """Yield the lines of a body, each without the wrapper that a runtime, collector or log store put around it."""
    for item in framed_lines(body) or text_of(body).split("\n"):
        # Every wrapper starts with a brace or with the time of a container runtime.
        if isinstance(item, str) and item[:1] not in _HEADS:
            yield item
        else:
            line = unwrapped(item) or item
            yield from (line,) if isinstance(line, str) else single_lines(line)


def single_lines(line: Line) -> Iterator[Line]:
    """Yield the lines of a message. Each line but the first can have its own, better time."""
    first, *rest = line.text.split("\n")
    yield line if not rest else replace(line, text=first)
    yield from (replace(line, text=text, at_of_store=True) for text in rest)


def versions(body: bytes) -> Iterator[tuple[Line, ...]]:
    """Yield up to four versions of the unwrapped lines of a body, for the caller to try in order.

    - the lines with all wrappers removed
    - the lines with only the outer wrapper removed, because its content may be a document in the form of a wrapper
    - both again, after JSON documents that are spread over several lines were joined

    A version is left out if one of the lines of the body has no wrapper. A body of more than 16 MiB yields nothing.
    """
    if len(body) > MAX_JSON_BYTES:
        return
    events = events_of(body)
    items: Sequence[Item] | None
    if events is None:
        items = list(document_lines(body) or text_of(body).split("\n"))
    else:
        items = [replace(one, text=text) for one in events for text in one.text.split("\n")]
    yield from _all_wrapped(items, MAX_DEPTH)
    yield from _all_wrapped(items, 1)
    if events is not None or may_be_spread(body):
        joined = list(joined_documents(items))
        yield from _all_wrapped(joined, MAX_DEPTH - 1)
        yield from _all_wrapped(joined, 1)


def inner_texts(body: bytes) -> Iterator[bytes]:
    """Yield the texts inside an envelope: events of a CloudWatch Logs record, lines of a log collector."""
    events = events_of(body)
    for lines in chain([events] if events else [], versions(body)):
        yield "\n".join(line.text for line in lines).encode("utf-8", "replace")


def _all_wrapped(items: Iterable[Item], depth: int) -> Iterator[tuple[Line, ...]]:
    lines = []
    for item in items:
        if (item if isinstance(item, str) else item.text).strip():
            # The line of a document is unwrapped once already.
            line = unwrapped(item, depth - (isinstance(item, Line) and not item.at_of_store))
            if line is None or (line is item and line.at_of_store):
                return
            lines.append(line)
    if lines:
        yield tuple(lines)
