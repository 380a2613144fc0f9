"""JSON inputs: one document, or one a line, behind log prefixes; bounded, and never anything but JSON or `Rejected`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from faultbridge.errors import Rejected

MAX_JSON_BYTES = 16 * 1024 * 1024
MAX_DOCUMENTS = 100
# Half of a surrogate pair is legal JSON, but no text: nothing downstream could encode it.
_HALF_PAIR = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_DECODER = json.JSONDecoder()


def text_of(body: bytes) -> str:
    """Return a body as text; bytes that are no UTF-8 become replacement characters."""
    return body.decode("utf-8", "replace").removeprefix("\ufeff")


def loads(text: str) -> Any:  # noqa: ANN401 - whatever the JSON holds
    """Parse JSON whose strings can be encoded again; raises ValueError or RecursionError on anything else."""
    return json.loads(_encodable(text))


def documents(body: bytes) -> tuple[Any, ...]:
    """Return the few JSON documents of a body, one after another; anything between or after them is `Rejected`."""
    if len(body) > MAX_JSON_BYTES:
        raise Rejected("too_large", f"{len(body)} bytes of JSON, at most {MAX_JSON_BYTES} are read")
    text, place, found = _encodable(text_of(body)).strip(), 0, []
    try:
        while place < len(text):
            if text[place].isspace():
                place += 1
                continue
            one, place = _DECODER.raw_decode(text, place)
            found.append(one)
            if len(found) > MAX_DOCUMENTS:
                raise Rejected("too_large", f"more than {MAX_DOCUMENTS} JSON documents in one input")
    except (ValueError, RecursionError) as error:
        raise Rejected("malformed_json", _why(error)) from error
    return tuple(found)


def embedded(text: str) -> dict[str, Any] | None:
    """Return the JSON object that begins at the first brace of a text, or None where there is none."""
    start = text.find("{")
    if start < 0:
        return None
    try:
        found, _ = _DECODER.raw_decode(_encodable(text), start)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def objects(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each JSON object of a text with what stands before it on its line: one document, or one object a line."""
    whole = _whole(text)
    if whole is not None:
        yield from (("", item) for item in whole if isinstance(item, dict))
        return
    for line in text.splitlines():
        found = embedded(line)
        if found is not None:
            yield line[: line.index("{")].strip(), found


def _encodable(text: str) -> str:
    return _HALF_PAIR.sub("\\\\ufffd", text) if "\\ud" in text or "\\uD" in text else text


def _whole(text: str) -> list[Any] | None:
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        parsed = loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, list) else [parsed]


def _why(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0][:200]
