"""Replays a fleet in which 5 % of the nodes are gray, and prints precision and recall of each detector in shadow.

Run `python -m tests.bench.gray_fleet`. Each detector has its own gray nodes. The replay contains what misleads a
detector: load that changes for all nodes, a job of an eighth of the nodes that is hotter, nodes that always report more
than others, and short bursts on healthy nodes. A gray node rises by 1 to 30 floors of the detector per hour.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from random import Random

from faultbridge.decide.peers import find_outliers, rise_per_hour
from faultbridge.decode.data.counters import detectors
from faultbridge.model.findings import Baseline, Detector
from tests.bench.report import report
from tests.builders import NOON

GRAY_SHARE, BURST_SHARE = 0.05, 0.002


@dataclass(frozen=True)
class Score:
    """The nodes of one detector that had a finding, and how many of them, and of the gray ones, it names."""

    detector: str
    gray: int
    found: int
    right: int

    @property
    def precision(self) -> float:
        """Return the share of right findings."""
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """Return the share of gray nodes that were found."""
        return self.right / self.gray


def replay(seed: int, nodes: int, hours: int) -> list[Score]:
    """Replay each detector on its own fleet."""
    return [_replay(Random(f"{seed}/{one.name}"), one, nodes, hours) for one in detectors()]


def _replay(random: Random, detector: Detector, nodes: int, hours: int) -> Score:
    names = [f"n-{number}" for number in range(nodes)]
    gray = {name: random.randrange(hours // 2) for name in random.sample(names, round(nodes * GRAY_SHARE))}
    extra = {name: detector.floor * random.choice((1, 2, 3, 5, 10, 30)) for name in gray}
    usual = {name: detector.floor * random.lognormvariate(-3.5, 0.8) for name in names}
    totals, streaks, found = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0), set[str]()
    before: dict[str, Baseline] = {}
    job = set(random.sample(names, nodes // 8))
    for hour in range(hours):
        load = 0.5 + random.random() + (2.0 if hour % 24 > 12 else 0.0)
        rises: dict[str, int] = {}
        for name in names:
            totals[name] += usual[name] * load * random.lognormvariate(0, 0.5) * (2.5 if name in job else 1.0)
            totals[name] += extra[name] * random.uniform(0.3, 1.7) if hour >= gray.get(name, hours) else 0.0
            totals[name] += detector.floor * random.uniform(2, 50) if random.random() < BURST_SHARE else 0.0
            after = Baseline(NOON + timedelta(hours=hour), "1/1", int(totals[name]))
            rise = rise_per_hour(before.get(name), after)
            before[name] = after
            if rise is not None:
                rises[name] = rise
        outliers = find_outliers(detector, rises)
        for name in names:
            streaks[name] = streaks[name] + 1 if name in outliers else 0
            found |= {name} if streaks[name] >= detector.windows else set()
    return Score(detector.name, len(gray), len(found), len(found & gray.keys()))


def main() -> None:
    """Report the figures of a fleet of 1,000 nodes over a week."""
    scores = replay(seed=2, nodes=1_000, hours=168)
    report(
        "gray_fleet",
        [asdict(one) | {"precision": f"{one.precision:.3f}", "recall": f"{one.recall:.2f}"} for one in scores],
    )


if __name__ == "__main__":
    main()
