"""Events of schedules: which of them are too old to do their work."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from faultbridge.model.log import log_cause
from faultbridge.model.times import from_text

SCHEDULED = "Scheduled Event"
STALE_AFTER = timedelta(minutes=2)


def is_stale(event: Mapping[str, Any], now: datetime) -> bool:
    """Return whether an event of a schedule is more than two minutes old, and log it: a later event does its work.

    Lambda keeps asynchronous calls that it throttled for hours. At the end of an outage it makes all of them, and each
    would read every cluster from the provider. Source: AWS Lambda, "How Lambda handles errors and retries with
    asynchronous invocation".
    """
    if event.get("detail-type") != SCHEDULED or "time" not in event:
        return False
    age = now - from_text(event["time"])
    if age > STALE_AFTER:
        log_cause("stale_schedule", reason=f"the schedule's event is {int(age.total_seconds())} s old")
    return age > STALE_AFTER
