"""Where a test or a simulation breaks a fake: before a call (nothing happened) or after it (it happened unseen)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Call:
    """One call to a fake: which port, which method, with what, and its name, `port.operation`."""

    port: str
    operation: str
    argument: Any = None
    name: str = field(init=False)

    def __post_init__(self) -> None:
        """Name it once: a history asks for the names of tens of thousands of calls."""
        self.name = f"{self.port}.{self.operation}"


Hook = Callable[[Call], None]


def _let_pass(call: Call) -> None:
    """Break nothing."""


@dataclass
class Seam:
    """Hooks around every call of the fakes that share it; a hook breaks a call by raising.

    What `before` raises is an outage, a throttle or a crash before the effect; what `after` raises is a lost
    acknowledgement or a crash after it. `calls` keeps every call, so one seam counts the points of a whole run.
    """

    before: Hook = _let_pass
    after: Hook = _let_pass
    calls: list[Call] = field(default_factory=list)

    def around(self, port: str, operation: str, argument: Any = None) -> AbstractContextManager[None]:
        """Run one call between the hooks."""
        return self._around(port, operation, argument)

    @contextmanager
    def _around(self, port: str, operation: str, argument: Any) -> Iterator[None]:
        call = Call(port, operation, argument)
        self.calls.append(call)
        self.before(call)
        yield
        self.after(call)

    def named(self, name: str) -> list[Call]:
        """Return the calls of one method, as `table.transact`."""
        return [call for call in self.calls if call.name == name]


def breaking(*faults: tuple[str, Exception]) -> Hook:
    """Make a hook that breaks the next call of each name once, in the order given."""
    waiting = list(faults)

    def hook(call: Call) -> None:
        for number, (name, error) in enumerate(waiting):
            if name == call.name:
                del waiting[number]
                raise error

    return hook
