"""Sources of capacity: queried in the order of the policy until one has an instance for the successor.

The capacity for waiting cases is checked before their attempts start, and a wait that is too long sends a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.decide.case_moves import Rules
from faultbridge.decide.governing_rules import governing_rules
from faultbridge.decide.provider_conditions import ENDS_WITHIN
from faultbridge.model.cases import HELD_SINCE, WORK, Attempt, Case, Phase, Reason
from faultbridge.model.cluster.config import CapacitySource
from faultbridge.model.cluster.state import Control
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, NoteKind, ProviderFailure, RepairAction, WaitingFor
from faultbridge.model.errors import Conflict, Transient
from faultbridge.model.fault_enums import Severity
from faultbridge.model.log import Failures
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.node_rows import QueuedCase
from faultbridge.model.storage.writes import Path, Value
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import CallResult, Capacity, CapacityEvidence, Launcher
from faultbridge.record.queries import cluster_control, queued_cases
from faultbridge.record.rulebook import rules_of
from faultbridge.repair.attempt.step_context import (
    Change,
    StepContext,
    StepRequest,
    StepResult,
    StepTools,
    live_attempt,
    update_attempt,
)
from faultbridge.repair.successor.launch import (
    SAME_TOKEN,
    case_request,
    fallback_types,
    free_launches,
    launch_request,
    source_of_type,
    take_spare,
    taken_spare,
    types_to_launch,
)
from faultbridge.repair.volumes import in_zones, volume_zones


def count_pending(context: StepContext, control: Control | None = None) -> int:
    """Return how many other replacements of the group passed their intent without an instance."""
    cluster, group, table = context.state.key.cluster, context.state.placement.group, context.tools.table
    control = control or cluster_control(table, cluster)
    rows = table.get_many(keys.case(name) for name in control.holders if name != context.case.id)
    waiting = [NodeKey(cluster, str(row["node"])) for row in rows.values() if _awaits_successor(items.read_case(row))]
    return sum(state.placement.group == group for state in context.tools.append.read_many(waiting))


def _awaits_successor(case: Case) -> bool:
    attempt = case.attempt
    intent = attempt.intent if attempt else None
    replaces = intent is not None and intent.repair_action is RepairAction.REPLACE_NODE
    return attempt is not None and replaces and attempt.successor is None


class Decision(StrEnum):
    """What the answer of a capacity source decides about the release of the old instance.

    - `used`: the source permits the release.
    - `none_free`: the source has no free instance, or ends within an hour (`ENDS_WITHIN`).
    - `unknown`: it is not known whether the source has a free instance.
    - `absent`: the source does not exist.
    """

    USED = "used"
    NONE_FREE = "none_free"
    UNKNOWN = "unknown"
    ABSENT = "absent"


class SourceAnswer(Struct, frozen=True):
    """The answer of a source, a spare taken from it, and the replacements that use it first."""

    source: CapacitySource
    found: Capacity
    now: datetime
    spare: str | None = None
    pending: int = 0

    @property
    def decision(self) -> Decision:
        """Return what the answer decides about the release of the old instance."""
        if self.found.evidence is CapacityEvidence.ABSENT:
            return Decision.ABSENT
        if self.found.evidence is CapacityEvidence.NONE:
            return Decision.UNKNOWN if self.found.free else Decision.NONE_FREE
        free = self.found.free and self.is_enough_for(self.pending)
        return Decision.USED if free and not self._ends_soon else Decision.NONE_FREE

    @property
    def reason(self) -> str:
        """Return why the source permits or refuses the release of the old instance; empty without a reason."""
        found = self.found
        without = "" if found.free else f"{found.evidence.value} has no free capacity"
        ends = f"it ends at {to_text(found.ends_at)}" if found.ends_at and self._ends_soon else ""
        used = "" if self.is_enough_for(self.pending) else f"{self.pending} replacements in progress use them first"
        return "; ".join(filter(None, (found.reason or without, used, ends)))

    @property
    def fact(self) -> dict[str, object]:
        """Return the answer as a timeline entry records it: source, decision, free instances and reason."""
        return {
            "source": self.source.value,
            "decision": self.decision.value,
            "free": self.found.count,
            "reason": self.reason,
        }

    @property
    def is_shared(self) -> bool:
        """Return whether the source is a reservation with a known number of free instances."""
        found = self.found
        return found.free and found.count is not None and found.evidence is CapacityEvidence.RESERVATION

    def is_enough_for(self, pending: int) -> bool:
        """Return whether a shared source has an instance left after `pending` replacements."""
        return not self.is_shared or (self.found.count or 0) > pending

    @property
    def _ends_soon(self) -> bool:
        return self.found.ends_at is not None and self.found.ends_at < self.now + ENDS_WITHIN


def ask_sources(context: StepContext, instance_id: str, group: str) -> tuple[SourceAnswer, ...]:
    """Query the policy's sources of capacity in order, until one permits the release of the old instance.

    Returns the answers in the order of the queries. Only the last answer can permit the release.

    If the case already has a spare or a launched successor, no source is queried, and the result is one answer about
    this instance. A query could wrongly find no free instance, because the case itself may have taken the last one.
    """
    present = _present(context, instance_id, group)
    if present is not None:
        return (present,)
    answers: list[SourceAnswer] = []
    own: Mapping[CapacitySource, Callable[[], SourceAnswer]] = {
        CapacitySource.SPARE_POOL: lambda: _spare(context, instance_id, group),
        CapacitySource.FALLBACK_TYPES: lambda: _fallback(context),
    }
    for source in context.rules.policy.capacity:
        ask = own.get(source)
        found = ask() if ask else _provided(context, source, instance_id, group)
        answers.append(found)
        if found.decision is Decision.USED:
            break
    return tuple(answers)


def _provided(context: StepContext, source: CapacitySource, instance_id: str, group: str) -> SourceAnswer:
    found = SourceAnswer(source, context.provider.capacity(source, instance_id, group), context.now)
    # A launcher starts its successor before the release, so the count of the source already shows it.
    if context.launcher is not None or not found.is_shared:
        return found
    return replace(found, pending=count_pending(context))


def _present(context: StepContext, instance_id: str, group: str) -> SourceAnswer | None:
    """Return an answer for the fitting spare or launched instance that the case already has, or None."""
    if context.launcher is None:
        return None
    taken = _taken(context, instance_id)
    if taken is not None:
        return taken
    launched = next(iter(free_launches(context, context.launcher, case_request(context, group))), None)
    if launched is None:
        return None
    source = source_of_type(context, launched.instance_type)
    reason = f"{launched.instance_id} was launched by an earlier attempt"
    return SourceAnswer(source, Capacity(CapacityEvidence.LAUNCH_FIRST, reason=reason), context.now)


def _taken(context: StepContext, instance_id: str) -> SourceAnswer | None:
    spare = taken_spare(context, lambda spare: in_zones(context, spare, volume_zones(context, instance_id)))
    if spare is None:
        return None
    found = Capacity(CapacityEvidence.SPARE, reason=spare)
    return SourceAnswer(CapacitySource.SPARE_POOL, found, context.now, spare)


def _spare(context: StepContext, instance_id: str, group: str) -> SourceAnswer:
    if context.launcher is None or not context.rules.config.spares:
        found = Capacity(CapacityEvidence.ABSENT, reason="the cluster keeps no spares")
        return SourceAnswer(CapacitySource.SPARE_POOL, found, context.now)
    zones = volume_zones(context, instance_id)
    spare = take_spare(context, group, lambda spare: in_zones(context, spare, zones))
    where = f" in {', '.join(sorted(zones))}" if zones else ""
    reason = spare or f"no verified spare with as many GPUs is free{where}"
    found = Capacity(CapacityEvidence.SPARE, free=spare is not None, reason=reason, count=None if spare else 0)
    return SourceAnswer(CapacitySource.SPARE_POOL, found, context.now, spare)


def _fallback(context: StepContext) -> SourceAnswer:
    """Return the answer for fallback types; the launch before the release shows their capacity."""
    types = fallback_types(context) if context.launcher else ()
    evidence = CapacityEvidence.LAUNCH_FIRST if types else CapacityEvidence.ABSENT
    reason = ", ".join(types) or "the cluster has no further instance type"
    return SourceAnswer(CapacitySource.FALLBACK_TYPES, Capacity(evidence, reason=reason), context.now)


# Capacity for a successor: whether there is evidence of free capacity that permits a release.
#
# Further replacements in a group without capacity are postponed.

NAME = "capacity"
DRY_FOR = timedelta(minutes=10)
"""How long a group without capacity gets no new replacement, before one repair checks its capacity again."""


class CapacityCheck(Struct, frozen=True):
    """The answers of the queried sources, and the step's result if it must end now."""

    answers: tuple[SourceAnswer, ...]
    result: StepResult | None = None

    @property
    def used(self) -> SourceAnswer | None:
        """Return the answer that permits the release of the old instance, or None if no answer does."""
        return next((one for one in self.answers if one.decision is Decision.USED), None)

    @property
    def source(self) -> CapacitySource | None:
        """Return the source of capacity that permits the release of the old instance, or None."""
        return self.used.source if self.used else None

    @property
    def spare(self) -> str | None:
        """Return the id of the spare instance that was taken for the case, or None."""
        return self.used.spare if self.used else None

    @property
    def is_dry(self) -> bool:
        """Return whether sources exist, and each of them reports that it has no free instance."""
        decisions = {one.decision for one in self.answers}
        return Decision.NONE_FREE in decisions and decisions.isdisjoint({Decision.USED, Decision.UNKNOWN})

    @property
    def reason(self) -> str:
        """Return why a source permits the release of the old instance, or why no source permits it."""
        if self.used:
            return self.used.reason
        return "; ".join(one.reason for one in self.answers if one.reason and one.decision is not Decision.ABSENT)

    @property
    def text(self) -> str:
        """Return the source of capacity and the reason as text, for the entry that records the release."""
        source = f"capacity from {self.used.source.value}" if self.used else "no source of capacity counts"
        return f"{source}: {self.reason}" if self.reason else source

    @property
    def facts(self) -> dict[str, object]:
        """Return the facts about the capacity that an entry records."""
        evidence = self.used.found.evidence if self.used else CapacityEvidence.NONE
        found = {
            "capacity_evidence": evidence.value,
            "capacity_source": self.source.value if self.source else None,
            "capacity": self.reason,
            "spare": self.spare,
            "capacity_sources": [one.fact for one in self.answers],
        }
        return {name: value for name, value in found.items() if value}


