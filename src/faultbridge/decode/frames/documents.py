"""Parses JSON input within limits: whole documents, or one object per line after a log prefix."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from faultbridge.model.errors import Rejected

MAX_JSON_BYTES = 16 * 1024 * 1024
MAX_DOCUMENTS = 100
# A lone surrogate is legal JSON, but it cannot be encoded as UTF-8 later.
_LONE_SURROGATE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_DECODER = json.JSONDecoder()


def text_of(body: bytes) -> str:
    """Return a body as text without a byte order mark. Invalid UTF-8 becomes replacement characters."""
    return body.decode("utf-8", "replace").removeprefix("\ufeff")


def loads(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Parse JSON. Lone surrogates in strings, which cannot be encoded as UTF-8, are replaced.

    Raises ValueError for text that is not JSON, and RecursionError for JSON that is nested too deeply.
    """
    return json.loads(_encodable(text))


def documents(body: bytes) -> tuple[Any, ...]:
    """Return the JSON documents of a body in order."""
    if len(body) > MAX_JSON_BYTES:
        raise Rejected("too_large", f"{len(body)} bytes of JSON; at most {MAX_JSON_BYTES} are read")
    found = []
    try:
        for document in each_document(text_of(body)):
            found.append(document)
            if len(found) > MAX_DOCUMENTS:
                raise Rejected(
                    "too_large", f"more than {MAX_DOCUMENTS} JSON documents in one input; send fewer at a time"
                )
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0][:200]
        raise Rejected("malformed_json", reason) from error
    return tuple(found)


def each_document(text: str) -> Iterator[Any]:
    """Yield the JSON documents of a text. Raises ValueError or RecursionError at text that is not JSON."""
    return (document for document, _ in _documents(_encodable(text).strip()))


def leading_documents(text: str) -> Iterator[tuple[Any, int]]:
    """Yield the JSON documents at the start of a text, each with the index of the character after it.

    Stops at the first text that is not a complete JSON document.
    """
    with suppress(ValueError, RecursionError):
        yield from _documents(_encodable(text))


def _documents(text: str) -> Iterator[tuple[Any, int]]:
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        document, position = _DECODER.raw_decode(text, position)
        yield document, position


def embedded(text: str) -> dict[str, Any] | None:
    """Return the JSON object that starts at the first brace of a text, or None if no object starts there."""
    start = text.find("{")
    if start < 0:
        return None
    try:
        found, _ = _DECODER.raw_decode(_encodable(text), start)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def objects(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each JSON object of a text, together with the text before it on its line.

    The text is one JSON document, or lines with objects. A document is an object, or a list of objects; the text before
    such an object is empty. Of a line, at most 100 objects are read, up to the first brace that starts none.
    """
    whole = _single_document(text)
    if whole is not None:
        yield from (("", item) for item in whole if isinstance(item, dict))
        return
    for line in _encodable(text).splitlines() if "{" in text else ():
        position, left = 0, MAX_DOCUMENTS
        while left and (start := line.find("{", position)) >= 0:
            try:
                found, end = _DECODER.raw_decode(line, start)
            except (ValueError, RecursionError):
                break
            yield line[position:start].strip(), found
            position, left = end, left - 1


def blocks(heading: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each heading of a text, with the text up to the next heading."""
    last: re.Match[str] | None = None
    for found in heading.finditer(text):
        if last is not None:
            yield last, text[last.end() : found.start()]
        last = found
    if last is not None:
        yield last, text[last.end() :]


def _encodable(text: str) -> str:
    return _LONE_SURROGATE.sub("\\\\ufffd", text) if "\\ud" in text or "\\uD" in text else text


def _single_document(text: str) -> list[Any] | None:
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        parsed = loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, list) else [parsed]
