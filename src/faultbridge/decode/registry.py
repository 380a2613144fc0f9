"""Finds decoders by source name, imports each on first use, and runs them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, partial
from importlib import import_module
from itertools import chain, tee
from typing import Any

from faultbridge.decode import records
from faultbridge.decode.data import FOLDER, packaged_json, packaged_sources
from faultbridge.decode.frames.body import TextCleaner, joined, unpacked_pieces
from faultbridge.decode.frames.chain import inner_texts
from faultbridge.decode.frames.decoder import NO_HINTS, Decoded, Decoder, Hints
from faultbridge.decode.frames.documents import embedded, text_of
from faultbridge.decode.frames.stores import is_table
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import Observation
from faultbridge.model.values import replace

_LOG = "kernel-log"
MAX_BYTES = 64 * 1024 * 1024
_HEAD = 64 * 1024
_START = 4096
_JSON = re.compile(rb"\s{0,64}(?:\{|\[\s{0,64}\{)")


@cache
def names() -> tuple[str, ...]:
    """Return the names of all sources: those that a module reads, and each file of `data/log_sources`."""
    return (*packaged_sources(), *sorted(file.stem for file in (FOLDER / "log_sources").glob("*.json")))


@cache
def get(name: str) -> Decoder:
    """Return the decoder of a source. Raises `Rejected` for an unknown name."""
    if name not in names():
        raise Rejected("unknown_source", f"unknown source: {name!r}; allowed are {', '.join(names())}")
    row = packaged_sources().get(name)
    if row is None:
        from faultbridge.decode.line_source import decoder_of

        return decoder_of(name, packaged_json(f"log_sources/{name}.json"))
    module = import_module(f"faultbridge.decode.{row['module']}")
    # A module that reads several sources gets the name of the source as its first argument.
    found: dict[str, Any] = {
        one: partial(getattr(module, one), name) if "shared" in row else getattr(module, one)
        for one in ("recognize", "decode", "decode_lines", "decode_pieces", "decode_plain")
        if hasattr(module, one)
    }
    if "marks" in row:
        marks = [[mark.encode() for mark in group] for group in row["marks"]]
        found["recognize"] = lambda body: any(
            all(mark[1:] not in body if mark[:1] == b"!" else mark in body for mark in group) for group in marks
        )
    return Decoder(name, row["summary"], row["example"], can_be_silent="silent" in row, **found)


def decode(source: str, body: bytes, hints: Hints = NO_HINTS) -> tuple[Observation, ...]:
    """Return the observations in one record."""
    return read(source, body, hints).observations


def read(source: str, body: bytes, hints: Hints = NO_HINTS) -> Decoded:
    """Return the observations in one record, and how much of the record was not understood."""
    decoder = get(source)
    if decoder.decode_plain is not None and (plain := decoder.decode_plain(body, hints)) is not None:
        return _with_instance_type(plain, hints)
    cleaner = TextCleaner()
    _reject_unreadable(body)
    decoded = records.read(decoder, cleaner.clean(body), hints)
    return cleaner.noted(_with_instance_type(decoded, hints))


def read_pieces(source: str, pieces: Iterable[bytes], hints: Hints = NO_HINTS) -> Decoded:
    """Decode a body that arrives in pieces.

    A log is decoded piece by piece, so it need not fit into memory. A table, a JSON document, or a body of a source
    without `decode_pieces` is joined and decoded as a whole.
    """
    decoder, cleaner = get(source), TextCleaner()
    pieces = unpacked_pieces(pieces)
    head = next(pieces, b"")
    if decoder.decode_pieces is None or _is_document(head):
        return read(source, joined(chain([head], pieces), MAX_BYTES), hints)
    _reject_unreadable(head)
    decoded = decoder.decode_pieces(cleaner.pieces(chain([head], pieces)), hints)
    return cleaner.noted(_with_instance_type(decoded, hints))


def _is_document(head: bytes) -> bool:
    """Return whether a body must be read as a whole, because it is a table or a JSON document."""
    start = head[:_START]
    if b"@message" in start and is_table(text_of(start)):
        return True
    if _JSON.match(start) is None or b'"awslogs"' in start or b'"logEvents"' in start:
        return _JSON.match(start) is not None
    first, _, rest = head.lstrip().partition(b"\n")
    return not rest or embedded(text_of(first)) is None


def _with_instance_type(decoded: Decoded, hints: Hints) -> Decoded:
    if hints.instance_type is None:
        return decoded
    from faultbridge.decode.frames.instance_type import add_instance_type_checks

    return replace(decoded, observations=add_instance_type_checks(decoded.observations, hints.instance_type))


def recognize(body: bytes) -> str:
    """Return the name of the source whose format a body has."""
    _reject_unreadable(body)
    text = TextCleaner().clean(body)
    inner, again = tee(inner_texts(text))
    candidates = _candidates(text, inner)
    if not candidates:
        # The part of the first text that has a kernel line, starting at this line.
        parts = (records.from_first_line(one, _HEAD) for one in chain([text], again))
        candidates = next((_recognizing(part) for part in parts if part), [])
    if not candidates:
        sources = [name for name in names() if get(name).of_any]
        texts = chain([text], inner_texts(text))
        candidates = [name for one in texts for name in sources if get(name).recognize(one[:_HEAD])][:1]
    if not candidates:
        raise Rejected("unknown_format", "the input matches no source format; name the source of this input")
    if len(candidates) > 1:
        raise Rejected(
            "ambiguous_format", f"the input matches {' or '.join(candidates)}; name one of them as its source"
        )
    return candidates[0]


def _candidates(body: bytes, inner: Iterable[bytes]) -> list[str]:
    """Return the sources whose format fits a body, which wraps the texts `inner`.

    - A Kubernetes node is of the source `kubernetes-node`, even if the message of a condition fits another source.
    - If the body wraps text of a source other than the kernel log, for example in a CloudWatch Logs record, the result
      is the sources of this text.
    - Otherwise the sources of the body itself are returned, without the kernel log if a JSON body has several sources.
      If the body itself has no source, the sources of the wrapped text are returned.
    """
    from faultbridge.decode.kubernetes.node_objects import is_node

    head = body[:_HEAD]
    found = _recognizing(head)
    # The message of one condition can have the format of another source; the node has its other conditions too.
    if "kubernetes-node" in found and is_node(head):
        return ["kubernetes-node"]
    wrapped = next(filter(None, (_recognizing(text[:_HEAD]) for text in inner)), [])
    # A message in a document of another source can look like a line of a kernel log.
    documents = [name for name in wrapped if name != _LOG]
    if documents or not found:
        return documents or wrapped
    is_document = len(found) > 1 and _JSON.match(head) is not None
    return [name for name in found if name != _LOG] if is_document else found


def _recognizing(head: bytes) -> list[str]:
    return [name for name in names() if not get(name).of_any and get(name).recognize(head)]


def needs_whole(head: bytes) -> bool:
    """Return whether a body must be read as a whole, because it starts as a CloudWatch Logs record."""
    return _JSON.match(head) is not None and (b'"awslogs"' in head[:_START] or b'"logEvents"' in head)


def _reject_unreadable(body: bytes) -> None:
    if not body[:_START].strip() and not body.strip():
        raise Rejected("empty", "the input is empty")
    if len(body) > MAX_BYTES:
        raise Rejected("too_large", f"{len(body)} bytes; at most {MAX_BYTES} are read")
