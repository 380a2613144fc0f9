"""Limits on any input of 64 KB: 100 ms of CPU time and 20 times its size in memory.

A crowded processor does less in a second of CPU time. Each try therefore times a fixed piece of work first and extends
the limit by as much as that work was slower than on the idle cores on which the limit was set.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable

import pytest

from faultbridge.decoders import registry
from faultbridge.errors import Rejected
from tests.decoders.nonsense import sized

SIZE = 64 * 1024
MAX_SECONDS = 0.1
MAX_MEMORY = 20
TRIES = 5
REFERENCE_LOOPS = 20_000
REFERENCE_SECONDS = 0.0034  # CPU time of the loops above on those cores
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


def slowdown() -> float:
    """Return how many times slower the processor is now than an idle one; at least 1."""
    return max(1.0, seconds(lambda: [str(number) for number in range(REFERENCE_LOOPS)]) / REFERENCE_SECONDS)


def quick(costly: Callable[[], object]) -> bool:
    """Return whether a function finishes in time in at least one of several tries."""
    return any(in_time(seconds(costly)) for _ in range(TRIES))


def in_time(spent: float) -> bool:
    return spent <= MAX_SECONDS or spent <= MAX_SECONDS * slowdown()


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
    assert slow == [], f"more than {MAX_SECONDS * 1000:.0f} ms of one processor, {TRIES} times"


@pytest.mark.parametrize("name", INPUTS)
def test_no_input_exceeds_the_memory_limit(name: str) -> None:
    body = INPUTS[name]
    for source in registry.names():
        decoded(source, body[:2048])
    costs = {source: cost(source, body) for source in registry.names()}
    assert {source: cost for source, cost in costs.items() if cost > MAX_MEMORY} == {}
