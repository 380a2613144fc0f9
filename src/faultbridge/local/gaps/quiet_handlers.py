"""The price of a handler that prints nothing.

AWS: an answer does not wait for log lines.
MiniStack: a call waits up to 50 ms for the first line of output, so a silent handler costs 54 ms and one that
prints 7 ms.
Here: it waits 5 ms. A line that comes later than that is logged with the next call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partialmethod
from typing import Any

from faultbridge.local.gaps import names as patch

DRAIN = "ministack.core.lambda_runtime:Worker|_drain_stderr_bounded"

_FIRST_LINE_SECONDS = 0.005
_THEIR_SECONDS = 0.05


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (DRAIN,)


def is_open() -> bool:
    """Whether the emulator still waits 50 ms for a first line."""
    waiting = inspect.signature(patch.resolve(DRAIN)).parameters["first_line_wait"]
    return bool(waiting.default == _THEIR_SECONDS)


def apply() -> None:
    """Wait a tenth of that."""
    patch.replace(DRAIN, _impatient)


def _impatient(drain: Callable[..., str]) -> Any:  # noqa: ANN401 - a descriptor
    return partialmethod(drain, first_line_wait=_FIRST_LINE_SECONDS)
