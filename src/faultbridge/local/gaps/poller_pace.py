"""How soon, and beside what, an event source mapping delivers.

AWS: queues and streams are polled side by side, and a record is delivered within some tens of milliseconds.
MiniStack: one thread polls all of them in turn and sleeps a second after a round without work.
Here: queues and streams have a thread each, which looks every 100 ms. Within one kind it stays in turn.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from faultbridge.local.gaps import names as patch

LOOP = "ministack.services.lambda_svc:_poll_loop"
QUEUES = "ministack.services.lambda_svc:_poll_sqs"
STREAMS = "ministack.services.lambda_svc:_poll_dynamodb_streams"

_IDLE_SECONDS = 0.1
_AFTER_ERROR_SECONDS = 1.0
_LOGGER = logging.getLogger("faultbridge.local")


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (LOOP, QUEUES, STREAMS)


def is_open() -> bool:
    """Whether the emulator still polls everything in one thread that sleeps a second."""
    return "time.sleep(1 if" in inspect.getsource(patch.resolve(LOOP))


def apply() -> None:
    """Poll queues and streams side by side."""
    patch.replace(LOOP, _side_by_side)


def _side_by_side(_loop: Callable[[], None]) -> Callable[[], None]:
    def poll_loop() -> None:
        streams = threading.Thread(target=_poll_for_ever, args=(STREAMS,), daemon=True, name="stream-poller")
        streams.start()
        _poll_for_ever(QUEUES)

    return poll_loop


def _poll_for_ever(name: str) -> None:
    poll: Any = patch.resolve(name)
    while True:
        try:
            busy = poll()
        except Exception:
            # The emulator's own loop survives anything too: a poller that ended would stop the whole stack.
            _LOGGER.exception("%s failed; trying again", name)
            time.sleep(_AFTER_ERROR_SECONDS)
            continue
        if not busy:
            time.sleep(_IDLE_SECONDS)
