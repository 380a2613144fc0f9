"""Circuit breakers, hourly budget and damped sources: stop what too many nodes, repairs or false claims cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.decide.admit import HOUR, recent_evictions, recent_starts
from faultbridge.decide.breaker import BreakerChange, FailingNode, evaluate_breakers
from faultbridge.decide.case_moves import Rules
from faultbridge.decide.fold.claims import DAMPED_FOR
from faultbridge.decide.isolation_budget import MIN_EVICTIONS
from faultbridge.model.cluster.config import ClusterConfig, DampedSource
from faultbridge.model.cluster.state import BreakerState, Control, domain_of
from faultbridge.model.entries import Draft
from faultbridge.model.enums import Actor, BreakerScope, SafetyKind, SafetyState
from faultbridge.model.policy import Limits
from faultbridge.model.storage import items
from faultbridge.model.storage.node_rows import FalseClaims, UnhealthyNode
from faultbridge.model.storage.projections import FALSE_CLAIMS
from faultbridge.model.storage.writes import Equals, Put
from faultbridge.model.times import EPOCH
from faultbridge.model.values import replace
from faultbridge.record.ports.table import Table
from faultbridge.record.queries import nodes_in_use, shard_rows, unhealthy_nodes
from faultbridge.record.rulebook import Rulebook, rules_of
from faultbridge.repair.cluster_status import highest_severity, latest_event
from faultbridge.repair.controls import ControlChange, Controls, breaker_draft, control_draft

_USED_UP = SafetyState.AVAILABLE, SafetyState.USED_UP
_AVAILABLE = SafetyState.USED_UP, SafetyState.AVAILABLE
"""The states before and after a limit is used up, and before and after it is available again."""
ACCEPTED, DAMPED = SafetyState.ACCEPTED, SafetyState.DAMPED
"""The states of the claims of a source."""


class Breakers(Struct, frozen=True):
    """Updates circuit breakers, the hourly budget of repairs and the damped sources of a cluster."""

    table: Table
    rulebook: Rulebook
    controls: Controls

    def update(self, cluster: str, cause: str | None = None) -> Control | None:
        """Update breakers, budget and damped sources of a cluster, and return its controls.

        Returns None if Faultbridge does not repair the cluster. `cause` is the id of the event that triggered the
        update. If it is None, the cause is the last status change of an unhealthy node that has a case and no incident.
        """
        rules = rules_of(self.rulebook, cluster)
        if not rules.config.repairs:
            return None
        unhealthy = unhealthy_nodes(self.table, rules.config)
        with_case = [row for row in unhealthy if row.case]
        false_claims = [
            items.stored_value(FalseClaims, row) for row in shard_rows(self.table, rules.config, FALSE_CLAIMS)
        ]

        def revise(control: Control, now: datetime) -> ControlChange:
            rows = [row for row in with_case if not _has_incident(row, rules.config, control)]
            failing = [_failing(row, control) for row in rows]
            counts = self._node_counts(rules, failing, control)
            moved = evaluate_breakers(control.breakers, rules.policy.breakers, failing, counts, now)
            breakers = {**control.breakers, **{one.name: one.breaker for one in moved}}
            covered_by = SafetyKind.EVICTIONS if control.eviction_limits else None
            drafts = tuple(
                breaker_draft(one.name, one.before, one.breaker, _with_cause(one, rows), covered_by=covered_by)
                for one in moved
            )
            used_up, budget_drafts = _update_budget(control, rules.policy.limits, now, failing)
            tripped = any(one.state is not BreakerState.CLOSED for one in breakers.values())
            eviction_limits, eviction_drafts = _update_eviction_limits(control, with_case, now, tripped=tripped)
            changed = replace(control, breakers=breakers, budget_used_up=used_up, eviction_limits=eviction_limits)
            config = rules_of(self.rulebook, cluster).config
            damped, damping_drafts = update_damped(config.damped_sources, false_claims, now)
            drafts += (*budget_drafts, *eviction_drafts, *damping_drafts)
            stored = items.config_item(replace(config, damped_sources=damped, version=config.version + 1), now)
            writes = (Put(stored, when=Equals("version", config.version)),) if damping_drafts else ()
            return ControlChange(changed, drafts, highest_severity(rows), cause or latest_event(rows), writes)

        return self.controls.change(cluster, revise, Actor.DISPATCH)

    def _node_counts(self, rules: Rules, failing: Sequence[FailingNode], control: Control) -> dict[str | None, int]:
        """Return the nodes of the cluster (None) and, if a breaker may change, of each failure domain."""
        counts: dict[str | None, int] = {None: rules.config.expected}
        limits = [limit.nodes for limit in rules.policy.breakers if limit.scope is BreakerScope.DOMAIN]
        most_failing = max(Counter(one.domain for one in failing if one.domain).values(), default=0)
        tripped = any(
            domain_of(name) and one.state is not BreakerState.CLOSED for name, one in control.breakers.items()
        )
        if limits and (most_failing >= min(limits) or tripped):
            domains = (one.domain for one in nodes_in_use(self.table, rules.config))
            counts |= Counter[str | None](domain for domain in domains if domain)
        return counts


def _update_budget(
    control: Control, limits: Limits, now: datetime, failing: Sequence[FailingNode]
) -> tuple[bool, tuple[Draft, ...]]:
    starts = list(recent_starts(control, now))
    used_up = len(starts) >= limits.per_hour
    if used_up is control.budget_used_up:
        return used_up, ()
    before, after = _USED_UP if used_up else _AVAILABLE
    reason = f"{len(starts)} repairs started within an hour; the limit is {limits.per_hour}"
    counts = {"begun": len(starts), "limit": limits.per_hour}
    until = starts[len(starts) - limits.per_hour] + HOUR if used_up else None
    incidents = {one.incident for one in failing}
    incident = incidents.pop() if len(incidents) == 1 else None
    draft = control_draft(
        SafetyKind.BUDGET, before, after, now, reason=reason, counts=counts, until=until, incident=incident
    )
    return used_up, (draft,)


def _update_eviction_limits(
    control: Control, rows: Iterable[UnhealthyNode], now: datetime, *, tripped: bool
) -> tuple[tuple[str, ...], tuple[Draft, ...]]:
    """Return the failure modes for which lost nodes wait for their drain, and the entries of those that changed.

    While a breaker is `tripped`, its page covers a new limit, and no limit ends, so that the breaker needs no page of
    its own in turn.
    """
    waiting = Counter(row.not_drained for row in rows if row.not_drained)
    drained = {mode: len(recent_evictions(control, mode, now)) for mode in {*waiting, *control.eviction_limits}}
    kept = {mode for mode in control.eviction_limits if tripped or mode in waiting or drained[mode] >= MIN_EVICTIONS}
    drafts = []
    for mode in sorted({*waiting, *control.eviction_limits}):
        begins, ends = mode in waiting and mode not in control.eviction_limits, mode not in kept | waiting.keys()
        if begins or ends:
            cause = _cause([row for row in rows if row.not_drained == mode], mode)
            reason = f"{drained[mode]} nodes were drained for {cause} within an hour; {waiting[mode]} more are cordoned"
            before, after = _USED_UP if begins else _AVAILABLE
            draft = control_draft(
                SafetyKind.EVICTIONS,
                before,
                after,
                now,
                reason=reason,
                counts={"drained": drained[mode], "waiting": waiting[mode]},
                name=f"evictions:{mode}",
                mode=mode,
                covered_by=SafetyKind.BREAKER if tripped else None,
            )
            drafts.append(draft)
    return tuple(sorted(kept | waiting.keys())), tuple(drafts)


def _with_cause(change: BreakerChange, rows: Iterable[UnhealthyNode]) -> str:
    """Return the reason of a breaker's change, with the most frequent fault and its sources if the breaker opened."""
    domain = domain_of(change.name)
    counted = [row for row in rows if domain in {None, row.domain}]
    opened = change.breaker.state is BreakerState.OPEN and change.before is not BreakerState.HALF_OPEN
    return f"{change.reason}; most nodes have {_cause(counted)}" if opened and counted else change.reason


