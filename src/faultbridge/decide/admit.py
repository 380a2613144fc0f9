"""Admit: decide which queued cases may start a repair now; `repair/dispatch.py` applies the rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from msgspec import Struct

from faultbridge.decide.isolation_budget import IsolationUse, eviction_limit
from faultbridge.model.cluster.config import FailureDomain, UpdateHold, is_placed
from faultbridge.model.cluster.state import Breaker, BreakerState, Control
from faultbridge.model.cluster.vacancies import owed_successor, used_up_slots
from faultbridge.model.enums import DomainKind, RepairAction, WaitingFor
from faultbridge.model.policy import Policy, Rule, Window
from faultbridge.model.storage.node_rows import QueuedCase
from faultbridge.model.times import to_text
from faultbridge.model.values import replace

# `cronsim` follows the rules of Debian's cron for changes to and from daylight saving time. It is imported only when a
# window is evaluated, because most policies have no window.

FIELDS = "minute, hour, day of month, month, day of week"


def is_open(window: Window, now: datetime) -> bool:
    """Return whether a maintenance window is open at `now`; at exactly its end, it is closed."""
    from cronsim import CronSim

    # The search backwards excludes its start, so it starts in the next minute to include the current one.
    next_minute = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
    opened = next(CronSim(window.cron, next_minute.astimezone(ZoneInfo(window.zone)), reverse=True), None)
    return opened is not None and opened.astimezone(UTC) > now - window.duration


def check_cron(text: str) -> None:
    """Raise ValueError unless a text is a cron expression of five fields."""
    from cronsim import CronSim, CronSimError

    if len(text.split()) != len(FIELDS.split(", ")):
        raise ValueError(f"not a cron expression: {text!r}; five fields are expected: {FIELDS}")
    try:
        CronSim(text, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise ValueError(f"not a cron expression: {text!r} ({error}); the fields are {FIELDS}") from None


MAX_PICKS = 15
"""Maximum cases of one admission: one transaction admits them with all their rows, and DynamoDB permits 100 writes."""

HOUR = timedelta(hours=1)
WITH_SEVERAL_REASONS = frozenset({WaitingFor.BUDGET, WaitingFor.BREAKER, WaitingFor.INCIDENT, WaitingFor.UPDATE})
"""The kinds of wait whose reason can change while a case waits. Each new reason is recorded."""

_LIMITS = frozenset({WaitingFor.BUDGET, WaitingFor.ISOLATION_BUDGET})


class Refused(Struct, frozen=True):
    """A case that must wait for its repair, the kind of wait, and the reason as a text for operators.

    `has_capacity` is True if only a limit refuses the case, and its group did not lack capacity at the last try.
    """

    queued: QueuedCase
    waiting_for: WaitingFor
    reason: str
    has_capacity: bool = False

    @property
    def recorded(self) -> bool:
        """Return whether the case records this refusal already, so that nothing must be written."""
        queued = self.queued
        same = queued.waiting_for is self.waiting_for
        if self.waiting_for in WITH_SEVERAL_REASONS:
            return same and queued.reason == self.reason
        return same and (self.waiting_for is not WaitingFor.APPROVAL or queued.approval_pending)


class Admission(Struct, frozen=True):
    """The cases to admit, most urgent first, and the refused cases. Other cases wait for the next call."""

    picks: tuple[QueuedCase, ...] = ()
    refusals: tuple[Refused, ...] = ()


class AdmissionRequest(Struct, frozen=True):
    """The input of every check for one case; `picks` are admitted in this call, `started` in the last hour."""

    control: Control
    policy: Policy
    queued: QueuedCase
    rule: Rule
    picks: tuple[QueuedCase, ...]
    started: int
    now: datetime
    holds: tuple[UpdateHold, ...] = ()
    use: IsolationUse | None = None

    @property
    def picked_slots(self) -> int:
        """Return the number of repair slots that the cases in `picks` need."""
        return sum(pick.repair_action.needs_slot for pick in self.picks)

    @property
    def breaker(self) -> Breaker | None:
        """Return the strictest open or half-open breaker that limits repairs of the node, or None."""
        return self.control.breaker(self.queued.domain)


def admit(
    control: Control,
    policy: Policy,
    waiting: Iterable[QueuedCase],
    now: datetime,
    holds: Iterable[UpdateHold] = (),
    use: IsolationUse | None = None,
) -> Admission:
    """Return the most urgent cases that no check refuses, at most `MAX_PICKS`, and the refused cases."""
    in_force = tuple(one for one in holds if one.until > now)
    picks: list[QueuedCase] = []
    refusals: list[Refused] = []
    started = sum(1 for _ in recent_starts(control, now))
    for queued in sorted(waiting, key=urgency):
        rule = policy.rule_named(queued.rule)
        request = AdmissionRequest(control, policy, queued, rule, tuple(picks), started, now, in_force, use)
        refused = next((refusal for check in CHECKS if (refusal := check(request))), None)
        if refused is not None:
            limited = refused.waiting_for in _LIMITS and queued.group not in control.no_capacity_until
            refusals.append(replace(refused, has_capacity=limited))
        elif len(picks) < MAX_PICKS:
            picks.append(queued)
    return Admission(tuple(picks), tuple(refusals))


def urgency(queued: QueuedCase) -> tuple[int, bool, datetime, str]:
    """Return the place of a case in the order in which admission takes the cases."""
    tried = queued.not_before if queued.waiting_for is WaitingFor.CAPACITY else None
    return queued.priority, tried is not None, tried or queued.since, queued.case


def recent_starts(control: Control, now: datetime) -> Iterator[datetime]:
    """Return the start times of the repairs that started within the last hour."""
    return (start for start in control.starts if start > now - HOUR)


def _check_pause(request: AdmissionRequest) -> Refused | None:
    if request.control.paused:
        return Refused(request.queued, WaitingFor.PAUSE, "repairs of this cluster are paused")
    return None


def _check_incident(request: AdmissionRequest) -> Refused | None:
    queued, since = request.queued, request.queued.repeated_since
    incident = request.control.incident_of(queued.key.node, queued.domains, queued.families, repeated_since=since)
    if incident is None:
        return None
    hold = request.control.holds[incident]
    if hold.domain in queued.domains and hold.family not in queued.families:
        reason = f"incident {incident} is open: it explains why the last attempt failed in {hold.domain.text}"
    elif hold.domain in queued.domains or is_placed(queued.domains):
        reason = f"incident {incident} is open: its nodes share one cause"
    else:
        reason = f"incident {incident} is open, and whether this node shares its cause is not known yet"
    return Refused(queued, WaitingFor.INCIDENT, reason)


def _check_update(request: AdmissionRequest) -> Refused | None:
    """Refuse a repair, except a verification, in a group whose repairs pause for its owner's update."""
    queued = request.queued
    hold = next((one for one in request.holds if one.group == queued.group), None)
    if hold is None or not queued.repair_action.needs_slot:
        return None
    what = "is being updated by its owner, or its block ends" if hold.running else "was updated by its owner"
    return Refused(queued, WaitingFor.UPDATE, f"{hold.group} {what}; repairs wait until {to_text(hold.until)} at most")


