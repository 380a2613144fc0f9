"""Dispatch: admits queued cases to repair, and starts the executions that drive their attempts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.decide.admit import HOUR, WITH_SEVERAL_REASONS, Refused, admit, closed_window, recent_starts
from faultbridge.decide.case_moves import Rules, escalate_case, exclusion_reason, move_case, resolve_case
from faultbridge.decide.governing_rules import choose_repair_action, governing_rules, rule_to_ask
from faultbridge.decide.isolation_budget import IsolationUse
from faultbridge.model.cases import Attempt, Case, Phase, Reason
from faultbridge.model.cluster.config import Mode, is_placed
from faultbridge.model.cluster.state import Control, Eviction
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, Isolation, NoteKind, RepairAction, Resolution, WaitingFor
from faultbridge.model.errors import Conflict, Misconfigured, Transient
from faultbridge.model.isolation import takes_work
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.policy import Rule
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.codec import dump
from faultbridge.model.storage.node_rows import QueuedCase, read_vacancies
from faultbridge.model.storage.projections import first_loss, queued_case
from faultbridge.model.storage.writes import Path, Update, Value
from faultbridge.model.times import to_text, truncate
from faultbridge.model.values import replace
from faultbridge.record.append import Append, append_many, transaction_token
from faultbridge.record.ports.messaging import Workflow
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import queued_cases, unhealthy_nodes
from faultbridge.record.rulebook import Rulebook, rules_of
from faultbridge.repair.attempt.step_context import ask_operator, execution_input
from faultbridge.repair.isolate import Isolate, keeps_work
from faultbridge.repair.isolation_permits import IsolationPermits

START_GRACE = timedelta(minutes=2)
"""How long the execution of an admitted case may take to start before the sweep checks it."""

CAPACITY_CHECK_TIME = timedelta(minutes=5)
"""A group without capacity gets one replacement attempt in this time, which checks its capacity again."""

FORGET_DRY_AFTER = timedelta(hours=2)
"""A group without capacity counts as available again if no repair checked it for this long."""


class ReadyCase(Struct, frozen=True):
    """A queued case that may be admitted: its node is out of service and its next repair action is chosen.

    `governed_by` names the policy rules that apply to the repair.
    """

    state: NodeState
    case: Case
    repair_action: RepairAction
    governed_by: tuple[str, ...]
    reason: str = ""


class AdmittedBatch(Struct, frozen=True):
    """The nodes of one batch that were admitted; `full` if the other cases may not start now."""

    admitted: Sequence[NodeState] = ()
    full: bool = False


def admit_case(ready: ReadyCase, now: datetime) -> Transition:
    """Return the transition that starts a case's next attempt; no other code starts one."""
    number = ready.case.attempts + 1
    case = replace(
        ready.case,
        status=CaseStatus.IN_PROGRESS,
        repair_action=ready.repair_action,
        attempts=number,
        attempt=Attempt(number, Phase.ADMITTED, probe_at=now + START_GRACE),
        waiting_for=None,
        not_before=None,
        because=Reason(ready.reason),
        governed_by=ready.governed_by,
    )
    reason = f"admitted: {ready.reason}" if ready.reason else "admitted"
    return move_case(Transition(ready.state), case, now, reason)


def take_slots(control: Control, ready: Sequence[ReadyCase], now: datetime) -> Update:
    """Return the write that takes repair slots of the cluster for admitted cases."""
    holding = [one for one in ready if one.repair_action.needs_slot]
    taken: dict[Path, Value] = {("holders", one.case.id): to_text(now) for one in holding}
    if holding:
        starts = [*recent_starts(control, now), *(now for _ in holding)]
        taken["starts",] = [to_text(start) for start in starts]
    draining = {one.case.id: mode for one in ready if (mode := first_loss(one.state, one.case)) is not None}
    if draining:
        recent = {case: one for case, one in control.evictions.items() if one.at > now - HOUR}
        recent |= {case: Eviction(mode, now) for case, mode in draining.items()}
        taken["evictions",] = dump(recent)
    # A group without capacity whose capacity is checked now waits longer.
    checked = {one.state.placement.group for one in holding if one.repair_action is RepairAction.REPLACE_NODE}
    kept = {group: until for group, until in control.no_capacity_until.items() if until > now - FORGET_DRY_AFTER}
    dry = {group: now + CAPACITY_CHECK_TIME if group in checked else until for group, until in kept.items()}
    if dry != control.no_capacity_until:
        taken["no_capacity_until",] = {group: to_text(until) for group, until in dry.items()}
    return items.control_update(control, taken)


