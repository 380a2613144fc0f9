"""Failures: what went wrong in one part of a run, kept so that the other parts get their turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Failures:
    """Collects failures, one line each; whoever collects must report or raise them."""

    all: list[str] = field(default_factory=list)
    first: Exception | None = None

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        """Run a part; what it raises is kept with the part's name."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - a bug in one part must not stop the others; all are reported
            self.all.append(f"{what}: {type(error).__name__}: {error}")
            self.first = self.first or error
