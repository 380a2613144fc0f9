"""Retry a failed call: a limited number of attempts, with exponential backoff and full jitter."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

OnRetry = Callable[[int, Exception, float], None]
"""Called before each pause with the number of the failed attempt (from 1), its error, and the pause in seconds."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The number of attempts of a call, and the pauses between them.

    The pause after attempt `n` is `jitter()` times the smaller of `first_seconds * 2 ** (n - 1)` and `max_seconds`.
    `jitter` returns a number from 0 to 1. With `first_seconds=0` there is no pause. `sleep` and `jitter` are replaced
    in tests and simulation.

    Example: `Retry(attempts=5)(write, retry_on=Conflict)` returns the result of `write()`.
    """

    attempts: int
    first_seconds: float = 0.05
    max_seconds: float = 20.0
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        """Raise ValueError if `attempts` is less than one."""
        if self.attempts < 1:
            raise ValueError(f"attempts is too small: {self.attempts}; at least 1")

    def __call__(
        self,
        action: Callable[[], T],
        *,
        retry_on: type[Exception] | tuple[type[Exception], ...],
        retry_if: Callable[[Exception], bool] = lambda _: True,
        on_retry: OnRetry = lambda _attempt, _error, _pause: None,
    ) -> T:
        """Call `action` until it succeeds, at most `attempts` times, and return its result.

        An error is retried if its type is in `retry_on` and `retry_if` returns True for it. Any other error, and an
        error of the last attempt, is raised. `on_retry` is called after each failed attempt that is retried, for
        logging.
        """
        for attempt in range(1, self.attempts):
            try:
                return action()
            except retry_on as error:
                if not retry_if(error):
                    raise
                pause = self.pause_after(attempt)
                on_retry(attempt, error, pause)
                if pause > 0:
                    self.sleep(pause)
        return action()

    def pause_after(self, attempt: int) -> float:
        """Return the pause in seconds after a failed attempt; the first attempt has the number 1."""
        doublings = min(attempt - 1, 60)  # a float overflows after 1,023
        return min(self.first_seconds * 2.0**doublings, self.max_seconds) * self.jitter()
