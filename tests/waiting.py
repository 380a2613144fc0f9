"""How long tests wait for other processes: many times what an idle host needs, so that a busy one fails no test."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

BUSY_FACTOR = 6
"""A test that passes never waits longer than it needs; only a failing test waits this many times the usual limit."""

STACK_TIMEOUT = 1800
"""The limit in seconds of one test on an embedded stack, with the fixtures that it is the first to request."""

SHORTEST_PAUSE, PAUSE_FACTOR, LONGEST_PAUSE = 0.05, 3, 1.0
"""The pause between two probes: some times as long as a probe takes, so that waiting leaves the processors to the work
that is waited for."""


def eventually(probe: Callable[[], T | None], seconds: float = 30.0, describe: Callable[[], object] = lambda: "") -> T:
    """Call `probe` until its result is truthy and return it; fail after `seconds` times the factor of a busy host.

    `seconds` is the limit on an idle host. `describe` returns a text for the failure message.
    """
    limit = seconds * BUSY_FACTOR
    asked = time.monotonic()
    deadline = asked + limit
    while not (found := probe()):
        answered = time.monotonic()
        assert answered < deadline, f"no result within {limit} s: {describe()}"
        time.sleep(min(max(SHORTEST_PAUSE, PAUSE_FACTOR * (answered - asked)), LONGEST_PAUSE))
        asked = time.monotonic()
    return found
