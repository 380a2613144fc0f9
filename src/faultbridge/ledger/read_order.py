"""Read order: how a timeline reads entries, and what it yields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from faultbridge.storage.writes import Item

Found = Iterator[tuple[Item, str]]
"""Entry items in the order of a timeline, each with its position."""


@dataclass(frozen=True, slots=True)
class ReadOrder:
    """How entries are read: after a position, in requests of a size, the oldest or the newest first."""

    after: str | None = None
    page_size: int | None = None
    newest_first: bool = False
