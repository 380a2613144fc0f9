"""Deliberate races: run code between a read of a service and the write that depends on it."""

from __future__ import annotations

from collections.abc import Callable

from faultbridge.model.storage.writes import Key, Write
from tests.sim.fakes import Call, Seam


def writes_of(call: Call) -> tuple[Write, ...]:
    """Return the writes of a call to the table; empty for other calls."""
    if call.name == "table.transact":
        return tuple(call.argument)
    return (call.argument,) if call.name == "table.write" else ()


def writes_to(key: Key) -> Callable[[Write], bool]:
    """Return a predicate that selects the writes of one item."""
    return lambda write: write.key == key


def run_before_write(seam: Seam, selects: Callable[[Write], bool], action: Callable[[], object]) -> None:
    """Run an action once, right before the next selected write."""

    def hook(call: Call) -> None:
        if any(selects(write) for write in writes_of(call)):
            seam.before = lambda _: None
            action()

    seam.before = hook


def run_after_read(seam: Seam, key: Key, action: Callable[[], object]) -> None:
    """Run an action once, right after the next read of an item."""

    def hook(call: Call) -> None:
        if call.argument == key or (call.name == "table.get_many" and key in call.argument):
            seam.after = lambda _: None
            action()

    seam.after = hook


def run_before_read(seam: Seam, key: Key, action: Callable[[], object]) -> None:
    """Run an action once, right before the next read of an item alone."""

    def hook(call: Call) -> None:
        if (call.name, call.argument) == ("table.get", key):
            seam.before = lambda _: None
            action()

    seam.before = hook


def run_before_call(seam: Seam, name: str, action: Callable[[], object]) -> None:
    """Run an action once, right before the next call with a name such as `provider.replace`."""

    def hook(call: Call) -> None:
        if call.name == name:
            seam.before = lambda _: None
            action()

    seam.before = hook