def _check_not_before(request: AdmissionRequest) -> Refused | None:
    queued = request.queued
    if queued.not_before is not None and queued.not_before > request.now:
        return Refused(queued, queued.waiting_for or WaitingFor.WAIT, "the waiting period is not over")
    return None


def _check_breaker(request: AdmissionRequest) -> Refused | None:
    breaker = request.breaker
    if breaker is None or not request.queued.repair_action.needs_slot:
        return None
    if breaker.stays_open:
        reason = "the breaker opened too often and stays open until no node fails or an operator closes it"
        return Refused(request.queued, WaitingFor.BREAKER, reason)
    if breaker.state is BreakerState.OPEN:
        return Refused(request.queued, WaitingFor.BREAKER, "too many nodes fail at once: the breaker is open")
    trials = sum(since >= breaker.since for since in request.control.holders.values())
    if trials + request.picked_slots >= breaker.trial:
        return Refused(request.queued, WaitingFor.BREAKER, "the breaker is half open: its trial repairs still run")
    return None


def _check_approval(request: AdmissionRequest) -> Refused | None:
    queued = request.queued
    if queued.approval_pending:
        return Refused(queued, WaitingFor.APPROVAL, "the approval request is not answered yet")
    if queued.repair_action in request.rule.approval and not queued.approved:
        return Refused(
            queued, WaitingFor.APPROVAL, f"{queued.repair_action.value} requires approval: rule {request.rule.name}"
        )
    return None