def is_left(context: StepContext, found: CapacityCheck, control: Control) -> bool:
    """Return whether a shared source still has an instance after the replacements in progress."""
    if found.used is None or context.launcher is not None or not found.used.is_shared:
        return True
    return found.used.is_enough_for(count_pending(context, control))


def find_capacity(context: StepContext, instance_id: str, group: str) -> CapacityCheck:
    """Query the sources of capacity in the policy, and decide whether the instance may be released.

    - If a source has a free instance, the release is permitted.
    - If sources exist, and each of them reports that it has none, the case is queued again and waits.
    - If it is unknown whether a source has a free instance, or no source exists, an operator must approve the release.

    The approval is not needed if the fault is fatal or the node never served, and all policy rules of the repair have
    `release_without_capacity`. But it is always needed if no source exists and the policy does not list `on_demand`,
    because a policy without `on_demand` demands a reservation.
    """
    found = CapacityCheck(ask_sources(context, instance_id, group))
    if found.used:
        return found
    if found.is_dry:
        return replace(found, result=requeue_without_capacity(context, found.reason, found.facts))
    if context.case.approves(context.case.repair_action, context.case.attempts):
        return found
    useless = context.case.severity is Severity.FATAL or context.case.before_service
    # A list without `on_demand` demands a reservation: without any, the rule must not release the instance on demand.
    case, policy, decisions = context.case, context.rules.policy, {one.decision for one in found.answers}
    demanded = CapacitySource.ON_DEMAND not in policy.capacity and decisions == {Decision.ABSENT}
    rules = governing_rules(context.state, case, policy, case.repair_action)
    if useless and all(rule.release_without_capacity for rule in rules) and not demanded:
        permitted = f"rule {', '.join(rule.name for rule in rules)} permits it"
        context.log("released_without_capacity_evidence", permitted, instance_id=instance_id)
        return found
    reason = "no evidence of capacity for a replacement instance"
    reason = f"{reason}: {found.reason}" if found.reason else reason
    draft = context.entry("unproven", step=NAME, reason=reason, old_instance=instance_id, facts=found.facts)
    return replace(found, result=context.request_approval(reason, draft))


