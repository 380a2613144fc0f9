"""Failures: collects the errors of one run, so that a failed part does not stop the others."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from types import TracebackType

from faultbridge.log import log_cause


@dataclass(slots=True)
class Failures:
    """The failures of one run, one line each; the caller must report or raise them."""

    lines: list[str] = field(default_factory=list)
    first_error: Exception | None = None

    def collect(self, part: str) -> _Part:
        """Run a part; an exception is logged and recorded with the name of the part, and not raised."""
        return _Part(self, part)

    def add(self, part: str, error: Exception) -> None:
        """Log an exception, and record it with the name of the part."""
        reason = f"{type(error).__name__}: {error}"
        log_cause("part_failed", reason=reason, level=logging.WARNING, part=part)
        self.lines.append(f"{part}: {reason}")
        self.first_error = self.first_error or error


@dataclass(frozen=True, slots=True)
class _Part:
    """A part that runs; a bug in one part must not stop the others, and all are reported."""

    failures: Failures
    name: str

    def __enter__(self) -> None:
        """Do nothing: the part runs in the body of the context."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        """Record an exception; others, such as the end of the process, are raised."""
        if not isinstance(error, Exception):
            return False
        self.failures.add(self.name, error)
        return True