def _check_window(request: AdmissionRequest) -> Refused | None:
    closed = closed_window((request.rule,), request.queued.repair_action, request.now)
    return Refused(request.queued, WaitingFor.WINDOW, closed) if closed else None


def closed_window(rules: Iterable[Rule], action: RepairAction, now: datetime) -> str | None:
    """Return why a repair must wait for a maintenance window; None in an open one and for a verification."""
    for rule in rules:
        if action.needs_slot and rule.windows and not any(is_open(one, now) for one in rule.windows):
            return f"no maintenance window of rule {rule.name} is open"
    return None


def _check_capacity(request: AdmissionRequest) -> Refused | None:
    """Refuse the replacement of a node in a group that owes a successor, or had no capacity at the last try.

    The result is None for any other repair, and for one replacement per call after the waiting time of the group.
    """
    queued, group, no_capacity_until = request.queued, request.queued.group, request.control.no_capacity_until
    vacancies, action = request.control.vacancies, queued.repair_action
    if owed := owed_successor(vacancies, queued.key.node, group, action, request.now):
        return Refused(queued, WaitingFor.CAPACITY, owed)
    if action is not RepairAction.REPLACE_NODE or group is None or group not in no_capacity_until:
        return None
    trying = any(pick.group == group and pick.repair_action is RepairAction.REPLACE_NODE for pick in request.picks)
    if not trying and no_capacity_until[group] <= request.now:
        return None
    return Refused(queued, WaitingFor.CAPACITY, f"{group} had no capacity; one replacement at a time tries again")


def _check_budget(request: AdmissionRequest) -> Refused | None:
    limits = request.policy.limits
    if not request.queued.repair_action.needs_slot:
        return None
    control, node, left = request.control, request.queued.key.node, limits.concurrent - request.picked_slots
    if used_up := used_up_slots(control.holders, control.vacancies, node, request.queued.repair_action, left):
        return Refused(request.queued, WaitingFor.BUDGET, used_up)
    if request.started + request.picked_slots >= limits.per_hour:
        return Refused(request.queued, WaitingFor.BUDGET, "the policy's limit of repairs per hour is reached")
    return None


def recent_evictions(control: Control, mode: str, now: datetime) -> list[str]:
    """Return the cases of this failure mode whose repair drained a lost node of the cluster within the last hour."""
    return [case for case, one in control.evictions.items() if one.mode == mode and one.at > now - HOUR]


def _check_isolation(request: AdmissionRequest) -> Refused | None:
    """Refuse the repair of a serving node without a permit, which is taken only when the node is isolated."""
    queued, use = request.queued, request.use
    if use is None or not queued.needs_permit:
        return None
    refused = use.refusal(queued.key.node, queued.domains)
    return Refused(queued, WaitingFor.ISOLATION_BUDGET, refused) if refused else None


def _check_evictions(request: AdmissionRequest) -> Refused | None:
    """Refuse the drain of a lost node if too many nodes were drained for its failure mode within an hour.

    A source that wrongly proves one fault on every node must not stop all work of the cluster.
    """
    queued, use = request.queued, request.use
    if use is None or queued.lost is None or not use.evicts:
        return None
    drained = recent_evictions(request.control, queued.lost, request.now)
    drained += [pick.case for pick in request.picks if pick.lost == queued.lost]
    limit = eviction_limit(use, FailureDomain(DomainKind.CLUSTER, queued.key.cluster))
    if queued.case in drained or len(drained) < limit:
        return None
    reason = f"{limit} nodes were drained for {queued.lost} within an hour, the limit; this node is cordoned"
    return Refused(queued, WaitingFor.ISOLATION_BUDGET, reason)


CHECKS: tuple[Callable[[AdmissionRequest], Refused | None], ...] = (
    _check_pause,
    _check_incident,
    _check_update,
    _check_not_before,
    _check_breaker,
    _check_approval,
    _check_window,
    _check_capacity,
    _check_budget,
    _check_isolation,
    _check_evictions,
)
"""The admission checks in order; the first refusal is the reason that operators see."""