def requeue_without_capacity(
    context: StepContext, reason: str, facts: Mapping[str, object] = MappingProxyType({})
) -> StepResult:
    """Queue the case again, keep the instance, and postpone replacements of its group."""
    old, none_left = context.instance_id, Reason(reason, ProviderFailure.CAPACITY)
    draft = context.entry(
        "none_left", step=NAME, reason=reason, failure=none_left.failure, old_instance=old, facts=facts
    )
    result = context.requeue(WaitingFor.CAPACITY, none_left, draft, counts=False)
    mark_group(context, until=context.now + DRY_FOR)
    return result


def mark_group(context: StepContext, *, until: datetime | None) -> None:
    """Store until when replacements of the group wait (None: capacity again); a conflict stores nothing."""
    group = context.state.placement.group
    control = cluster_control(context.tools.table, context.state.key.cluster)
    if group is None or (until is None and group not in control.no_capacity_until):
        return
    others = {name: until for name, until in control.no_capacity_until.items() if name != group}
    marked = others | ({group: until} if until else {})
    value: dict[Path, Value] = {("no_capacity_until",): {name: to_text(until) for name, until in marked.items()}}
    try:
        context.tools.table.write(items.control_update(control, value))
    except Conflict as conflict:
        context.log("capacity_mark_lost", str(conflict), group=group)


