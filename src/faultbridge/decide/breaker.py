"""Circuit breaker rule: whether so many nodes fail at once that new repairs must stop.

The rule is pure; `repair/breakers.py` applies it to the table. While a breaker is open, `admit` starts only
verifications of the nodes in its cluster or failure domain; their cordons continue. A node that is being provisioned or
validated does not count as failing, so that a growing cluster opens no breaker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.model.cases import Case
from faultbridge.model.cluster.state import (
    NEEDS_OPERATOR,
    Breaker,
    BreakerLimit,
    BreakerState,
    ProviderCondition,
    breaker_name,
    domain_of,
)
from faultbridge.model.enums import BreakerScope, ClusterStatus, NodeStatus, ProviderHealth, ProviderStage
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace

# `repair/cluster_status.py` records the status of a cluster on its timeline.

RECOVERING = frozenset(
    {NodeStatus.PROVISIONING, NodeStatus.VALIDATING, NodeStatus.DRAINING, NodeStatus.REPAIRING, NodeStatus.REPLACING}
)
"""Statuses of nodes that return to service without an operator."""

GROWING = frozenset({NodeStatus.PROVISIONING, NodeStatus.VALIDATING})
"""Statuses of nodes that are not in service yet; they do not make a cluster critical."""


class Thresholds(Struct, frozen=True):
    """The percentage and number of nodes out of service which, both reached, make a cluster critical."""

    critical_percent: int = 20
    critical_nodes: int = 2


def nodes_by_status(bad: Mapping[NodeStatus, int], expected: int) -> dict[str, int]:
    """Return the number of nodes by status; nodes of `expected` that are not in `bad` are healthy."""
    healthy = max(expected - sum(bad.values()), 0)
    counts = {NodeStatus.HEALTHY.value: healthy} | {status.value: number for status, number in bad.items()}
    return {status: counts[status] for status in sorted(counts) if counts[status]}


def in_service(counts: Mapping[str, int]) -> int:
    """Return the number of nodes on which jobs may run, from the number of nodes by status."""
    return sum(number for status, number in counts.items() if NodeStatus(status).in_service)


def provider_health(conditions: Iterable[ProviderCondition]) -> ProviderHealth:
    """Return `action_required` (by an operator), `recovering` (any other condition) or `in_service`."""
    kinds = {one.kind for one in conditions}
    if kinds & NEEDS_OPERATOR:
        return ProviderHealth.ACTION_REQUIRED
    return ProviderHealth.RECOVERING if kinds else ProviderHealth.IN_SERVICE


def provider_stage(before: Iterable[ProviderCondition], after: Iterable[ProviderCondition]) -> ProviderStage | None:
    """Return `begun` if the conditions start to require an operator, `over` if they stop, else None."""
    needed, needs = (provider_health(one) is ProviderHealth.ACTION_REQUIRED for one in (before, after))
    return None if needed == needs else ProviderStage.BEGUN if needs else ProviderStage.OVER


def cluster_status(
    bad: Mapping[NodeStatus, int],
    expected: int,
    thresholds: Thresholds = Thresholds(),  # noqa: B008 - it is immutable
    provider: Iterable[ProviderCondition] = (),
    occupied: int = 0,
) -> ClusterStatus:
    """Return the status of a cluster. A cluster without an expected number of nodes is never critical.

    `bad` contains the number of nodes in each status other than healthy. A cluster is not healthy while its provider
    reports open conditions, or while the provider keeps new work off some of its nodes (`occupied`, their number).
    """
    health = provider_health(provider)
    present = {status for status, number in bad.items() if number}
    if not present and health is ProviderHealth.IN_SERVICE and not occupied:
        return ClusterStatus.HEALTHY
    out = sum(number for status, number in bad.items() if not status.in_service and status not in GROWING)
    exceeded = out >= thresholds.critical_nodes and out * 100 >= thresholds.critical_percent * expected
    if expected and exceeded:
        return ClusterStatus.CRITICAL
    recovers = present <= RECOVERING and health is not ProviderHealth.ACTION_REQUIRED
    return ClusterStatus.RECOVERING if recovers else ClusterStatus.DEGRADED


_DAY = timedelta(days=1)


class FailingNode(Struct, frozen=True):
    """A node with a live case; `incident` is the id of the expired incident that explains its failure."""

    status: NodeStatus
    domain: str | None
    opened_at: datetime
    failed_step_at: datetime | None = None
    incident: str | None = None


class Tally(Struct, frozen=True):
    """The nodes with a live case in the cluster or domain of one breaker; `of` is the number of all nodes."""

    failing: tuple[FailingNode, ...]
    of: int


class BreakerChange(Struct, frozen=True):
    """A breaker whose state changes, and why. `before` is its former state, or None for a new breaker."""

    name: str
    before: BreakerState | None
    breaker: Breaker
    reason: str


def evaluate_breakers(
    breakers: Mapping[str, Breaker],
    limits: Iterable[BreakerLimit],
    failing: Iterable[FailingNode],
    node_counts: Mapping[str | None, int],
    now: datetime,
) -> tuple[BreakerChange, ...]:
    """Return the changes of breakers due now; `node_counts` has the nodes of each domain, of the cluster for None."""
    failing, limits = list(failing), tuple(limits)
    changes = (
        _change(name, limit, breakers.get(name), tally, now)
        for limit in limits
        for name, tally in _tallies(limit, failing, node_counts, breakers)
    )
    dropped = _without_limit(breakers, limits, now)
    return (*(change for change in changes if change is not None), *dropped)


def failing_node(state: NodeState, case: Case) -> FailingNode:
    """Return a node with a live case as a `FailingNode`, which breakers count."""
    return FailingNode(state.status or NodeStatus.FAILED, state.placement.domain, case.opened_at, state.failed_step_at)


def close_manually(breaker: Breaker, now: datetime) -> Breaker:
    """Return the breaker as closed by an operator. It then counts only cases that open after `now`."""
    closed = replace(breaker, state=BreakerState.CLOSED, since=now, ignored_before=now, opened=())
    return replace(closed, stays_open=False, incident=None)


def _without_limit(
    breakers: Mapping[str, Breaker], limits: Iterable[BreakerLimit], now: datetime
) -> Iterator[BreakerChange]:
    scopes = {limit.scope for limit in limits}
    for name, before in breakers.items():
        scope = BreakerScope.CLUSTER if domain_of(name) is None else BreakerScope.DOMAIN
        if before.state is not BreakerState.CLOSED and scope not in scopes:
            closed = replace(before, state=BreakerState.CLOSED, since=now, stays_open=False)
            yield BreakerChange(name, before.state, closed, "the policy no longer has this breaker")


def _tallies(
    limit: BreakerLimit,
    failing: list[FailingNode],
    node_counts: Mapping[str | None, int],
    breakers: Mapping[str, Breaker],
) -> Iterator[tuple[str, Tally]]:
    """Yield the name and counts of each breaker of a limit whose domain has failing nodes or a stored breaker."""
    if limit.scope is BreakerScope.CLUSTER:
        yield breaker_name(limit.scope), Tally(tuple(failing), node_counts.get(None, 0))
        return
    for domain in sorted({node.domain for node in failing if node.domain} | {name for name in node_counts if name}):
        name = breaker_name(limit.scope, domain)
        of_domain = tuple(node for node in failing if node.domain == domain)
        if of_domain or name in breakers:
            yield name, Tally(of_domain, node_counts.get(domain, 0))


def _change(
    name: str, limit: BreakerLimit, before: Breaker | None, tally: Tally, now: datetime
) -> BreakerChange | None:
    ignored_before = before.ignored_before if before else None
    failing = [
        one
        for one in tally.failing
        if one.status not in GROWING and (ignored_before is None or one.opened_at > ignored_before)
    ]
    exceeded = _exceeds(failing, limit, tally.of)
    state = before.state if before else BreakerState.CLOSED
    repair_failed = before is not None and any(_failed_since(one, before.since) for one in tally.failing)
    target, reason = _next_state(before, limit, failing, repair_failed=repair_failed, exceeded=exceeded, now=now)
    incident = _covering_incident(before, failing, limit, tally.of)
    if target is state:
        if before is None or state is BreakerState.CLOSED or incident == before.incident:
            return None
        reason = f"incident {before.incident} no longer explains that so many nodes fail"
        return BreakerChange(name, state, replace(before, incident=None), reason)
    openings = before.opened if before else ()
    breaker = Breaker(target, now, limit.trial, len(failing), tally.of, ignored_before, openings, incident=incident)
    if target is BreakerState.OPEN:
        breaker, end = count_opening(breaker, limit)
        reason = f"{reason}; {end}"
    return BreakerChange(name, before.state if before else None, breaker, reason)


def _exceeds(failing: Collection[FailingNode], limit: BreakerLimit, of: int) -> bool:
    return len(failing) >= limit.nodes and len(failing) * 100 >= limit.percent * of


def _covering_incident(before: Breaker | None, failing: list[FailingNode], limit: BreakerLimit, of: int) -> str | None:
    """Return the expired incident whose page covers a breaker, or None if the breaker needs a page of its own.

    A page covers a breaker from the opening on, until the nodes that the incident does not explain reach the limits
    alone. If the breaker stays open, any such node is sufficient after the incident is closed, because no other
    page reports that its repair waits. A breaker with a page of its own keeps it until it closes.
    """
    others = [one for one in failing if one.incident is None]
    explained = min((one.incident for one in failing if one.incident), default=None)
    if before is None or before.state is BreakerState.CLOSED:
        return None if _exceeds(others, limit, of) else explained
    uncovered = _exceeds(others, limit, of) or (before.stays_open and others and explained is None)
    return None if uncovered else before.incident


def count_opening(breaker: Breaker, limit: BreakerLimit) -> tuple[Breaker, str]:
    """Record that a breaker opened; return the breaker, and a text that states what closes it.

    After `limit.openings` openings within a day, the breaker stays open until no node fails or an operator closes it.
    A trial repair while nodes still fail would probably lose another node.
    """
    openings = (*(at for at in breaker.opened if at > breaker.since - _DAY), breaker.since)
    stays_open = len(openings) >= limit.openings
    if stays_open:
        end = f"opened {len(openings)} times within a day: it stays open until no node fails or an operator closes it"
    else:
        minutes = limit.quiet / timedelta(minutes=1)
        end = f"repairs wait until no further node has failed for {minutes:g} min, or an operator closes the breaker"
    return replace(breaker, opened=openings, stays_open=stays_open), end


def _failed_since(node: FailingNode, since: datetime) -> bool:
    return node.failed_step_at is not None and node.failed_step_at > since


def _next_state(
    before: Breaker | None,
    limit: BreakerLimit,
    failing: list[FailingNode],
    *,
    repair_failed: bool,
    exceeded: bool,
    now: datetime,
) -> tuple[BreakerState, str]:
    if before is None or before.state is BreakerState.CLOSED:
        if exceeded:
            return BreakerState.OPEN, f"{len(failing)} nodes fail at once"
        return BreakerState.CLOSED, ""
    newest = max((one.opened_at for one in failing), default=before.since)
    if before.state is BreakerState.HALF_OPEN and exceeded and (newest > before.since or repair_failed):
        return BreakerState.OPEN, "a repair failed" if repair_failed else "another node failed"
    held = before.stays_open and bool(failing)
    if before.state is BreakerState.OPEN and (held or now - max(newest, before.since) < limit.quiet):
        return before.state, ""
    if not exceeded:
        return BreakerState.CLOSED, f"{len(failing)} nodes still fail, fewer than the limit"
    trial = f"at most {limit.trial} repair{'s' if limit.trial > 1 else ''} at a time"
    return BreakerState.HALF_OPEN, f"no further node failed; {trial} until fewer nodes fail than the limit"
