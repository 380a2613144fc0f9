"""Waiting for what an emulator does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T | None], seconds: float = 30.0) -> T:
    """The first thing seen that is true; an assertion error when nothing came in time."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, f"nothing within {seconds} s"
        time.sleep(0.05)
    return seen
