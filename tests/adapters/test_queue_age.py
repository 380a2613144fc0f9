"""How long the oldest message waits: the newest value of the metric, or nothing where there is none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultbridge.adapters.queue_age import queue_age
from tests.adapters.stubs import stubbed
from tests.builders import NOON


@pytest.mark.parametrize(
    ("points", "age"),
    [
        ([], None),
        ([(-1, 30.0), (-3, 500.0), (-2, 90.0)], timedelta(seconds=30)),
    ],
)
def test_the_newest_value_counts(points: list[tuple[int, float]], age: timedelta | None) -> None:
    told: list[Any] = [{"Timestamp": NOON + timedelta(minutes=at), "Maximum": value} for at, value in points]
    with stubbed("cloudwatch") as (clients, stub):
        stub.add_response("get_metric_statistics", {"Label": "age", "Datapoints": told})
        assert queue_age(clients, "raw-records", NOON) == age
