"""Failures: collects the errors of one run, so that a failed part does not stop the others."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from faultbridge.dataclass import dataclass
from faultbridge.log import log_cause


@dataclass(slots=True)
class Failures:
    """The errors of one run: a line of text for each, and the first exception; the caller reports them."""

    lines: list[str] = field(default_factory=list)
    first_error: Exception | None = None

    @contextmanager
    def collect(self, part: str) -> Iterator[None]:
        """Run one part of the work in a `with` block, and continue after the block if the part fails.

        An `Exception` in the block is logged and added to `lines` with the name of the part. It is not raised.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - a bug in one part must not stop the others; all are reported
            reason = f"{type(error).__name__}: {error}"
            log_cause("part_failed", reason=reason, level=logging.WARNING, part=part)
            self.lines.append(f"{part}: {reason}")
            self.first_error = self.first_error or error
