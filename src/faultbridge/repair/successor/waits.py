"""Waits for capacity or a successor: checks capacity before an attempt starts, and pages if a wait is too long."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from faultbridge.decide import entry_builder
from faultbridge.decide.case_moves import Rules
from faultbridge.model.cases import Attempt, Phase
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, NoteKind, RepairAction, WaitingFor
from faultbridge.model.log import Failures
from faultbridge.model.nodes import NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.node_rows import QueuedCase
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.record.queries import queued_cases
from faultbridge.record.rulebook import rules_of
from faultbridge.repair.attempt.step_context import Change, StepContext, StepTools
from faultbridge.repair.attempt.step_contract import StepRequest
from faultbridge.repair.successor import sources
from faultbridge.repair.successor.sources import ask_sources

PAGE_DRAIN_AFTER = timedelta(minutes=10)
"""How long the work of a node may delay its drain before an operator is paged."""

CHECK_AHEAD = timedelta(minutes=2)
"""The capacity of a group is checked when its postponement ends sooner, so that no attempt starts without the check."""


def check_capacity_waits(tools: StepTools, cluster: str) -> None:
    """Page for the cases that wait too long for capacity, and check the capacity of their groups.

    The checks start no attempt and write no entries: the case counts them (`capacity_checks`). Nothing is done for a
    cluster that Faultbridge does not repair.
    """
    rules, now, failures = rules_of(tools.rulebook, cluster), tools.clock.now(), Failures()
    if not rules.config.repairs:
        return
    waiting = [one for one in queued_cases(tools.table, rules.config) if one.waiting_for is WaitingFor.CAPACITY]
    limit = rules.policy.limits.page_waiting_after
    for queued in waiting:
        if queued.capacity_since is not None and now >= queued.capacity_since + limit:
            with failures.collect(f"paging for {queued.key.stream}"):
                tools.append(queued.key, _page_for_capacity, actor=Actor.DISPATCH)
    control = items.read_control(cluster, tools.table.get(keys.cluster_control(cluster)))
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
    instance = state.incarnation.instance_id if state.incarnation else None
    if group is None or case is None or case.status is not CaseStatus.QUEUED or instance is None:
        return
    number = case.attempts + 1
    attempt = replace(case, attempts=number, attempt=Attempt(number, Phase.ADMITTED))
    request = StepRequest(sources.NAME, queued.key, case.id, number)
    context = StepContext(tools, request, rules, replace(state, case=attempt))
    capacity = sources.CapacityCheck(ask_sources(context, instance, group))
    if capacity.only_a_launch_shows:
        return
    if capacity.is_dry:
        tools.append(queued.key, _count_check, actor=Actor.DISPATCH)
    sources.mark_group(context, until=until + sources.DRY_FOR if capacity.is_dry else context.now)


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


def _page_for_capacity(state: NodeState, now: datetime) -> Transition:
    case = state.live_case
    if case is None or case.waiting_for is not WaitingFor.CAPACITY or case.capacity_since is None or case.wait_paged:
        return Transition(state)
    checks = f"capacity was checked {case.capacity_checks + case.uncounted} times"
    return _page(state, now, "capacity", case.capacity_since, f"{checks}: {case.reason}")


def page_for_successor(context: StepContext, reason: str) -> None:
    """Page an operator, once, if the step has waited for a successor longer than the policy permits."""
    limit = context.rules.policy.limits.page_waiting_after
    page_overdue_wait(context, "a successor", context.attempt.since, reason, limit)


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
        if case is None or (case.capacity_since is None and not case.wait_paged):
            return changed
        after = replace(changed.state, case=replace(case, capacity_since=None, wait_paged=False))
        note = entry_builder.note(kind=NoteKind.WAITING, text="the wait is over", at=now, case_id=case.id, stage="over")
        return replace(changed, state=after, drafts=(*changed.drafts, *((note,) if case.wait_paged else ())))

    return ended
