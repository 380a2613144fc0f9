"""Guard: moves the breakers of a cluster and says when its hour's budget is used up, before more is taken out there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from faultbridge.domain.breakers import BreakerScope
from faultbridge.domain.clusters import ClusterConfig, Control, Mode
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.faults import Severity
from faultbridge.domain.policy import Limits
from faultbridge.domain.times import from_text
from faultbridge.ledger.queries import shard_rows
from faultbridge.pipeline.decide.admit import HOUR, recent
from faultbridge.pipeline.decide.breaker import Failing, judge
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.ports import Table
from faultbridge.repair.cluster_status import BAD
from faultbridge.repair.controls import Changed, Controls, breaker_draft, safety
from faultbridge.rules.rulebook import Rulebook, rules_of
from faultbridge.storage.writes import Item

ROSTER = "NODE#"


@dataclass(frozen=True, slots=True)
class Breakers:
    """Judges a cluster's breakers by the rows of its troubled nodes, its budget by its starts; twice is once."""

    table: Table
    rulebook: Rulebook
    controls: Controls

    def __call__(self, cluster: str) -> Control | None:
        """Move the controls of a cluster; None where nothing is repaired."""
        rules = rules_of(self.rulebook, cluster)
        if not rules.config.acts or rules.config.mode is not Mode.ACT:
            return None
        rows = [row for row in shard_rows(self.table, rules.config, BAD) if row.get("case")]
        failing = [_failing(row) for row in rows]
        severity = _worst(rows)
        seats: dict[str | None, int] | None = None

        def revise(control: Control, now: datetime) -> Changed:
            nonlocal seats
            if seats is None:
                seats = self._seats(rules, failing, control)
            moved = judge(control.breakers, rules.policy.breakers, failing, seats, now)
            breakers = {**control.breakers, **{one.name: one.breaker for one in moved}}
            drafts = tuple(breaker_draft(one.name, one.before, one.breaker, one.reason) for one in moved)
            used_up, said = _budget(control, rules.policy.limits, now)
            return Changed(replace(control, breakers=breakers, budget_used_up=used_up), (*drafts, *said), severity)

        return self.controls.change(cluster, revise, Actor.DISPATCH)

    def _seats(self, rules: Rules, failing: Sequence[Failing], control: Control) -> dict[str | None, int]:
        """Count the nodes, those of each failure domain only where one of its breakers could move."""
        seats: dict[str | None, int] = {None: rules.config.expected}
        floors = [limit.nodes for limit in rules.policy.breakers if limit.scope is BreakerScope.DOMAIN]
        together = Counter(one.domain for one in failing if one.domain)
        if floors and (max(together.values(), default=0) >= min(floors) or control.breakers):
            seats |= _by_domain(self.table, rules.config)
        return seats


def _budget(control: Control, limits: Limits, now: datetime) -> tuple[bool, tuple[Draft, ...]]:
    """Tell whether as many repairs began within the hour as may, and what there is to say of it."""
    begun = list(recent(control, now))
    used_up = len(begun) >= limits.per_hour
    if used_up is control.budget_used_up:
        return used_up, ()
    before, after = ("available", "used_up") if used_up else ("used_up", "available")
    reason = f"{len(begun)} repairs began within an hour, {limits.per_hour} may"
    counts = {"begun": len(begun), "limit": limits.per_hour}
    until = begun[len(begun) - limits.per_hour] + HOUR if used_up else None
    return used_up, (safety("budget", before, after, now, reason=reason, counts=counts, until=until),)


def _by_domain(table: Table, config: ClusterConfig) -> dict[str | None, int]:
    named: Counter[str | None] = Counter(
        str(row["domain"]) for row in shard_rows(table, config, ROSTER) if row.get("domain")
    )
    return dict(named)


def _failing(row: Item) -> Failing:
    domain, opened = row.get("domain"), row.get("opened") or row["updated_at"]
    return Failing(NodeStatus(str(row["status"])), str(domain) if domain else None, from_text(str(opened)))


def _worst(rows: Sequence[Item]) -> Severity | None:
    said = [Severity(str(row["severity"])) for row in rows if row.get("severity")]
    return max(said, key=lambda one: one.rank, default=None)
