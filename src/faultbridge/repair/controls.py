"""Controls: what bounds repairs in a cluster, changed together with the entry that says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from faultbridge.domain.breakers import Breaker, BreakerState, domain_of
from faultbridge.domain.clusters import Control
from faultbridge.domain.edges import Actor
from faultbridge.domain.entries import Draft, EntryType
from faultbridge.domain.faults import Severity
from faultbridge.domain.times import to_text, truncate
from faultbridge.errors import Rejected
from faultbridge.ledger.append import Stack
from faultbridge.ledger.cluster_stream import append_to_cluster, cluster_writes
from faultbridge.pipeline.decide.breaker import closed_by_hand
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, keys
from faultbridge.storage.codec import dump
from faultbridge.storage.writes import Equals, Path, Update, Value


@dataclass(frozen=True, slots=True)
class Changed:
    """How a cluster's controls are to stand, and what goes on its record; no drafts when nothing changes."""

    control: Control
    drafts: tuple[Draft, ...] = ()
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class Controls:
    """Changes the controls of clusters; a lost race is run again."""

    table: Table
    clock: Clock
    stack: Stack

    def read(self, cluster: str) -> Control:
        """Read a cluster's controls; `unknown_cluster` when it has none."""
        found = self.table.get(keys.cluster_control(cluster))
        if found is None:
            raise Rejected("unknown_cluster", f"{cluster} is not registered (faultbridge cluster add {cluster})")
        return items.read_control(cluster, found)

    def change(self, cluster: str, revise: Callable[[Control, datetime], Changed], actor: Actor) -> Control:
        """Revise a cluster's controls until the commit holds; raises Conflict after 20 lost races."""

        def once() -> Control:
            before, now = self.read(cluster), truncate(self.clock.now())
            changed = revise(before, now)
            if not changed.drafts:
                return before
            self._commit(before, changed, actor, now)
            return changed.control

        return append_to_cluster(once)

    def pause(self, cluster: str, *, paused: bool, operator: str | None = None) -> Control:
        """Let no repair of a cluster begin any more, or let them begin again; what passed its intent goes on."""

        def revise(control: Control, now: datetime) -> Changed:
            if control.paused is paused:
                return Changed(control)
            before, after = ("running", "paused") if paused else ("paused", "running")
            reason = "ordered by an operator"
            draft = safety("pause", before, after, now, reason=reason, operator=operator)
            return Changed(replace(control, paused=paused), (draft,))

        return self.change(cluster, revise, Actor.CLI)

    def close_breakers(self, cluster: str, operator: str | None = None) -> Control:
        """Close every breaker of a cluster in spite of the nodes that fail now; only others trip it again."""

        def revise(control: Control, now: datetime) -> Changed:
            tripped = {name: one for name, one in control.breakers.items() if one.state is not BreakerState.CLOSED}
            closed = {name: closed_by_hand(one, now) for name, one in tripped.items()}
            drafts = tuple(
                breaker_draft(name, tripped[name].state, one, "closed by an operator", operator)
                for name, one in closed.items()
            )
            return Changed(replace(control, breakers={**control.breakers, **closed}), drafts)

        return self.change(cluster, revise, Actor.CLI)

    def _commit(self, before: Control, changed: Changed, actor: Actor, now: datetime) -> None:
        state = items.read_cluster(before.cluster, self.table.get(keys.cluster_state(before.cluster)))
        _, writes = cluster_writes(
            self.stack, state, state, changed.drafts, actor=actor, severity=changed.severity, now=now
        )
        set_: dict[Path, Value] = {
            ("paused",): changed.control.paused,
            ("budget_used_up",): changed.control.budget_used_up,
            ("breakers",): dump(changed.control.breakers),
        }
        control = Update(
            keys.cluster_control(before.cluster), set=set_, add={"version": 1}, when=Equals("version", before.version)
        )
        self.table.transact([control, *writes])


def breaker_draft(
    name: str, before: BreakerState | None, breaker: Breaker, reason: str, operator: str | None = None
) -> Draft:
    """Draft the entry of a breaker that moved."""
    return safety(
        "breaker",
        before.value if before else None,
        breaker.state.value,
        breaker.since,
        reason=reason,
        domain=domain_of(name),
        counts={"failing": breaker.failing, "of": breaker.of},
        operator=operator,
    )


def safety(
    kind: str,
    before: str | None,
    after: str,
    at: datetime,
    *,
    reason: str,
    domain: str | None = None,
    counts: Mapping[str, int] | None = None,
    operator: str | None = None,
    until: datetime | None = None,
) -> Draft:
    """Draft the entry of a control that changed."""
    data = {
        "kind": kind,
        "from": before,
        "to": after,
        "reason": reason,
        "scope": "domain" if domain else "cluster",
        "domain": domain,
        "counts": dict(counts or {}),
        "until": to_text(until) if until else None,
        "operator": operator,
    }
    return Draft(EntryType.CLUSTER_SAFETY, at, data)
