"""Fault injection into fakes: hooks that run before and after each call and may raise an error."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct


class Call(Struct):
    """One call to a fake: port, operation and argument."""

    port: str
    operation: str
    argument: Any = None

    @property
    def name(self) -> str:
        """The port and the operation of the call in the form `port.operation`."""
        return f"{self.port}.{self.operation}"


Hook = Callable[[Call], None]


def _do_nothing(call: Call) -> None:
    """Inject no fault; this is the default hook."""


@dataclass
class Seam:
    """Runs a hook before each call of a fake, and a hook after each call without an error.

    A hook injects a fault by raising an error. An error from `before` means that the call had no effect (outage,
    throttling, crash before the call). An error from `after` means that the call took effect, but the caller got no
    answer. `calls` lists every call in order. Several fakes can share one `Seam`.
    """

    before: Hook = _do_nothing
    after: Hook = _do_nothing
    calls: list[Call] = field(default_factory=list)

    def around(self, port: str, operation: str, argument: Any = None) -> AbstractContextManager[None]:
        """Return a context manager that runs the hooks before and after one call."""
        return _Around(self, Call(port, operation, argument))

    def named(self, name: str) -> list[Call]:
        """Return the recorded calls with this name, such as `table.transact`, in the order of the calls."""
        return [call for call in self.calls if call.name == name]


@dataclass(slots=True)
class _Around:
    """One call of a fake; as a generator, it took a twentieth of a scenario's time."""

    seam: Seam
    call: Call

    def __enter__(self) -> None:
        self.seam.calls.append(self.call)
        self.seam.before(self.call)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.seam.after(self.call)


def raise_once(*faults: tuple[str, Exception]) -> Hook:
    """Return a hook that raises each of the given errors once.

    Each fault is a pair of a call name (`port.operation`) and an error. The next call with this name raises the error.
    """
    pending = list(faults)

    def hook(call: Call) -> None:
        for number, (name, error) in enumerate(pending):
            if name == call.name:
                del pending[number]
                raise error

    return hook
