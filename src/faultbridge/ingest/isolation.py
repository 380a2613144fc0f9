"""Isolation: an unexpected error of one record or node does not affect the others of its batch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from faultbridge.errors import FaultbridgeError, Transient
from faultbridge.log import log_cause

Item = TypeVar("Item")
Done = TypeVar("Done")

MAX_ERROR = 500


def process_isolated(
    items: Sequence[Item],
    process: Callable[[Sequence[Item]], Iterable[Done]],
    fail: Callable[[Sequence[Item], Exception], None],
) -> list[Done]:
    """Process all items together and, after an unexpected error, each item alone.

    `fail` gets the items that were not processed and their error. After a Transient error these are all items: the
    dependency does not respond, and single tries would only take time.
    """
    if not items:
        return []
    try:
        return list(process(items))
    except Transient as error:
        fail(items, error)
    except Exception as error:  # noqa: BLE001 - any error concerns one item only; `fail` logs it with its ids
        if len(items) > 1:
            log_cause("batch_split", reason=describe(error), level=logging.WARNING, items=len(items))
            return [done for item in items for done in process_isolated([item], process, fail)]
        fail(items, error)
    return []


def describe(error: Exception) -> str:
    """Return the text of an error; for an error that is not raised on purpose, also its type and place."""
    if isinstance(error, FaultbridgeError):
        return str(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" ({trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno})" if trace else ""
    return f"{type(error).__name__}: {error}"[:MAX_ERROR] + place
