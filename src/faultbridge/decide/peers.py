"""Peers: compare the counters of a node with those of the other nodes of its group.

The median and the median absolute deviation change little if a few nodes are bad, so a bad node stays visible. The
stage is pure; `faultbridge.repair.findings` applies it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import timedelta
from statistics import median
from typing import TypeVar

from msgspec import Struct

from faultbridge.model.findings import Baseline, Detector

Name = TypeVar("Name", bound=Hashable)
HOUR = timedelta(hours=1)
MIN_ELAPSED = timedelta(minutes=30)
"""Two samples that are closer together are not compared."""

NORMAL = 1.4826
"""The factor by which the median absolute deviation estimates the standard deviation of normal values."""


class Outlier(Struct, frozen=True):
    """A node or device whose value is far from those of its peers; `score` is in hundredths."""

    value: int
    median: int
    score: int
    peers: int


def rise_per_hour(before: Baseline | None, after: Baseline) -> int | None:
    """Return a counter's rise per hour; None for samples of another instance, boot or within 30 minutes."""
    if before is None or before.incarnation != after.incarnation or after.total < before.total:
        return None
    elapsed = after.at - before.at
    return round((after.total - before.total) * (HOUR / elapsed)) if elapsed >= MIN_ELAPSED else None


def main_part(before: Baseline | None, after: Baseline) -> str | None:
    """Return the component, if known, that caused more than half of the rise of a counter total."""
    if before is None or not before.parts:
        return None
    rises = {key: total - before.parts.get(key, 0) for key, total in after.parts.items()}
    return next((key for key, rise in rises.items() if 2 * rise > after.total - before.total), None)


def find_outliers(detector: Detector, values: Mapping[Name, int]) -> dict[Name, Outlier]:
    """Return the nodes or devices whose values are far from the median of their group.

    An outlier exceeds the median by the detector's `score` in robust standard deviations, by its `floor`, and by its
    `percent`; it is below the median instead for a detector of low values. The result is empty for `min_peers` values
    or fewer.
    """
    if len(values) <= detector.min_peers:
        return {}
    middle = median(values.values())
    spread = NORMAL * median(abs(value - middle) for value in values.values())
    deviation = max(spread, detector.least(middle) / detector.score)
    return {
        name: Outlier(value, round(middle), round(100 * beyond / deviation), len(values) - 1)
        for name, value in values.items()
        if (beyond := detector.beyond(value, middle)) >= detector.score * deviation
    }