def record_refusal(state: NodeState, refusal: Refused, rule: Rule, now: datetime) -> Transition:
    """Record what a queued case waits for, if that changed, and request an approval that it needs."""
    case = state.live_case
    if case is None or not _is_queued(case, refusal.queued.case):
        return Transition(state)
    must_ask = refusal.waiting_for is WaitingFor.APPROVAL and case.pending_approval is None
    # An operator may have approved the repair after it was refused.
    action = refusal.queued.repair_action
    if must_ask and case.cancelled and action is not RepairAction.VERIFY:
        return Transition(state)  # it was canceled after it was refused: only its verification remains
    answered = must_ask and case.approves(action, case.attempts + 1)
    other_reason = refusal.waiting_for in WITH_SEVERAL_REASONS and case.reason != refusal.reason
    if (case.waiting_for is refusal.waiting_for and not must_ask and not other_reason) or answered:
        return Transition(state)
    draft = entry_builder.note(
        kind=NoteKind.REFUSED,
        text=refusal.reason,
        at=now,
        case_id=case.id,
        facts={"waiting_for": refusal.waiting_for.value, "rule": refusal.queued.rule, "policy": case.policy},
    )
    since = None if refusal.has_capacity and not case.wait_paged else case.capacity_since
    since = (since or now) if refusal.waiting_for is WaitingFor.CAPACITY else since
    waiting = replace(case, waiting_for=refusal.waiting_for, because=Reason(refusal.reason), capacity_since=since)
    if must_ask:
        answer_by, asking = now + rule.approval_deadline, refusal.queued.rule
        return ask_operator(replace(state, case=waiting), action, refusal.reason, now, answer_by, rule=asking)
    return Transition(replace(state, case=waiting), (draft,))


def escalate_queued(state: NodeState, case_id: str, reason: str, now: datetime) -> Transition:
    """Escalate a case to an operator if it is still queued; otherwise, the node is unchanged."""
    case = state.live_case
    if case is None or not _is_queued(case, case_id):
        return Transition(state)
    return escalate_case(Transition(state), case, now, reason)


def resolve_dry_run(
    state: NodeState, case_id: str, repair_action: RepairAction | None, reason: str, now: datetime
) -> Transition:
    """Resolve a queued case of a dry run, with a note about the repair action that was not started."""
    case = state.live_case
    if case is None or not _is_queued(case, case_id):
        return Transition(state)
    text = f"would have started {repair_action.value}" if repair_action else "would have escalated to an operator"
    facts = {
        "isolate": case.isolate,
        "repair_action": repair_action.value if repair_action else None,
        "instance_id": state.instance_id,
        "rule": case.rule,
        "policy": case.policy,
    }
    draft = entry_builder.note(
        kind=NoteKind.WOULD_HAVE_DONE,
        text=f"{text}{': ' if reason else ''}{reason}",
        at=now,
        case_id=case.id,
        facts=facts,
    )
    return resolve_case(Transition(state, (draft,)), case, now, Resolution.DRY_RUN, "dry run")


