"""Limits on any input of 64 KB: twice the CPU time of an ordinary log and 20 times its size in memory.

The ordinary log is one of the same size in which each line is a fault. It is decoded again beside an input that takes
longer, so that a slow or crowded processor affects both. `tests/bench/decoders.py` measures the milliseconds.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from functools import cache

import pytest

from faultbridge.decode import registry
from faultbridge.model.errors import Rejected
from tests.decoders.nonsense import sized

pytestmark = pytest.mark.nightly

SIZE = 64 * 1024
MAX_MULTIPLE = 2
MAX_MEMORY = 20
TRIES = 5
INPUTS = sized(SIZE)


def decoded(source: str, body: bytes) -> object:
    try:
        return registry.decode(source, body)
    except Rejected as rejected:
        return rejected


def seconds(costly: Callable[[], object]) -> float:
    """Return the CPU time of a call."""
    start = time.process_time()
    costly()
    return time.process_time() - start


def ordinary_seconds() -> float:
    """Return the CPU time of decoding an ordinary log."""
    return seconds(lambda: decoded("kernel-log", INPUTS["line-carrier"]))


@cache
def usual_seconds() -> float:
    """Return the CPU time of an ordinary log at a quiet moment; an input below it needs no comparison."""
    return min(ordinary_seconds() for _ in range(TRIES))


def quick(costly: Callable[[], object]) -> bool:
    """Return whether a function takes at most the multiple of an ordinary log in at least one of several tries."""
    return seconds(costly) <= usual_seconds() or any(
        seconds(costly) <= MAX_MULTIPLE * ordinary_seconds() for _ in range(TRIES)
    )


def cost(source: str, body: bytes) -> float:
    """Return the peak memory per byte of input; a try over the limit may have filled a cache and is repeated."""
    first = traced(source, body) / len(body)
    if first <= MAX_MEMORY:
        return first
    gc.collect()
    return min(traced(source, body) / len(body) for _ in range(TRIES))


def traced(source: str, body: bytes) -> int:
    tracemalloc.start()
    decoded(source, body)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("name", INPUTS)
def test_no_input_exceeds_the_time_limit(name: str) -> None:
    body = INPUTS[name]
    slow = [source for source in registry.names() if not quick(lambda source=source: decoded(source, body))]
    slow += [
        f"recognizing {one}" for one in registry.names() if not quick(lambda one=one: registry.get(one).recognize(body))
    ]
    assert slow == [], f"more than {MAX_MULTIPLE} times the CPU time of an ordinary log, {TRIES} times"


@pytest.mark.parametrize("name", INPUTS)
def test_no_input_exceeds_the_memory_limit(name: str) -> None:
    body = INPUTS[name]
    for source in registry.names():
        decoded(source, body[:2048])
    costs = {source: cost(source, body) for source in registry.names()}
    assert {source: cost for source, cost in costs.items() if cost > MAX_MEMORY} == {}