# Provides a successor if the old instance of a node is gone and the case has no successor.
#
# This happens if another controller terminated the old instance, or if the successor was terminated before it was
# claimed. No instance is released, so no evidence of capacity is required: a launch shows whether there is capacity.


def provide_successor(context: StepContext) -> tuple[StepContext, str]:
    """Take a ready spare or launch a successor, unless the case already has an instance.

    If the policy lists the spare pool first, a spare is taken before a launch. If the policy lists it after another
    source, a spare is taken only after a launch was refused. Returns the context after these changes, and why the
    launch failed, or ''.
    """
    launcher, group = context.launcher, context.state.placement.group
    if launcher is None or group is None or free_launches(context, launcher, launch_request(context, group)):
        return context, ""
    sources = context.rules.policy.capacity
    is_first = sources[:1] == (CapacitySource.SPARE_POOL,)
    taken = _take_spare(context, group) if is_first else None
    if taken is not None:
        return taken, ""
    context, answer = _launch(context, launcher, group)
    if answer.ok or answer.failure in SAME_TOKEN or is_first or CapacitySource.SPARE_POOL not in sources:
        return context, answer.reason
    taken = _take_spare(context, group)
    return (context, answer.reason) if taken is None else (taken, "")


def _take_spare(context: StepContext, group: str) -> StepContext | None:
    old = context.instance_id
    if old is None:
        return None
    # A spare that the attempt has recorded could not be claimed. If earlier spares were returned too, two spares that
    # cannot be claimed, such as stopped instances, would replace each other without end, and nothing would be launched.
    taken = _taken(context, old) if context.attempt.spare is None else None
    found = CapacityCheck((taken or _spare(context, old, group),))
    spare = found.spare
    if spare is None:
        return None

    def revise(state: NodeState, now: datetime) -> Transition:
        case, _ = live_attempt(state)
        entry = entry_builder.step(
            case,
            NAME,
            "spare_taken",
            now,
            reason=found.text,
            old_instance=old,
            new_instance=spare,
            facts=found.facts,
        )
        return Transition(update_attempt(state, spare=spare), (entry,))

    context.log("spare_taken", "the old instance is gone and no successor runs", instance_id=spare)
    return context.commit(revise)


