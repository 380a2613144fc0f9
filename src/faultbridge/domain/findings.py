"""Findings: signs of a gray failure, found by comparing a node with its peers."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase

from faultbridge.dataclass import dataclass
from faultbridge.domain.times import to_text

RIGHT_WITHIN = timedelta(days=7)
"""A case about a hard fault of the same component that opens within this time after a finding proves it right."""


@dataclass(frozen=True, slots=True)
class Detector:
    """How one gray failure is recognized: the counters of a source, summed over a node, as a rise per hour.

    A node is an outlier when its rise exceeds the median of at least `min_peers` nodes by `score` robust standard
    deviations and by `floor` per hour. A finding opens after `windows` comparisons in a row. `proved_by` holds the
    codes of the hard faults of the same component that prove a finding right.
    """

    name: str
    source: str
    counters: tuple[str, ...]
    unit: str
    floor: int
    score: int = 6
    min_peers: int = 8
    windows: int = 4
    proved_by: tuple[str, ...] = ()

    def is_proved_by(self, code: str) -> bool:
        """Return whether a later fault of this code proves a finding right; `*` in `proved_by` matches any text."""
        return any(fnmatchcase(code, pattern) for pattern in self.proved_by)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The last total of a detector on one node, and how many comparisons in a row found it an outlier.

    A total of another `incarnation` (instance and boot) is not compared: counters start again.
    """

    at: datetime
    incarnation: str
    total: int
    streak: int = 0


class Mark(StrEnum):
    """Whether a finding was right: the node had a defect."""

    RIGHT = "right"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One outlier of a detector: the rise of the node and the median of its peers, per hour.

    `score` counts hundredths of robust standard deviations. `marked_by` is an operator's ARN or the id of a case.
    """

    id: str
    cluster: str
    node: str
    detector: str
    opened_at: datetime
    value: int
    median: int
    score: int
    peers: int
    ended_at: datetime | None = None
    mark: Mark | None = None
    marked_by: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Precision:
    """How many findings of a detector there were, and how many of them were marked right or wrong."""

    detector: str
    findings: int
    right: int
    wrong: int

    @property
    def percent(self) -> int | None:
        """Return the percentage of the marked findings that were marked right; None if none is marked."""
        marked = self.right + self.wrong
        return round(100 * self.right / marked) if marked else None


def precision_of(detector: str, findings: Iterable[Finding]) -> Precision:
    """Return the recorded precision of a detector."""
    own = [one.mark for one in findings if one.detector == detector]
    return Precision(detector, len(own), own.count(Mark.RIGHT), own.count(Mark.WRONG))


def finding_id(cluster: str, node: str, detector: str, opened_at: datetime) -> str:
    """Derive the id of a finding: `f-` and 16 base32 characters."""
    text = "/".join((cluster, node, detector, to_text(opened_at)))
    return "f-" + base64.b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()[:16]
