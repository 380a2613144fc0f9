"""How often a schedule comes.

AWS: `rate(1 minute)`, the shortest there is, comes once a minute.
MiniStack: as AWS, but it looks every 10 seconds only, so a schedule comes up to 10 seconds late.
Here: it looks every quarter of a second, and a scheduled minute lasts three seconds, so that a person need not
wait a minute for whatever the next sweep does. A schedule by `cron` or `at` keeps its time.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from faultbridge.local.environment import MINUTE_VARIABLE
from faultbridge.local.gaps import names as patch

RATE = "ministack.services.eventbridge:_parse_rate_seconds"
RULE_PAUSE = "ministack.services.eventbridge:_SCHEDULER_TICK_INTERVAL"
SCHEDULE_PAUSE = "ministack.services.scheduler:_SCHEDULE_TICK_INTERVAL"

_PAUSE_SECONDS = 0.25
_THEIR_PAUSE_SECONDS = 10
_MINUTE = 60.0


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (RATE, RULE_PAUSE, SCHEDULE_PAUSE)


def is_open() -> bool:
    """Tell whether the emulator still looks every 10 seconds only."""
    return all(patch.resolve(pause) == _THEIR_PAUSE_SECONDS for pause in (RULE_PAUSE, SCHEDULE_PAUSE))


def apply() -> None:
    """Look often, and let minutes of rates pass faster."""
    minute = float(os.environ[MINUTE_VARIABLE])
    patch.replace(RATE, lambda rate: _faster(rate, minute / _MINUTE))
    for pause in (RULE_PAUSE, SCHEDULE_PAUSE):
        patch.replace(pause, lambda _theirs: _PAUSE_SECONDS)


def _faster(rate: Callable[[str], int | None], factor: float) -> Callable[[str], float | None]:
    def parse_rate_seconds(expression: str) -> float | None:
        seconds = rate(expression)
        return None if seconds is None else seconds * factor

    return parse_rate_seconds