def _launch(context: StepContext, launcher: Launcher, group: str) -> tuple[StepContext, CallResult]:
    if context.attempt.launch_token is None:
        token, types = context.case.execution, context.attempt.instance_types or types_to_launch(context)
        context = context.commit(
            lambda state, _: Transition(update_attempt(state, launch_token=token, instance_types=types))
        )
    try:
        answer = launcher.launch(launch_request(context, group))
    except Transient as error:
        answer = CallResult(ProviderFailure.AMBIGUOUS, str(error))
    if not answer.ok:
        context.log("successor_launch_failed", answer.reason, failure=answer.failure)
    if not answer.ok and answer.failure not in SAME_TOKEN:
        context = context.commit(
            lambda state, _: Transition(update_attempt(state, launches=live_attempt(state)[1].launches + 1))
        )
    return context, answer


PAGE_DRAIN_AFTER = timedelta(minutes=10)
"""How long the work of a node may delay its drain before an operator is paged."""

PAGED = frozenset({WaitingFor.CAPACITY, WaitingFor.IDLE})
"""What a queued case may wait for so long that an operator is paged."""

CHECK_AHEAD = timedelta(minutes=2)
"""The capacity of a group is checked when its postponement ends sooner, so that no attempt starts without the check."""


def check_capacity_waits(tools: StepTools, cluster: str) -> None:
    """Page for the cases that wait too long for capacity or for an idle node, and check the capacity of groups.

    The checks start no attempt and write no entries: the case counts them (`capacity_checks`). Nothing is done for a
    cluster that Faultbridge does not repair.
    """
    rules, now, failures = rules_of(tools.rulebook, cluster), tools.clock.now(), Failures()
    if not rules.config.repairs:
        return
    waiting = [one for one in queued_cases(tools.table, rules.config) if one.waiting_for in PAGED]
    limit = rules.policy.limits.page_waiting_after
    for queued in waiting:
        if queued.capacity_since is not None and now >= queued.capacity_since + limit:
            with failures.collect(f"paging for {queued.key.stream}"):
                tools.append(queued.key, _page_for_wait, actor=Actor.DISPATCH)
    waiting = [one for one in waiting if one.waiting_for is WaitingFor.CAPACITY]
    control = cluster_control(tools.table, cluster)
    for queued in _first_of_each_group(waiting):
        until = control.no_capacity_until.get(queued.group or "")
        if until is not None and now < until <= now + CHECK_AHEAD:
            with failures.collect(f"checking the capacity for {queued.key.stream}"):
                _check_capacity(tools, queued, rules, until)
    if failures.first_error is not None:
        raise failures.first_error


def _check_capacity(tools: StepTools, queued: QueuedCase, rules: Rules, until: datetime) -> None:
    """Query the sources on behalf of the case's next attempt, and record the answer for its group."""
    state = tools.append.read(queued.key)
    case, group = state.live_case, state.placement.group
    instance = state.instance_id
    if group is None or case is None or case.status is not CaseStatus.QUEUED or instance is None:
        return
    number = case.attempts + 1
    attempt = replace(case, attempts=number, attempt=Attempt(number, Phase.ADMITTED))
    request = StepRequest(NAME, queued.key, case.id, number)
    context = StepContext(tools, request, rules, replace(state, case=attempt))
    capacity = CapacityCheck(ask_sources(context, instance, group))
    if capacity.used is not None and capacity.used.found.evidence is CapacityEvidence.LAUNCH_FIRST:
        return  # only the launch of the successor shows if the source has capacity
    if capacity.is_dry:
        tools.append(queued.key, _count_check, actor=Actor.DISPATCH)
    mark_group(context, until=until + DRY_FOR if capacity.is_dry else context.now)


