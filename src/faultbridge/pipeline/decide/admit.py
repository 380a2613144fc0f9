"""Admit: which waiting cases may be repaired now, and what each of the others waits for.

A function of the cluster's slots, the limits, the queue and the time; nothing here is written or read elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from faultbridge.domain.breakers import Breaker, BreakerState
from faultbridge.domain.cases import RepairAction, WaitingFor
from faultbridge.domain.clusters import Control
from faultbridge.domain.policy import Policy, Rule
from faultbridge.domain.queue import QueuedCase

MAX_PICKS = 15
"""One transaction admits all picks, with the rows of each: 100 writes are the service's limit."""

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Refused:
    """A case that must wait on, and why; the reason is the same text for as long as it is the same reason."""

    queued: QueuedCase
    waiting_for: WaitingFor
    reason: str


@dataclass(frozen=True, slots=True)
class Admission:
    """The cases to admit, most urgent first, and those to leave where they are."""

    picks: tuple[QueuedCase, ...] = ()
    refusals: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """One case before the court: the cluster's slots, the policy and the case's rule, and the cases picked before.

    `begun` is how many repairs began within the hour.
    """

    control: Control
    policy: Policy
    queued: QueuedCase
    rule: Rule
    picks: tuple[QueuedCase, ...]
    begun: int
    now: datetime

    @property
    def taken(self) -> int:
        """Return how many slots the cases picked before will hold."""
        return sum(pick.repair_action.needs_slot for pick in self.picks)

    @property
    def breaker(self) -> Breaker | None:
        """Return the strictest breaker over the case's node that is not closed."""
        return self.control.breaker(self.queued.domain)


def admit(control: Control, policy: Policy, waiting: Iterable[QueuedCase], now: datetime) -> Admission:
    """Pick the most urgent and oldest cases for which there is room; a case behind the last pick waits its turn."""
    picks: list[QueuedCase] = []
    refusals: list[Refused] = []
    begun = sum(1 for _ in recent(control, now))
    for queued in sorted(waiting, key=lambda one: (one.priority, one.since, one.case)):
        asked = Asked(control, policy, queued, policy.rule_named(queued.rule), tuple(picks), begun, now)
        refused = next((refusal for judge in JUDGES if (refusal := judge(asked))), None)
        if refused is not None:
            refusals.append(refused)
        elif len(picks) < MAX_PICKS:
            picks.append(queued)
    return Admission(tuple(picks), tuple(refusals))


def recent(control: Control, now: datetime) -> Iterator[datetime]:
    """List the repairs begun within the last hour, oldest first."""
    return (start for start in control.starts if start > now - HOUR)


def _paused(asked: Asked) -> Refused | None:
    if asked.control.paused:
        return Refused(asked.queued, WaitingFor.PAUSE, "repairs of this cluster are paused")
    return None


def _early(asked: Asked) -> Refused | None:
    queued = asked.queued
    if queued.not_before is not None and queued.not_before > asked.now:
        return Refused(queued, queued.waiting_for or WaitingFor.WAIT, "its time has not come")
    return None


def _broken(asked: Asked) -> Refused | None:
    breaker = asked.breaker
    if breaker is None or not asked.queued.repair_action.needs_slot:
        return None
    if breaker.state is BreakerState.OPEN:
        return Refused(asked.queued, WaitingFor.BREAKER, "too many nodes fail at once: the breaker is open")
    tried = sum(since >= breaker.since for since in asked.control.holders.values())
    if tried + asked.taken >= breaker.trial:
        return Refused(asked.queued, WaitingFor.BREAKER, "the breaker is half open: others are tried first")
    return None


def _unapproved(asked: Asked) -> Refused | None:
    queued = asked.queued
    if queued.asking:
        return Refused(queued, WaitingFor.APPROVAL, "a person was asked and has not answered")
    if queued.repair_action in asked.rule.approval and not queued.approved:
        return Refused(
            queued, WaitingFor.APPROVAL, f"{queued.repair_action.value} begins by approval: rule {asked.rule.name}"
        )
    return None


def _shut(asked: Asked) -> Refused | None:
    windows = asked.rule.windows
    if windows and asked.queued.repair_action.needs_slot and not any(window.is_open(asked.now) for window in windows):
        return Refused(asked.queued, WaitingFor.WINDOW, f"no window of rule {asked.rule.name} is open")
    return None


def _dry(asked: Asked) -> Refused | None:
    group = asked.queued.group
    if group is None or group not in asked.control.dry or asked.queued.repair_action is not RepairAction.REPLACE_NODE:
        return None
    probing = any(pick.group == group and pick.repair_action is RepairAction.REPLACE_NODE for pick in asked.picks)
    if probing or asked.control.dry[group] > asked.now:
        return Refused(asked.queued, WaitingFor.CAPACITY, f"{group} had no capacity; one repair at a time looks again")
    return None


def _full(asked: Asked) -> Refused | None:
    limits = asked.policy.limits
    if not asked.queued.repair_action.needs_slot:
        return None
    if len(asked.control.holders) + asked.taken >= limits.concurrent:
        return Refused(asked.queued, WaitingFor.BUDGET, "as many repairs run as the policy allows at a time")
    if asked.begun + asked.taken >= limits.per_hour:
        return Refused(asked.queued, WaitingFor.BUDGET, "as many repairs began within the hour as the policy allows")
    return None


JUDGES: tuple[Callable[[Asked], Refused | None], ...] = (
    _paused,
    _early,
    _broken,
    _unapproved,
    _shut,
    _dry,
    _full,
)
"""What may keep a case waiting, in the order in which it is told."""
