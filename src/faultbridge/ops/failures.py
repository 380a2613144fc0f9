"""Failures: collects the errors of one run, so that a failed part does not stop the others."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from faultbridge.log import log_cause


@dataclass(slots=True)
class Failures:
    """The failures of one run, one line each; the caller must report or raise them."""

    lines: list[str] = field(default_factory=list)
    first_error: Exception | None = None

    def collect(self, part: str) -> _Part:
        """Run one part as a `with` block; an exception is logged and recorded with the part's name, and not raised."""
        return _Part(self, part)

    def add(self, part: str, error: Exception) -> None:
        """Log and record the failure of one part."""
        reason = f"{type(error).__name__}: {error}"
        log_cause("part_failed", reason=reason, level=logging.WARNING, part=part)
        self.lines.append(f"{part}: {reason}")
        self.first_error = self.first_error or error


class _Part:
    """One part of a run; a bug in it must not stop the others."""

    __slots__ = ("_failures", "_name")

    def __init__(self, failures: Failures, name: str) -> None:
        self._failures = failures
        self._name = name

    def __enter__(self) -> None:
        """Start the part."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        """Record an exception instead of raising it; the end of the process is raised."""
        if not isinstance(error, Exception):
            return False
        self._failures.add(self._name, error)
        return True
