"""Peers: compare the counters of a node with those of the other nodes of its group.

The median and the median absolute deviation do not change when a few nodes are bad, so bad nodes cannot hide
themselves. The stage is pure; `faultbridge.findings` applies it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from statistics import median

from faultbridge.dataclass import dataclass
from faultbridge.domain.findings import Baseline, Detector

HOUR = timedelta(hours=1)
MIN_ELAPSED = timedelta(minutes=30)
"""Two samples that are closer together are not compared."""

NORMAL = 1.4826
"""The factor by which the median absolute deviation estimates the standard deviation of normal values."""


@dataclass(frozen=True, slots=True)
class Outlier:
    """A node far above its group: its rise per hour, the group's median, and the number of other nodes.

    `score` is its distance from the median in hundredths of the standard deviation that the detector applies.
    """

    value: int
    median: int
    score: int
    peers: int


def rise_per_hour(before: Baseline | None, after: Baseline) -> int | None:
    """Return how much a counter total rises per hour; None if the two samples cannot be compared."""
    if before is None or before.incarnation != after.incarnation or after.total < before.total:
        return None
    elapsed = after.at - before.at
    return round((after.total - before.total) * (HOUR / elapsed)) if elapsed >= MIN_ELAPSED else None


def main_part(before: Baseline | None, after: Baseline) -> str | None:
    """Return the component with more than half of the rise of a total; None without such a one or earlier parts."""
    if before is None or not before.parts:
        return None
    rises = {key: total - before.parts.get(key, 0) for key, total in after.parts.items()}
    return next((key for key, rise in rises.items() if 2 * rise > after.total - before.total), None)


def find_outliers(detector: Detector, rises: Mapping[str, int]) -> dict[str, Outlier]:
    """Return the nodes of one group that are far above the others; empty if the group is too small.

    The deviation has a lower bound, so that the rise must exceed the median by at least the detector's floor.
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