def _cause(rows: Iterable[UnhealthyNode], mode: str | None = None) -> str:
    """Return the most frequent fault code of nodes with a case, and its sources; a failure mode `mode` comes first."""
    causes = Counter((str(row.code), ", ".join(row.sources)) for row in rows)
    (code, sources), _ = min(causes.items(), key=lambda one: (-one[1], one[0]), default=((mode or "", ""), 0))
    if mode and mode != code:
        return f"{mode} ({code} reported by {sources})" if sources else mode
    return f"{code} (reported by {sources})" if sources else code


def _has_incident(row: UnhealthyNode, config: ClusterConfig, control: Control) -> bool:
    """Return whether an incident explains the faults of a node, so that breakers do not count the node.

    If breakers counted such a node, a breaker and the incident would both page for the same cause. If the node failed
    after the last update of the incidents, `row` names no incident yet. An open incident in `control` can then still
    explain the faults.
    """
    if row.incident or not control.holds:
        return bool(row.incident)
    domains, families = row.failure_domains(config), list(row.families)
    return control.incident_of(row.node, domains, families, repeated_since=row.repeated_since) is not None


def _failing(row: UnhealthyNode, control: Control) -> FailingNode:
    incident = control.expired_incident_with(row.node, list(row.families))
    return FailingNode(row.status, row.domain, row.opened or EPOCH, row.failed_step, incident)


