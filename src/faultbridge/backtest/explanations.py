"""Explanations: which decisions differ because another policy than the tested policy was in force.

Each entry about a fault names the policy that was in force. No entry records when a policy was published. A policy may
therefore have been in force since the last entry that names another policy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from faultbridge.backtest.course import Decision
from faultbridge.backtest.record import Event
from faultbridge.domain.entries import FAULT_TYPES
from faultbridge.domain.times import from_text, to_text

NAMING = frozenset(one.value for one in FAULT_TYPES)


@dataclass(frozen=True, slots=True)
class PoliciesInForce:
    """The policy versions that fault entries name, and the times of these entries, in order of time."""

    times: Sequence[datetime]
    versions: Sequence[str]

    @classmethod
    def of(cls, events: Iterable[Event]) -> PoliciesInForce:
        """Build the list of policies from the entries of a cluster."""
        found = sorted(
            (from_text(one["metadata"]["recorded_at"]), str(one["data"]["policy"]))
            for one in events
            if one["metadata"]["event_type"] in NAMING and one["data"].get("policy")
        )
        return cls([at for at, _ in found], [version for _, version in found])

    def explain(self, decision: Decision, version: str) -> str:
        """Return why a decision differs: another policy was, or may have been, in force.

        Returns an empty text if the two decisions are the same, if no other policy can explain the difference, or if no
        entry names `version`, the version of the tested policy.
        """
        if decision.same or version not in self.versions:
            return ""
        index = bisect_right(self.times, decision.at)
        before = self.versions[index - 1] if index else None
        if before not in {None, version}:
            return f"recorded under policy {before}"
        after = self.versions[index] if index < len(self.versions) else None
        if after in {None, version}:
            return ""
        since = f" between {to_text(self.times[index - 1])} and" if index else " by"
        return f"policy {after} was put{since} {to_text(self.times[index])}; the record does not contain when"