def apply_dry_run(state: NodeState, case_id: str, rules: Rules, now: datetime) -> Transition:
    """Resolve, keep or escalate a queued case whose repair a dry run suppresses.

    - If the node is in service, the case is resolved.
    - If the node is out of service and the cluster is in mode `dry_run`, the case stays queued.
    - If the node is out of service and only the policy rule of the case is a dry run, a case that only verifies the
      node stays queued. Any other case is escalated to an operator.

    A node that is out of service keeps its case, because nothing would return the node to service without a case.
    """
    case = state.live_case
    if case is None or not _is_queued(case, case_id):
        return Transition(state)
    if state.status is not None and state.status.in_service:
        choice = choose_repair_action(state, case, rules.policy)
        return resolve_dry_run(state, case_id, choice.repair_action, choice.reason, now)
    if rules.config.mode is Mode.DRY_RUN or case.repair_action is RepairAction.VERIFY:
        return Transition(state)
    return escalate_queued(state, case_id, f"rule {case.rule} only reports, and the node is out of service", now)


def _is_queued(case: Case, case_id: str) -> bool:
    return case.id == case_id and case.status is CaseStatus.QUEUED


MAX_REFUSALS = 500
"""How many refusals one run of admission records if no case may start; the next run records the others.

In a burst, each node has two entries, so this is the number of cases that one batch of `react` (1,000 entries) adds.
"""
MAX_BEFORE_REPAIRS = 30
"""How many refusals are recorded before the cases that may start are admitted, so that these need not wait."""
GROUP = 50
"""How many cases are read at once. Their refusals are recorded, in a few transactions, before more cases are read."""


def record_if_all_wait(
    append: Append,
    queued: Sequence[QueuedCase],
    control: Control,
    rules: Rules,
    now: datetime,
    use: IsolationUse | None,
) -> bool:
    """If no queued case may start now, record what the cases wait for, and return True.

    If any case may start or is a dry run, record nothing and return False.

    The arguments may come from a cache and be outdated, which does no harm: each change that permits a repair
    triggers another dispatch, and a refusal is recorded only if the case is still queued.
    """
    if rules.config.mode is Mode.DRY_RUN or any(rules.policy.rule_named(case.rule).dry_run for case in queued):
        return False
    admission = admit(control, rules.policy, queued, now, rules.config.update_holds, use)
    if not admission.picks:
        record_refusals(append, admission.refusals, rules)
    return not admission.picks


def record_refusals(append: Append, refusals: Iterable[Refused], rules: Rules, limit: int = MAX_REFUSALS) -> None:
    """Record what each case waits for, if that changed; a later call records those beyond `limit`."""
    changed = list(islice((refusal for refusal in refusals if not refusal.recorded), limit))
    for start in range(0, len(changed), GROUP):
        refused = {refusal.queued.key: refusal for refusal in changed[start : start + GROUP]}

        def revise(state: NodeState, now: datetime, refused: Mapping[NodeKey, Refused] = refused) -> Transition:
            refusal = refused[state.key]
            return record_refusal(state, refusal, rules.policy.rule_named(refusal.queued.rule), now)

        for appended in append_many(append, dict.fromkeys(refused, revise), actor=Actor.DISPATCH):
            one = refused[appended.state.key]
            if appended.entries:
                log_admission(
                    one.queued.key,
                    one.queued.case,
                    "admission_refused",
                    one.reason,
                    waiting_for=one.waiting_for.value,
                )


def resolve_dry_runs(append: Append, rules: Rules, cases: Iterable[QueuedCase]) -> set[str]:
    """Apply a dry run to queued cases, and return the ids of those that are no longer queued."""
    ended: set[str] = set()
    for queued in cases:

        def revise(state: NodeState, now: datetime, queued: QueuedCase = queued) -> Transition:
            return apply_dry_run(state, queued.case, rules, now)

        after = append(queued.key, revise, actor=Actor.DISPATCH).state
        if after.live_case is None or after.live_case.status is not CaseStatus.QUEUED:
            ended.add(queued.case)
    return ended


