"""Stream seal: a stream's last entry in a sealed day of the archive, and which entries may expire.

A sealed day has an unchangeable manifest, which lists the entries of the day.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.nodes import Head
from faultbridge.errors import Rejected
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Item

Position = tuple[int, int]
"""Epoch and sequence of an entry."""


_ENTRY_SORT_KEY = re.compile(rf"{keys.ENTRY}(\d{{4}})#(\d{{12}})")
_UNSEALED = Head(epoch=0)


@dataclass(frozen=True, slots=True)
class StreamSeal:
    """The last sealed entry of a stream, `head`, and the last position that may expire, `expires_to`.

    When a day is sealed, `head` moves to the last entry of the day. If entries expire, `expires_to` is stored before
    the entries of the day get their expiry times, and `head` after that. In between, `expires_to` is ahead of `head`.
    """

    head: Head = _UNSEALED
    expires_to: Position = (0, 0)

    @property
    def position(self) -> Position:
        """Return the epoch and sequence of the last sealed entry."""
        return self.head.epoch, self.head.sequence

    @property
    def missing_to(self) -> Position:
        """Return the position (epoch and sequence) up to which entries may have expired and be missing.

        These entries are sealed and may have an expiry time.
        """
        return min(self.position, self.expires_to)


def entry_position(sort_key: str) -> Position | None:
    """Return the epoch and sequence in the sort key of an entry; None if the key is not that of an entry."""
    found = _ENTRY_SORT_KEY.fullmatch(sort_key)
    return None if found is None else (int(found[1]), int(found[2]))


def place_text(position: Position) -> str:
    """Return a position (epoch and sequence) as text; texts sort in the order of their positions."""
    return f"{position[0]:04d}#{position[1]:012d}"


def seal_item(partition: str, seal: StreamSeal, day: str, now: datetime) -> Item:
    """Return the table item of a stream's seal; `day` is the last sealed day."""
    attributes = {
        "epoch": seal.head.epoch,
        "seq": seal.head.sequence,
        "hash": seal.head.hash,
        "place": place_text(seal.position),
        "segment": day,
        "expires_to": place_text(seal.expires_to),
    }
    return items.item(keys.stream_anchor(partition), now, attributes)


def read_seal(found: Mapping[str, Any] | None) -> StreamSeal:
    """Return the seal in a table item. Without an item, no entry is sealed, and the position is (0, 0).

    A damaged item raises Rejected `bad_seal`.
    """
    if found is None:
        return StreamSeal()
    try:
        epoch, sequence = found["expires_to"].split("#")
        head = Head(epoch=found["epoch"], sequence=found["seq"], hash=found["hash"])
        seal = StreamSeal(head, (int(epoch), int(sequence)))
        consistent = found["place"] == place_text(seal.position)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Rejected("bad_seal", f"the seal of {found.get('pk')} cannot be read: {error}") from None
    if not consistent:
        place = f"{found['place']} is not {seal.head.epoch}/{seal.head.sequence}"
        raise Rejected("bad_seal", f"the seal of {found.get('pk')} contradicts itself: {place}")
    return seal
