"""Log each decision as one structured line, with its reason and ids as fields.

The module uses only the standard library. In Lambda, `adapters.telemetry` sends these lines through the Powertools
formatter as JSON. docs/runbooks/logs.md explains how to search them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

LOGGER = logging.getLogger("faultbridge")
LOGGER.addHandler(logging.NullHandler())  # a process without logging configuration, such as the CLI, prints nothing


def log_cause(decision: str, *, reason: str, level: int = logging.INFO, **ids: object) -> None:
    """Log one decision with its reason, and with ids such as those of the cluster and the node.

    Use `logging.WARNING` for refused input, and for work that is refused or is tried again later. Use the default level
    for ordinary decisions. Never pass record bodies or secrets. An id that is None is left out.
    """
    if LOGGER.isEnabledFor(level):
        known = {name: value for name, value in ids.items() if value is not None}
        LOGGER.log(level, decision, extra={"reason": reason, **known})


@contextmanager
def logged_from(level: int, handler: logging.Handler | None = None) -> Iterator[None]:
    """Set Faultbridge's log level for the duration of a `with` block.

    If `handler` is given, it receives the log lines of the block too.
    """
    before = LOGGER.level
    LOGGER.setLevel(level)
    if handler is not None:
        LOGGER.addHandler(handler)
    try:
        yield
    finally:
        LOGGER.setLevel(before)
        if handler is not None:
            LOGGER.removeHandler(handler)


@dataclass(slots=True)
class Failures:
    """The errors of one run: a line of text for each, and the first exception; the caller reports them."""

    lines: list[str] = field(default_factory=list)
    first_error: Exception | None = None

    def collect(self, part: str) -> _Part:
        """Run one part of the work in a `with` block, and continue after the block if the part fails.

        An `Exception` in the block is logged and added to `lines` with the name of the part. It is not raised.
        """
        return _Part(self, part)


@dataclass(slots=True)
class _Part:
    """The `with` block of one part; a sweep runs a hundred of them, so it is no generator."""

    failures: Failures
    name: str

    def __enter__(self) -> None:
        """Do nothing; the part runs in the block."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool | None:
        if not isinstance(error, Exception):
            return None
        reason = f"{type(error).__name__}: {error}"
        log_cause("part_failed", reason=reason, level=logging.WARNING, part=self.name)
        self.failures.lines.append(f"{self.name}: {reason}")
        self.failures.first_error = self.failures.first_error or error
        return True
