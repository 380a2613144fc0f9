"""Findings: signs of a gray failure, found by comparing a node's counters with those of its group."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase

from msgspec import Struct, field

from faultbridge.model.faults import Component
from faultbridge.model.stored import Stored
from faultbridge.model.times import to_text

RIGHT_WITHIN = timedelta(days=7)
"""A finding is right if a case about a hard fault of its component opens within this time after the finding."""


class Detector(Struct, frozen=True):
    """How one kind of gray failure is recognized, from how fast the counters of a node rise per hour.

    - `counters` are the names of the counters, which the source `source` reports. Their values are added up.
    - A node is an outlier if its rise exceeds the median of its group by at least `score` robust standard deviations
      and by at least `floor` per hour. The group must have at least `min_peers` other nodes.
    - A finding opens if the node was an outlier in `windows` comparisons in a row.
    - A detector of jobs compares what the devices or ranks of a job do. They differ from the median by at least
      `percent` of it; `below`, an outlier is below the median.
    - `proved_by` are the codes, with wildcards, of hard faults. Such a fault on the component of an earlier finding
      proves the finding right.
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
    percent: int = 0
    below: bool = False

    def beyond(self, value: float, middle: float) -> float:
        """Return how far a value is beyond the median `middle` of its peers, on the side of outliers."""
        return middle - value if self.below else value - middle

    def least(self, middle: float) -> float:
        """Return how far beyond the median `middle` an outlier is at least."""
        return max(self.floor, self.percent * middle / 100)

    def is_proved_by(self, code: str) -> bool:
        """Return whether a later fault with the fault code `code` proves a finding of this detector right.

        `*` in `proved_by` matches any text.
        """
        return any(fnmatchcase(code, pattern) for pattern in self.proved_by)


class Baseline(Stored, frozen=True):
    """The last counter total of a detector on one node.

    `streak` is how often in a row the node was an outlier. `incarnation` is the instance and the boot. Totals of
    different incarnations are not compared, because counters restart. `parts` holds the total of each component, and is
    stored for outliers only.
    """

    at: datetime
    incarnation: str
    total: int
    streak: int = 0
    parts: Mapping[str, int] = field(default_factory=dict)


class Mark(StrEnum):
    """The judgment on a finding: `right` if the node had a defect, otherwise `wrong`."""

    RIGHT = "right"
    WRONG = "wrong"


class Finding(Stored, frozen=True):
    """One outlier that a detector found: the rise of the node and the median of its group, per hour.

    In the finding of a job, both are what a device or a rank did, and `rank` is its rank, if known. `evidence` says it.

    `score` is in hundredths of a robust standard deviation. `marked_by` is who judged the finding: an operator's ARN or
    the id of a case. `component` is the component that caused more than half of the rise. It is None if no component
    did, or if that is not known.

    In the finding of a recurrence, `node` failed last, `value` counts the failed nodes, and `peers` counts all nodes of
    their group or failure domain.
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
    component: Component | None = None
    rank: int | None = None
    evidence: str = ""


class Precision(Struct, frozen=True):
    """How many findings a detector had, and how many of these were marked right or wrong."""

    detector: str
    findings: int
    right: int
    wrong: int

    @property
    def percent(self) -> int | None:
        """Return the percentage of the marked findings that were marked right; None if no finding is marked."""
        marked = self.right + self.wrong
        return round(100 * self.right / marked) if marked else None


def precision_of(detector: str, findings: Iterable[Finding]) -> Precision:
    """Return the recorded precision of a detector from its findings and their marks."""
    own = [one.mark for one in findings if one.detector == detector]
    return Precision(detector, len(own), own.count(Mark.RIGHT), own.count(Mark.WRONG))


def finding_id(cluster: str, node: str, detector: str, opened_at: datetime) -> str:
    """Derive the id of a finding: `f-` and 16 base32 characters."""
    text = "/".join((cluster, node, detector, to_text(opened_at)))
    return "f-" + base64.b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()[:16]