def log_admission(
    key: NodeKey, case_id: str, decision: str, reason: str, level: int = logging.INFO, **fields: object
) -> None:
    """Log one decision about the admission of a case to repair."""
    ids = {"cluster": key.cluster, "node": key.node, "case_id": case_id}
    log_cause(decision, reason=reason, level=level, **ids, **fields)


MAX_CONFLICTS = 3
"""How often the admission of one case is tried after conflicts before the next case is tried."""
MAX_ADMITTING = timedelta(seconds=20)
"""How long one run admits cases: an orchestrator that does not respond costs seconds for each node in service."""


class DispatchResult(Struct, frozen=True):
    """The names of the executions of all admitted cases, and of those that the sweep must start later."""

    admitted: tuple[str, ...] = ()
    unstarted: tuple[str, ...] = ()


class Dispatch(Struct, frozen=True):
    """Admits the most urgent queued cases of a cluster to repair; `forget` discards cached table reads."""

    table: Table
    clock: Clock
    append: Append
    isolate: Isolate
    workflow: Workflow
    rulebook: Rulebook
    forget: Callable[[], None] = lambda: None

    def admit_cases(self, cluster: str, limit: timedelta = MAX_ADMITTING) -> DispatchResult:
        """Admit the cases that may start within `limit`, and start their executions."""
        rules = rules_of(self.rulebook, cluster)
        if not rules.config.opens_cases or not (queued := self._queued(rules)):
            return DispatchResult()
        now = truncate(self.clock.now())
        control = self._control(cluster)
        use = self._use(rules, control, queued, now)
        if record_if_all_wait(self.append, queued, control, rules, now, use):
            return DispatchResult()
        self.forget()  # no condition of a write protects what the registration and the policy decide
        rules = rules_of(self.rulebook, cluster)
        queued = self._queued(rules) if rules.config.opens_cases else []
        if rules.config.mode is Mode.DRY_RUN:
            resolve_dry_runs(self.append, rules, queued)
            return DispatchResult()
        admitted, until = list[NodeState](), self.clock.now() + limit
        dry_runs = [case for case in queued if rules.policy.rule_named(case.rule).dry_run]
        excluded = resolve_dry_runs(self.append, rules, dry_runs)
        queued = [case for case in queued if case.case not in excluded]
        while queued:
            control, now = self._control(cluster), truncate(self.clock.now())
            use = self._use(rules, control, queued, now)
            admission = admit(control, rules.policy, queued, now, rules.config.update_holds, use)
            limit_of_refusals = MAX_BEFORE_REPAIRS if admission.picks else MAX_REFUSALS
            record_refusals(self.append, admission.refusals, rules, limit_of_refusals)
            if not admission.picks:
                break
            batch = self._admit(control, admission.picks, rules, now, until)
            admitted += batch.admitted
            if batch.full:
                break
            if self.clock.now() >= until:
                reason = f"admitting cases took more than {limit.total_seconds():.1f} seconds"
                log_cause("admission_interrupted", reason=reason, level=logging.WARNING, cluster=cluster)
                break
            # A case that could not be admitted must not block the slot for the cases behind it.
            excluded |= {pick.case for pick in admission.picks}
            queued = self._queued(rules, excluded)
        return self._start(admitted)

    def _queued(self, rules: Rules, excluded: Collection[str] = ()) -> list[QueuedCase]:
        """Read the whole queue, because its first cases may have to wait while later cases may start."""
        return [queued for queued in queued_cases(self.table, rules.config) if queued.case not in excluded]

    def _control(self, cluster: str) -> Control:
        found = self.table.get(keys.cluster_control(cluster))
        if found is None:
            raise Misconfigured(f"no repair slots: cluster {cluster!r}; run 'faultbridge cluster add {cluster}'")
        # The rows are read after the controls: a repair that releases an instance changes the version of the controls.
        config = rules_of(self.rulebook, cluster).config
        rows = () if config.follows_provider else unhealthy_nodes(self.table, config)
        return replace(items.read_control(cluster, found), vacancies=read_vacancies(rows))

    def _use(self, rules: Rules, control: Control, queued: Iterable[QueuedCase], now: datetime) -> IsolationUse | None:
        """Measure the isolation budget of a cluster as far as the queued cases need it; None if none of them does."""
        budgeted = [one for one in queued if one.needs_permit or one.lost]
        if not rules.config.repairs or not budgeted:
            return None
        placed = any(one.needs_permit and is_placed(one.domains) for one in budgeted)
        evicts = self.isolate.orchestrator(rules.config).applicable
        return IsolationPermits(self.table).use(rules, control, now, placed=placed, evicts=evicts)

    def _admit(
        self, control: Control, picks: Sequence[QueuedCase], rules: Rules, now: datetime, until: datetime
    ) -> AdmittedBatch:
        in_time = (pick for pick in picks if self.clock.now() < until)
        made_ready = [one for pick in in_time if (one := self._make_ready(pick, rules)) is not None]
        ready = self._still_admitted(made_ready, control, rules, now)
        if not ready:
            return AdmittedBatch()
        try:
            return AdmittedBatch(self._commit(control, ready, now))
        except Conflict as conflict:
            log_cause("admission_conflict", reason=str(conflict), cluster=rules.config.cluster, cases=len(ready))
        admitted: list[NodeState] = []
        for pick in (one for one in picks if self.clock.now() < until):
            batch = self._admit_one(pick, rules)
            admitted += batch.admitted
            if batch.full:
                return AdmittedBatch(admitted, full=True)
        return AdmittedBatch(admitted)

    def _admit_one(self, pick: QueuedCase, rules: Rules) -> AdmittedBatch:
        for _ in range(MAX_CONFLICTS):
            control, now = self._control(rules.config.cluster), truncate(self.clock.now())
            use = self._use(rules, control, (pick,), now)
            if not admit(control, rules.policy, (pick,), now, rules.config.update_holds, use).picks:
                return AdmittedBatch(full=True)
            ready = self._make_ready(pick, rules)
            if ready is None or not self._still_admitted([ready], control, rules, now):
                break
            try:
                return AdmittedBatch(self._commit(control, (ready,), now))
            except Conflict as conflict:
                log_admission(pick.key, pick.case, "admission_conflict", str(conflict))
        return AdmittedBatch()  # other writers won every race; the next tick tries again

    def _make_ready(self, pick: QueuedCase, rules: Rules) -> ReadyCase | None:
        """Isolate the node and choose the repair action. Returns None if the attempt may not start now."""
        state = self.append.read(pick.key)
        busy = self.isolate.busy(state, rules) if takes_work(state) and keeps_work(state) else None
        if busy is not None:  # it is not even cordoned while work runs: its fault does not endanger the work
            record_refusals(self.append, (Refused(pick, WaitingFor.IDLE, busy),), rules)
            return None
        state = self._isolated(pick)
        case = state.live_case
        if case is None or case.id != pick.case or case.status is not CaseStatus.QUEUED:
            return None
        reason = exclusion_reason(state, rules.config, self.clock.now())
        if reason is not None:
            record_refusals(self.append, (Refused(pick, WaitingFor.PAUSE, reason),), rules)
            return None
        if state.status is not None and state.status.in_service and state.isolation is Isolation.CONFIRMED:
            state, busy = self.isolate.take_out(state, rules)
            if busy is not None:
                record_refusals(self.append, (Refused(pick, WaitingFor.IDLE, busy),), rules)
                return None
        if state.status is None or state.status.in_service or state.live_case != case:
            return None
        return self._permitted(pick, state, case, rules)

    def _permitted(self, pick: QueuedCase, state: NodeState, case: Case, rules: Rules) -> ReadyCase | None:
        """Return the case with its next repair action, or None if the case may not start now.

        The index row of the case names only one policy rule. The approvals, windows and dry runs of all rules that
        govern this repair action (`governing_rules`) are therefore checked here. If the result is None, the case was
        escalated because no repair action is left, or its dry run was applied, or what it waits for was recorded.
        """
        choice = choose_repair_action(state, case, rules.policy)
        action = choice.repair_action
        if action is None:
            reason = choice.reason
            self.append(
                pick.key, lambda state, now: escalate_queued(state, pick.case, reason, now), actor=Actor.DISPATCH
            )
            log_admission(pick.key, pick.case, "case_escalated", reason)
            return None
        governing = governing_rules(state, case, rules.policy, action)
        if case.repair_action is not RepairAction.VERIFY and all(rule.dry_run for rule in governing):
            resolve_dry_runs(self.append, rules, [pick])
            return None
        asking = rule_to_ask(state, case, rules.policy, action, case.attempts + 1)
        closed = closed_window(governing, action, self.clock.now())
        if asking is not None:
            reason = f"{action.value} requires approval: rule {asking.name}"
            asked = replace(pick, repair_action=action, rule=asking.name)
            record_refusals(self.append, (Refused(asked, WaitingFor.APPROVAL, reason),), rules)
        elif closed is not None:
            record_refusals(self.append, (Refused(pick, WaitingFor.WINDOW, closed),), rules)
        else:
            return ReadyCase(state, case, action, tuple(rule.name for rule in governing), choice.reason)
        return None

    def _still_admitted(
        self, ready: Sequence[ReadyCase], control: Control, rules: Rules, now: datetime
    ) -> list[ReadyCase]:
        """Apply the limits of admission to the current state of the nodes, and return the cases that pass.

        The nodes may have changed since the queue was read. For example, an operator may have ordered a replacement.
        They are out of service now, with a permit if they needed one.
        """
        queued = [(one.repair_action, found) for one in ready if (found := queued_case(one.state)) is not None]
        # The approval of this very repair action was checked when the case was made ready.
        fresh = [replace(one.placed_by(rules.config), repair_action=action, approved=True) for action, one in queued]
        use = self._use(rules, control, fresh, now)
        picks = admit(control, rules.policy, fresh, now, rules.config.update_holds, use).picks
        admitted = {pick.case for pick in picks}
        return [one for one in ready if one.case.id in admitted]

    def _isolated(self, pick: QueuedCase) -> NodeState:
        state = self.append.read(pick.key)
        if state.status is None or not state.status.in_service:
            return state
        try:
            self.isolate.isolate(pick.key, ordered=True)
        except Transient as error:
            # The case keeps waiting until the orchestrator answers.
            log_admission(pick.key, pick.case, "isolation_unavailable", str(error), level=logging.WARNING)
            return state
        return self.append.read(pick.key)

    def _commit(self, control: Control, ready: Sequence[ReadyCase], now: datetime) -> list[NodeState]:
        prepared = [
            self.append.prepare(one.state, admit_case(one, now), actor=Actor.DISPATCH, now=now) for one in ready
        ]
        writes = (take_slots(control, ready, now), *(write for _, writes in prepared for write in writes))
        self.table.transact(writes, transaction_token(writes))
        for one in ready:
            reason, action = one.reason or "a slot is free", one.repair_action.value
            log_admission(one.state.key, one.case.id, "admission_granted", reason, repair_action=action)
        return [appended.state for appended, _ in prepared]

    def _start(self, admitted: Iterable[NodeState]) -> DispatchResult:
        """Start the executions of admitted cases. The sweep repeats a failed start."""
        names, unstarted = list[str](), list[str]()
        for state in admitted:
            if state.case is None:
                continue
            names.append(state.case.execution)
            try:
                self.workflow.start(state.case.execution, execution_input(state.key, state.case))
            except Transient as error:
                log_admission(state.key, state.case.id, "execution_start_failed", str(error), level=logging.WARNING)
                unstarted.append(state.case.execution)
        return DispatchResult(tuple(names), tuple(unstarted))