def _first_of_each_group(waiting: Iterable[QueuedCase]) -> Iterable[QueuedCase]:
    replacements = [queued for queued in waiting if queued.repair_action is RepairAction.REPLACE_NODE]
    # In the order of admission: a case that has never tried precedes the others of its priority.
    replacements.sort(
        key=lambda case: (case.priority, case.not_before is not None, case.not_before or case.since, case.case)
    )
    return {queued.group: queued for queued in reversed(replacements)}.values()


def _count_check(state: NodeState, now: datetime) -> Transition:
    case = state.live_case
    if case is None or case.waiting_for is not WaitingFor.CAPACITY:
        return Transition(state)
    # The next check is on behalf of another case, whose own reservation may have a free instance.
    counted = replace(case, capacity_checks=case.capacity_checks + 1, not_before=now)
    return Transition(replace(state, case=counted))


def _page_for_wait(state: NodeState, now: datetime) -> Transition:
    case = state.live_case
    if case is None or case.wait_paged:
        return Transition(state)
    if case.waiting_for is WaitingFor.IDLE and HELD_SINCE in case.marks:
        return _page(state, now, WORK, case.marks[HELD_SINCE], case.reason)
    if case.waiting_for is not WaitingFor.CAPACITY or case.capacity_since is None:
        return Transition(state)
    checks = f"capacity was checked {case.capacity_checks + case.uncounted} times"
    return _page(state, now, "capacity", case.capacity_since, f"{checks}: {case.reason}")


def page_for_successor(context: StepContext, reason: str) -> None:
    """Page an operator, once, if the step has waited for a successor longer than the policy permits."""
    limit = context.rules.policy.limits.page_waiting_after
    page_overdue_wait(context, "a successor", context.attempt.since, reason, limit)


def page_for_work(context: StepContext, reason: str) -> None:
    """Page an operator, once, if work has held the repair of the node for longer than the policy permits."""
    since, limit = context.case.marks.get(HELD_SINCE), context.rules.policy.limits.page_waiting_after
    page_overdue_wait(context, WORK, since, reason, limit)


def page_overdue_wait(
    context: StepContext, waiting_for: str, since: datetime | None, reason: str, limit: timedelta
) -> None:
    """Page an operator, once, if the step has waited since `since` for longer than `limit`."""
    if since is not None and not context.case.wait_paged and context.now >= since + limit:
        context.commit(lambda state, now: _page(state, now, waiting_for, since, reason))


def _page(state: NodeState, now: datetime, waiting_for: str, since: datetime, reason: str) -> Transition:
    case = state.live_case
    if case is None:
        return Transition(state)
    text = f"the node waits for {waiting_for} since {to_text(since)}; {reason}"
    facts = {"waiting_for": waiting_for, "group": state.placement.group, "capacity_checks": case.capacity_checks}
    draft = entry_builder.note(kind=NoteKind.WAITING, text=text, at=now, case_id=case.id, facts=facts, stage="overdue")
    return Transition(replace(state, case=replace(case, wait_paged=True)), (draft,))


def ending_wait(change: Change) -> Change:
    """Return a change that also ends the wait of the case, and resolves the page about it."""

    def ended(state: NodeState, now: datetime) -> Transition:
        changed = change(state, now)
        case = changed.state.live_case
        if case is None or (case.capacity_since is None and not case.wait_paged and HELD_SINCE not in case.marks):
            return changed
        marks = {name: at for name, at in case.marks.items() if name != HELD_SINCE}
        after = replace(changed.state, case=replace(case, capacity_since=None, wait_paged=False, marks=marks))
        note = entry_builder.note(kind=NoteKind.WAITING, text="the wait is over", at=now, case_id=case.id, stage="over")
        return replace(changed, state=after, drafts=(*changed.drafts, *((note,) if case.wait_paged else ())))

    return ended
