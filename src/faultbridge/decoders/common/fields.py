"""Reads untrusted values: JSON fields by type, texts and lists within limits, and PCI addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from faultbridge.domain.faults import ELLIPSIS, normalize_pci
from faultbridge.errors import Rejected

_Item = TypeVar("_Item")

EMPTY: Mapping[str, Any] = {}
MAX_TEXT = 4096
MAX_EVIDENCE = 4096
MAX_MESSAGE = 512
# No node has this many GPUs: a body that names more does not describe one node.
MAX_GPUS = 128
_PCI = re.compile(r"(?:PCI:)?(?:[0-9a-f]{1,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?", re.IGNORECASE)


def text(value: object, limit: int = MAX_TEXT) -> str | None:
    """Return a string without outer spaces, cut to `limit` characters, or None if nothing is left.

    A value that is not a string also gives None.
    """
    if not isinstance(value, str):
        return None
    return value.strip()[:limit] or None


def members(value: object) -> Mapping[str, Any]:
    """Return the members of a JSON object, or an empty mapping for a value of another type."""
    return value if isinstance(value, dict) else EMPTY


def elements(value: object) -> tuple[Any, ...]:
    """Return the elements of a JSON array, or an empty tuple for a value of another type."""
    return tuple(value) if isinstance(value, list) else ()


def objects_in(value: object) -> tuple[Mapping[str, Any], ...]:
    """Return those elements of a JSON array that are objects; empty for a value of another type."""
    return tuple(item for item in elements(value) if isinstance(item, dict))


def number(value: object) -> int | None:
    """Return an integer from 0 to 2^64 - 1, or None for any other value.

    A string of digits is read as an integer.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 <= value < 2**64 else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:  # noqa: PLR2004 - 64 bits
        return number(int(value))
    return None


def attributes_of(**values: str | None) -> dict[str, str]:
    """Return the values that are not None or empty as attributes of a fault, each cut to 512 characters."""
    return {name: value[:512] for name, value in values.items() if value}


def bounded(items: Iterable[_Item], limit: int = MAX_GPUS) -> list[_Item]:
    """Return the items as a list; raises Rejected for more than `limit` items.

    At most one item more than `limit` is read, so that too many items do not use up the memory.
    """
    found = list(islice(items, limit + 1))
    if len(found) > limit:
        raise Rejected("too_many_devices", f"more than {limit} devices of one node; send one node's devices at a time")
    return found


def truncate(message: str, limit: int = MAX_MESSAGE) -> str:
    """Return a text cut to at most `limit` bytes of UTF-8. A text that was cut ends with an ellipsis."""
    if len(message) * 4 <= limit or len(encoded := message.encode("utf-8", "replace")) <= limit:
        return message
    return encoded[: limit - 3].decode("utf-8", "ignore") + ELLIPSIS


def evidence(raw: str) -> str:
    """Return the raw text behind a fault, cut to the 4 KiB of evidence that an event can contain."""
    return truncate(raw, MAX_EVIDENCE)


def pci_of(address: str) -> str | None:
    """Return a PCI address in normalized form, or None if the text is not a PCI address."""
    return normalize_pci(address) if _PCI.fullmatch(address) else None
