"""Peers: compare the counters of a node with those of the other nodes of its group.

The median and the median absolute deviation change little if a few nodes are bad, so a bad node stays visible. The
stage is pure; `faultbridge.repair.findings` applies it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from statistics import median

from msgspec import Struct

from faultbridge.model.findings import Baseline, Detector

HOUR = timedelta(hours=1)
MIN_ELAPSED = timedelta(minutes=30)
"""Two samples that are closer together are not compared."""

NORMAL = 1.4826
"""The factor by which the median absolute deviation estimates the standard deviation of normal values."""


class Outlier(Struct, frozen=True):
    """A node whose counters rise much faster per hour than those of its peers; `score` is in hundredths."""

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


def find_outliers(detector: Detector, rises: Mapping[str, int]) -> dict[str, Outlier]:
    """Return the nodes whose counters rise much faster than the median of their group.

    An outlier exceeds the median by the detector's `score` in robust standard deviations, and by its `floor`. The
    result is empty for `min_peers` nodes or fewer.
    """
    if len(rises) <= detector.min_peers:
        return {}
    middle = median(rises.values())
    spread = NORMAL * median(abs(rise - middle) for rise in rises.values())
    deviation = max(spread, detector.floor / detector.score)
    return {
        node: Outlier(rise, round(middle), round(100 * (rise - middle) / deviation), len(rises) - 1)
        for node, rise in rises.items()
        if rise - middle >= detector.score * deviation
    }