DAMPING_CLAIMS = 2
"""The number of false claims of one source within 24 hours from which on the whole cluster ignores its claims."""

MAX_DAMPED_FOR = timedelta(days=7)


def update_damped(
    known: Sequence[DampedSource], false_claims: Sequence[FalseClaims], now: datetime
) -> tuple[tuple[DampedSource, ...], tuple[Draft, ...]]:
    """Return the damped sources of a cluster, and the entries for the sources that are damped or accepted from now on.

    `false_claims` are those of each node: claims that were refuted or expired. The first one names its source to
    the operators. A source with `DAMPING_CLAIMS` false claims is damped for 24 hours. If it was damped in the last 7
    days, it is damped for twice as long as last time, at most for 7 days, and only later false claims count.
    """
    ends, kept, drafts = _ends(false_claims), [], []
    last_of = {one.source: one for one in known}
    for source in sorted({*last_of, *ends}):
        last = last_of.get(source)
        if last is not None and not last.over and last.until <= now:
            drafts.append(_draft(last, DAMPED, ACCEPTED, now, "the time is over; its claims count again"))
            last = replace(last, over=True)
        before = ACCEPTED if last is None or last.over else DAMPED
        false = [at for at in ends.get(source, ()) if last is None or not last.cluster or at > last.until]
        if len(false) >= DAMPING_CLAIMS:
            lasts = min(2 * (last.until - last.since), MAX_DAMPED_FOR) if last and last.cluster else DAMPED_FOR
            last = DampedSource(source, now, now + lasts)
            reason = f"{len(false)} claims of {source} were refuted or expired; claims of it are only notes"
            drafts.append(_draft(last, before, DAMPED, now, reason))
        elif false and last is None:
            last = DampedSource(source, now, false[0] + DAMPED_FOR, cluster=False)
            reason = (
                f"a claim of {source} was refuted or expired; claims of it with the same code are notes on that node"
            )
            drafts.append(_draft(last, before, DAMPED, now, reason))
        if last is not None and now - last.until < MAX_DAMPED_FOR:
            kept.append(last)
    return tuple(kept), tuple(drafts)


def _ends(false_claims: Sequence[FalseClaims]) -> Mapping[str, list[datetime]]:
    ends: dict[str, list[datetime]] = {}
    for of_node in false_claims:
        for name, at in of_node.until.items():
            ends.setdefault(name.partition(" ")[0], []).append(at - DAMPED_FOR)
    return ends


def _draft(one: DampedSource, before: SafetyState, after: SafetyState, now: datetime, reason: str) -> Draft:
    until = one.until if after is DAMPED else None
    name = f"claims:{one.source}"
    return control_draft(
        SafetyKind.CLAIMS, before, after, now, reason=reason, until=until, name=name, source=one.source
    )
