"""Maintenance windows: whether a window is open at a time, in the window's own time zone.

The package `cronsim` evaluates the cron expression, with the rules of Debian's cron for changes to and from daylight
saving time. `cronsim` is imported only when a window is evaluated, because most policies have no window.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from faultbridge.domain.policy import Window

FIELDS = "minute, hour, day of month, month, day of week"


def is_open(window: Window, now: datetime) -> bool:
    """Return whether a maintenance window is open at `now`.

    A window is open from its start until its duration has passed. At exactly this end, the window is closed.
    """
    from cronsim import CronSim

    # The search backwards excludes its start, so it starts in the next minute to include the current one.
    next_minute = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
    opened = next(CronSim(window.cron, next_minute.astimezone(ZoneInfo(window.zone)), reverse=True), None)
    return opened is not None and opened.astimezone(UTC) > now - window.duration


def check_cron(text: str) -> None:
    """Check that a text is a cron expression of five fields.

    Any other text raises ValueError, whose message lists the five fields.
    """
    from cronsim import CronSim, CronSimError

    if len(text.split()) != len(FIELDS.split(", ")):
        raise ValueError(f"not a cron expression: {text!r}; five fields are expected: {FIELDS}")
    try:
        CronSim(text, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise ValueError(f"not a cron expression: {text!r} ({error}); the fields are {FIELDS}") from None
