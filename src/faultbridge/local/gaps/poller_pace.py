"""How soon, and beside what, an event source mapping delivers.

AWS: each mapping is polled by itself, whatever the functions of the others do, and a record is delivered within some
tens of milliseconds.
MiniStack: one thread polls all of them in turn and sleeps a second after a round without work.
Here: each mapping has a thread of its own, which looks every 100 ms.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from faultbridge.local.gaps import names as patch

LOOP = "ministack.services.lambda_svc:_poll_loop"
MAPPINGS = "ministack.services.lambda_svc:_iter_all_esms"
QUEUES = "ministack.services.lambda_svc:_poll_sqs"
STREAMS = "ministack.services.lambda_svc:_poll_dynamodb_streams"

_PACE_SECONDS = 0.1
_AFTER_ERROR_SECONDS = 1.0
_LOGGER = logging.getLogger("faultbridge.local")
_own = threading.local()

Mappings = Callable[[], Iterator[tuple[str, str, dict[str, Any]]]]


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (LOOP, MAPPINGS, QUEUES, STREAMS)


def is_open() -> bool:
    """Whether the emulator still polls everything in one thread that sleeps a second."""
    return "time.sleep(1 if" in inspect.getsource(patch.resolve(LOOP))


def apply() -> None:
    """Poll the mappings side by side."""
    every: Mappings = patch.resolve(MAPPINGS)
    patch.replace(MAPPINGS, lambda _every: lambda: _of_this_thread(every))
    patch.replace(LOOP, lambda _loop: lambda: _poll_side_by_side(every))


def _of_this_thread(every: Mappings) -> Iterator[tuple[str, str, dict[str, Any]]]:
    only = getattr(_own, "mapping", None)
    return (found for found in every() if only in {None, found[2]["UUID"]})


def _poll_side_by_side(every: Mappings) -> None:
    polled: set[str] = set()
    while True:
        for _account, _region, mapping in every():
            if mapping["UUID"] not in polled:
                polled.add(mapping["UUID"])
                poll = QUEUES if ":sqs:" in mapping["EventSourceArn"] else STREAMS
                threading.Thread(target=_poll, args=(mapping["UUID"], poll), daemon=True, name=f"poller {poll}").start()
        time.sleep(_PACE_SECONDS)


def _poll(mapping: str, name: str) -> None:
    _own.mapping = mapping
    poll: Callable[[], bool] = patch.resolve(name)
    while True:
        begun = time.monotonic()
        try:
            poll()
        except Exception:
            # The emulator's own loop survives anything too: a poller that ended would stop the whole stack.
            _LOGGER.exception("%s failed; trying again", name)
            time.sleep(_AFTER_ERROR_SECONDS)
        time.sleep(max(0.0, begun + _PACE_SECONDS - time.monotonic()))
