"""Limits on any input of 64 KB: 100 ms of CPU time and 20 times its size in memory."""

from __future__ import annotations

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
TRIES = 3
INPUTS = sized(SIZE)


def decoded(source: str, body: bytes) -> object:
    try:
        return registry.decode(source, body)
    except Rejected as rejected:
        return rejected


def quick(costly: Callable[[], object]) -> bool:
    """Return whether a function finishes in time in at least one of several tries."""
    for _ in range(TRIES):
        start = time.process_time()
        costly()
        if time.process_time() - start <= MAX_SECONDS:
            return True
    return False


def peak(source: str, body: bytes) -> int:
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
    costs = {source: peak(source, body) / len(body) for source in registry.names()}
    assert {source: cost for source, cost in costs.items() if cost > MAX_MEMORY} == {}
