"""Races on purpose: somebody else is faster between what a service reads and what it writes for that."""

from __future__ import annotations

from collections.abc import Callable

from faultbridge.simulation.fakes import Call, Seam
from faultbridge.storage.writes import Key, Write


def writes_of(call: Call) -> tuple[Write, ...]:
    """What a call writes."""
    if call.name == "table.transact":
        return tuple(call.argument)
    return (call.argument,) if call.name == "table.write" else ()


def to(key: Key) -> Callable[[Write], bool]:
    """Choose the writes of one item."""
    return lambda write: write.key == key


def just_before(seam: Seam, which: Callable[[Write], bool], do: Callable[[], object]) -> None:
    """Let something happen right before the next write of a kind, once."""

    def hook(call: Call) -> None:
        if any(which(write) for write in writes_of(call)):
            seam.before = lambda _: None
            do()

    seam.before = hook


def just_after_reading(seam: Seam, key: Key, do: Callable[[], object]) -> None:
    """Let something happen when one item was read the next time, alone or among others, once."""

    def hook(call: Call) -> None:
        if call.argument == key or (call.name == "table.get_many" and key in call.argument):
            seam.after = lambda _: None
            do()

    seam.after = hook
