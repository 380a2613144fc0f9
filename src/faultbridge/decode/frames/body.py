"""Frames of a whole body: gzip, UTF-16, a packed CloudWatch Logs record, quotes of a mail, and NUL bytes.

A CloudWatch Logs record is packed as JSON with base64 of gzip. Ingest unpacks a body before it masks secrets. Ingest
would not mask the text of a body that is packed twice, so such a body is rejected.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain

from faultbridge.decode.frames.container import joined_parts
from faultbridge.decode.frames.decoder import Decoded
from faultbridge.decode.frames.documents import MAX_JSON_BYTES, loads, text_of
from faultbridge.decode.frames.journal import text_fields
from faultbridge.decode.frames.values import lazy_pattern
from faultbridge.model.errors import Rejected
from faultbridge.model.values import replace

_GZIP = b"\x1f\x8b\x08"
_UTF_16 = frozenset({b"\xff\xfe", b"\xfe\xff"})
_PIECE = 1024 * 1024
_QUOTES = lazy_pattern(rb"^(?:> ?){1,16}", re.MULTILINE)
_QUOTED_BYTES = 16 * 1024
_DOCUMENTS, _MARKS_OF_FRAMES = (b"[{", b'{"'), (b"\0", b'"awslogs"', b"\n>", b'{"log"')
_MARKUP = (b"<?xml", b"<!DOCTYPE", b"<nvidia_smi_log")
_NULS = re.compile(rb"\0+")
_TEXT_BYTES = bytes(set(range(0x20, 0x100)) | {0x09, 0x0A, 0x0D, 0x1B})
_SAMPLE = 4096
_MAX_CONTROL_SHARE = 20


def unpacked(body: bytes, limit: int = MAX_JSON_BYTES) -> bytes:
    """Return the text of a body in gzip or UTF-16, and the JSON of a packed CloudWatch Logs record.

    Any other body is returned unchanged. Raises Rejected if a body cannot be unpacked, is packed twice, or unpacks to
    more than `limit` bytes.
    """
    if body[:3] == _GZIP or body[:2] in _UTF_16:
        body = joined(unpacked_pieces([body]), limit)
    if body[:64].lstrip()[:1] != b"{" or b'"awslogs"' not in body[:256]:
        return body
    try:
        envelope = loads(text_of(body))
    except (ValueError, RecursionError):
        return body
    return _record_of(envelope["awslogs"], limit) if isinstance(envelope, dict) and "awslogs" in envelope else body


def unpacked_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the text of a body in gzip or UTF-16 that arrives in pieces; any other body is yielded unchanged."""
    head, rest = _head_of(pieces)
    if head[:3] == _GZIP:
        head, rest = _head_of(_unzipped(rest))
        if head[:3] == _GZIP:
            raise Rejected("malformed_envelope", "the gzip data contains other gzip data; unpack it first")
    if head[:2] in _UTF_16:
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
        rest = (decoder.decode(piece).encode("utf-8", "replace") for piece in rest)
    return filter(None, rest)


def _head_of(pieces: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the first bytes of a body, enough to recognize how it is packed, and an iterator of all of its bytes."""
    pieces, head = iter(pieces), b""
    while len(head) < len(_GZIP) and (piece := next(pieces, None)) is not None:
        head += piece
    return head, chain([head], pieces)


def joined(pieces: Iterable[bytes], limit: int) -> bytes:
    """Return a body that arrived in pieces; raises `Rejected` if it has more than `limit` bytes."""
    parts, size = [], 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size > limit:
            raise Rejected("too_large", f"more than {limit} bytes; send smaller bodies")
    return b"".join(parts)


def _unzipped(pieces: Iterable[bytes]) -> Iterator[bytes]:
    inflate = zlib.decompressobj(wbits=31)
    try:
        for packed in pieces:
            rest = packed
            while rest:
                if inflate.eof:  # the next member of a file that was appended to
                    inflate = zlib.decompressobj(wbits=31)
                text = inflate.decompress(rest, _PIECE)
                rest = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
                if text:
                    yield text
    except zlib.error as error:
        raise Rejected("malformed_envelope", "the gzip data is damaged") from error
    if not inflate.eof:
        raise Rejected("truncated", "the gzip data ends early; send the complete file")


def _record_of(awslogs: object, limit: int) -> bytes:
    data = awslogs.get("data") if isinstance(awslogs, dict) else None
    if not isinstance(data, str):
        raise Rejected("wrong_shape", "awslogs.data is not a string; expected base64 of gzip of JSON")
    try:
        record = joined(_unzipped([base64.b64decode(data, validate=True)]), limit)
        document = loads(text_of(record))
    except Rejected as error:
        if error.reason == "too_large":
            raise Rejected("too_large", f"awslogs.data unpacks to more than {limit} bytes") from error
        raise Rejected("malformed_envelope", "awslogs.data is not base64 of gzip of JSON") from error
    except (binascii.Error, ValueError, RecursionError) as error:
        raise Rejected("malformed_envelope", "awslogs.data is not base64 of gzip of JSON") from error
    if isinstance(document, dict) and "awslogs" in document:
        raise Rejected("malformed_envelope", "awslogs.data contains another packed record")
    return record


def _unquoted(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a body without the marks (`> `) that a mail puts before each quoted line; the first bytes decide."""
    pieces = iter(pieces)
    head = next(pieces, b"")
    pieces = chain([head], pieces)
    if (head[:1] != b">" and b"\n>" not in head[:_QUOTED_BYTES]) or head.lstrip().startswith(_MARKUP):
        return pieces
    from faultbridge.decode.kernel.line_filter import whole_lines

    return (_QUOTES.sub(b"", piece) for piece in whole_lines(pieces))


def is_binary(body: bytes) -> bool:
    """Return True if a body has too many control characters to be text; NUL bytes do not count."""
    if body[:2] in _UTF_16 or body[:3] == _GZIP:
        return False
    sample = body[:_SAMPLE].replace(b"\0", b"") or body.replace(b"\0", b"")[:_SAMPLE]
    return len(sample.translate(None, _TEXT_BYTES)) * _MAX_CONTROL_SHARE >= len(sample)


class TextCleaner:
    """Prepares the text of a body: unpacks it, joins split lines, removes quote marks, binary fields and NUL bytes.

    A crash of the host leaves runs of NUL bytes in a log. Each run is replaced by a line end, and the bytes are
    counted.
    """

    def __init__(self) -> None:
        self._skipped = 0

    def clean(self, body: bytes) -> bytes:
        """Return the text of a body. Raises `Rejected` for a body with NUL bytes that is not text."""
        # Most records are one JSON document, which has no frame.
        is_framed = body[:2] not in _DOCUMENTS or any(mark in body for mark in _MARKS_OF_FRAMES)
        return b"".join(self.pieces([unpacked(body)])) if is_framed else body

    def pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield each piece of a body as text. Raises `Rejected` for a piece with NUL bytes that is not text."""
        return map(self._without_nuls, joined_parts(text_fields(_unquoted(unpacked_pieces(pieces)))))

    def _without_nuls(self, body: bytes) -> bytes:
        if b"\0" not in body:
            return body
        if is_binary(body):
            raise Rejected("binary", "the input is not text; decompress or convert it first")
        self._skipped += body.count(b"\0")
        return _NULS.sub(b"\n", body)

    def noted(self, decoded: Decoded) -> Decoded:
        """Return a result with a note about the number of NUL bytes that were skipped, if there were any."""
        if not self._skipped:
            return decoded
        return replace(decoded, notes=(*decoded.notes, f"{self._skipped} NUL bytes were skipped"))
