"""An invariant: its sentence and its check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from faultbridge.simulation.view import View


@dataclass(frozen=True, slots=True)
class Invariant:
    """One sentence about every history; `broken` yields what contradicts it."""

    name: str
    broken: Callable[[View], Iterator[str]]
