"""Guard: trips and closes the breakers of a cluster, before anything more is taken out of service there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from faultbridge.domain.breakers import BreakerScope
from faultbridge.domain.clusters import ClusterConfig, Control, Mode
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.faults import Severity
from faultbridge.domain.times import from_text
from faultbridge.ports import Table
from faultbridge.services.controls import Changed, Controls, breaker_draft
from faultbridge.services.rollup import BAD
from faultbridge.services.rows import rows_of
from faultbridge.services.rulebook import Rulebook
from faultbridge.services.rules_of import rules_of
from faultbridge.stages.breaker import Failing, judge
from faultbridge.stages.decide import Rules
from faultbridge.storage.writes import Item

ROSTER = "NODE#"


@dataclass(frozen=True, slots=True)
class Guard:
    """Judges the breakers of a cluster by the rows of its troubled nodes; judging twice is judging once."""

    table: Table
    rulebook: Rulebook
    controls: Controls

    def __call__(self, cluster: str) -> Control | None:
        """Move the breakers of a cluster; None where nothing is repaired or no policy names a breaker."""
        rules = rules_of(self.rulebook, cluster)
        if not rules.config.acts or rules.config.mode is not Mode.ACT or not rules.policy.breakers:
            return None
        rows = [row for row in rows_of(self.table, rules.config, BAD) if row.get("case")]
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
            return Changed(replace(control, breakers=breakers), drafts, severity)

        return self.controls.change(cluster, revise, Actor.DISPATCH)

    def _seats(self, rules: Rules, failing: Sequence[Failing], control: Control) -> dict[str | None, int]:
        """Count the seats, those of each failure domain only where one of its breakers could move."""
        seats: dict[str | None, int] = {None: rules.config.expected}
        floors = [limit.nodes for limit in rules.policy.breakers if limit.scope is BreakerScope.DOMAIN]
        together = Counter(one.domain for one in failing if one.domain)
        if floors and (max(together.values(), default=0) >= min(floors) or control.breakers):
            seats |= _by_domain(self.table, rules.config)
        return seats


def _by_domain(table: Table, config: ClusterConfig) -> dict[str | None, int]:
    named: Counter[str | None] = Counter(
        str(row["domain"]) for row in rows_of(table, config, ROSTER) if row.get("domain")
    )
    return dict(named)


def _failing(row: Item) -> Failing:
    domain, opened = row.get("domain"), row.get("opened") or row["updated_at"]
    return Failing(NodeStatus(str(row["status"])), str(domain) if domain else None, from_text(str(opened)))


def _worst(rows: Sequence[Item]) -> Severity | None:
    said = [Severity(str(row["severity"])) for row in rows if row.get("severity")]
    return max(said, key=lambda one: one.rank, default=None)
