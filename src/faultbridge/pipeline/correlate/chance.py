"""Chance: whether a number of faults in a time window is unlikely, given a failure domain's history.

The history counts, for each failure domain and fault family, how often a node started to have faults. Counts decay with
a half-life, so that recent faults weigh more than old faults. The caller (`incidents/onsets.py`) leaves out faults that
an incident explains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime, timedelta

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.failure_domains import FailureDomain
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Family

HALF_LIFE = timedelta(days=7)
PRIOR_PER_NODE = timedelta(days=30)
"""Without a history, one fault of a family on a node in this time is expected."""

MAX_DOMAINS = 500
_SCALE = 1_000


@dataclass(frozen=True, slots=True)
class OnsetCount:
    """The number of faults of one family that started in one failure domain, in thousandths, as of `at`.

    The number decays over time, so that recent faults weigh more than old ones.
    """

    thousandths: int
    at: datetime


@dataclass(frozen=True, slots=True)
class OnsetHistory:
    """How many faults of each family started in each failure domain, from `since` up to `until`.

    Each key of `counts` is `family/kind/name`: the fault family, and the kind and name of the failure domain. `since`
    and `until` are None before the first count.
    """

    since: datetime | None = None
    until: datetime | None = None
    counts: Mapping[str, OnsetCount] = field(default_factory=dict)
    version: int = 0

    def expected(self, family: Family, domain: FailureDomain, nodes: int, window: timedelta, now: datetime) -> float:
        """Return the expected number of faults of a family in a failure domain within `window`.

        `nodes` is the number of nodes in the failure domain. Without history, one fault per node is expected in each
        `PRIOR_PER_NODE` (a duration). The history can only raise this number.
        """
        prior = nodes * (window / PRIOR_PER_NODE)
        counted = self.counts.get(_key(family, domain))
        if counted is None or self.since is None:
            return prior
        # The decayed count of a constant rate r over a time t approaches r * half-life / ln 2.
        observed = max(now - self.since, HALF_LIFE)
        weight = HALF_LIFE / math.log(2) * (1 - 2 ** -(observed / HALF_LIFE))
        return max(prior, _decayed(counted, now) / _SCALE * (window / weight))

    def counting(self, onsets: Iterable[tuple[Family, FailureDomain, datetime]], until: datetime) -> OnsetHistory:
        """Return a copy of the history that also counts the faults in `onsets`, up to the time `until`.

        Each fault has the time of its start. Faults that started up to `self.until` are skipped, because they are
        already counted. Only the `MAX_DOMAINS` highest counts are kept.
        """
        counts = dict(self.counts)
        for family, domain, at in onsets:
            if at > until or (self.until is not None and at <= self.until):
                continue
            before = counts.get(key := _key(family, domain))
            counts[key] = OnsetCount(_SCALE + (_decayed(before, until) if before else 0), until)
        kept = sorted(counts, key=lambda key: (-_decayed(counts[key], until), key))[:MAX_DOMAINS]
        return replace(self, since=self.since or until, until=until, counts={key: counts[key] for key in sorted(kept)})


def is_unlikely(number: int, expected: float, odds: int) -> bool:
    """Return whether `number` or more events have a probability below one in `odds`.

    The events have a Poisson distribution with the mean `expected`, which must be above 0.
    """
    below = sum(math.exp(k * math.log(expected) - expected - math.lgamma(k + 1)) for k in range(number))
    return 1 - below < 1 / odds


def _decayed(count: OnsetCount, now: datetime) -> int:
    return round(count.thousandths * 2 ** -(max(now - count.at, timedelta()) / HALF_LIFE))


def _key(family: Family, domain: FailureDomain) -> str:
    return f"{family.value}/{domain.kind.value}/{domain.name}"
