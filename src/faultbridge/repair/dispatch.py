"""Dispatch: admit waiting cases to their repair, slot and move in one transaction, then start their executions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import WaitingFor
from faultbridge.domain.clusters import Control, Mode
from faultbridge.domain.edges import Actor, CaseStatus
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Rule
from faultbridge.domain.queue import QueuedCase
from faultbridge.domain.times import to_text, truncate
from faultbridge.errors import Conflict, Misconfigured, Transient
from faultbridge.ledger.append import Append, transaction_token
from faultbridge.ledger.queries import shard_rows
from faultbridge.pipeline.decide.admit import Refused, admit
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.pipeline.decide.opt_out import FOREVER, left_alone_until
from faultbridge.pipeline.decide.repair_actions import choose
from faultbridge.ports import Clock, Table, Workflow
from faultbridge.repair.admission import Ready, admitted, dry_run, handed_over, refused, take_slots
from faultbridge.repair.attempt.contract import execution_input
from faultbridge.repair.isolate import Isolate
from faultbridge.rules.rulebook import Rulebook, rules_of
from faultbridge.storage import items, keys
from faultbridge.storage.queue import QUEUE, read_queued

MAX_REFUSALS = 30
MAX_RACES = 3
"""How often one case is tried again that loses to another writer, before those behind it have their turn."""


@dataclass(frozen=True, slots=True)
class Dispatched:
    """The executions that were admitted, and those of them whose start was lost and is left to the sweep."""

    admitted: tuple[str, ...] = ()
    unstarted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """What was admitted of some picks, and whether the room for the others is gone."""

    admitted: Sequence[NodeState] = ()
    full: bool = False


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Gives the free repair slots of a cluster to its most urgent cases."""

    table: Table
    clock: Clock
    append: Append
    isolate: Isolate
    workflow: Workflow
    rulebook: Rulebook

    def __call__(self, cluster: str) -> Dispatched:
        """Admit what may be admitted; raises Misconfigured for a cluster without registration or slots."""
        rules = rules_of(self.rulebook, cluster)
        if not rules.config.attends:
            return Dispatched()
        rows = self._waiting(rules)
        if rules.config.mode is Mode.DRY_RUN:
            self._say_what_would_be_done(rules, rows)
            return Dispatched()
        taken: list[NodeState] = []
        only_said = [one for one in rows if rules.policy.rule_named(one.rule).dry_run]
        self._say_what_would_be_done(rules, only_said)
        passed_over = {one.case for one in only_said}
        rows = [one for one in rows if one.case not in passed_over]
        while rows:
            control, now = self._control(cluster), truncate(self.clock.now())
            admission = admit(control, rules.policy, rows, now)
            self._refuse(admission.refusals, rules)
            if not admission.picks:
                break
            batch = self._admit(control, admission.picks, rules, now)
            taken += batch.admitted
            if batch.full:
                break
            # What could not be admitted now must not keep the slot from those behind it.
            passed_over |= {pick.case for pick in admission.picks}
            rows = self._waiting(rules, passed_over)
        return self._start(taken)

    def _waiting(self, rules: Rules, passed_over: Collection[str] = ()) -> list[QueuedCase]:
        """Read the whole queue, so that nobody starves behind cases that may not begin; a node has one case at most."""
        rows = (read_queued(rules.config.cluster, row) for row in shard_rows(self.table, rules.config, QUEUE))
        return [queued for queued in rows if queued.case not in passed_over]

    def _control(self, cluster: str) -> Control:
        found = self.table.get(keys.cluster_control(cluster))
        if found is None:
            raise Misconfigured(f"cluster {cluster!r} has no repair slots (register it with 'faultbridge cluster add')")
        return items.read_control(cluster, found)

    def _admit(self, control: Control, picks: Sequence[QueuedCase], rules: Rules, now: datetime) -> Batch:
        ready = [one for pick in picks if (one := self._make_ready(pick, rules)) is not None]
        if not ready:
            return Batch()
        try:
            return Batch(self._commit(control, ready, rules, now))
        except Conflict:
            return self._one_by_one(picks, rules)

    def _one_by_one(self, picks: Sequence[QueuedCase], rules: Rules) -> Batch:
        """Admit cases although others write at the same time; nobody overtakes a case that found no room."""
        taken: list[NodeState] = []
        for pick in picks:
            batch = self._alone(pick, rules)
            taken += batch.admitted
            if batch.full:
                return Batch(taken, full=True)
        return Batch(taken)

    def _alone(self, pick: QueuedCase, rules: Rules) -> Batch:
        """Admit one case; one that only loses a race is not overtaken for it."""
        for _ in range(MAX_RACES):
            control, now = self._control(rules.config.cluster), truncate(self.clock.now())
            if not admit(control, rules.policy, (pick,), now).picks:
                return Batch(full=True)
            ready = self._make_ready(pick, rules)
            if ready is None:
                break
            with suppress(Conflict):
                return Batch(self._commit(control, (ready,), rules, now))
        return Batch()  # somebody else is always quicker; the next tick looks again

    def _make_ready(self, pick: QueuedCase, rules: Rules) -> Ready | None:
        """Take the node out of service if it still serves: an attempt begins only on an isolated node."""
        state = self._out_of_service(pick)
        case = state.live_case
        if case is None or case.id != pick.case or case.status is not CaseStatus.QUEUED:
            return None
        until = left_alone_until(state, rules.config, self.clock.now())
        if until is not None:
            reason = f"to be left alone until {to_text(until)}" if until < FOREVER else "to be left alone"
            self._refuse((Refused(pick, WaitingFor.PAUSE, reason),), rules)
            return None
        if state.status is None or state.status.in_service:
            return None
        choice = choose(state, case, rules.policy)
        if choice.repair_action is None:
            self._hand_over(pick, choice.reason, rules)
            return None
        # What a person must approve is the repair action that is really taken.
        if choice.repair_action in rules.policy.rule_named(case.rule).approval and not case.approved:
            self._refuse(
                (Refused(pick, WaitingFor.APPROVAL, f"{choice.repair_action.value} begins by approval"),), rules
            )
            return None
        return Ready(state, case, choice.repair_action, choice.reason)

    def _out_of_service(self, pick: QueuedCase) -> NodeState:
        state = self.append.read(pick.key)
        if state.status is None or not state.status.in_service:
            return state
        try:
            self.isolate(pick.key, ordered=True)
        except Transient:
            return state  # the orchestrator is out of reach: the case waits on
        return self.append.read(pick.key)

    def _commit(self, control: Control, ready: Sequence[Ready], rules: Rules, now: datetime) -> list[NodeState]:
        made = [
            self.append.prepare(one.state, admitted(one, now), actor=Actor.DISPATCH, config=rules.config, now=now)
            for one in ready
        ]
        writes = (take_slots(control, ready, now), *(write for _, writes in made for write in writes))
        self.table.transact(writes, transaction_token(writes))
        return [appended.state for appended, _ in made]

    def _start(self, taken: Iterable[NodeState]) -> Dispatched:
        """Start the executions; one whose start is lost is started by the sweep."""
        names: list[str] = []
        unstarted: list[str] = []
        for state in taken:
            if state.case is None:
                continue
            names.append(state.case.execution)
            try:
                self.workflow.start(state.case.execution, execution_input(state.key, state.case))
            except Transient:
                unstarted.append(state.case.execution)
        return Dispatched(tuple(names), tuple(unstarted))

    def _refuse(self, refusals: Iterable[Refused], rules: Rules) -> None:
        """Put on the record what a case waits for, once for each thing."""
        changed = (one for one in refusals if one.queued.waiting_for is not one.waiting_for)
        for refusal in islice(changed, MAX_REFUSALS):
            rule = rules.policy.rule_named(refusal.queued.rule)

            def revise(state: NodeState, now: datetime, refusal: Refused = refusal, rule: Rule = rule) -> Transition:
                return refused(state, refusal, rule, now)

            self.append(refusal.queued.key, revise, actor=Actor.DISPATCH, config=rules.config)

    def _hand_over(self, pick: QueuedCase, reason: str, rules: Rules) -> None:
        """Give a case to a person for which the policy has no repair action."""
        self.append(
            pick.key,
            lambda state, now: handed_over(state, pick.case, reason, now),
            actor=Actor.DISPATCH,
            config=rules.config,
        )

    def _say_what_would_be_done(self, rules: Rules, waiting: Iterable[QueuedCase]) -> None:
        for queued in waiting:

            def revise(state: NodeState, now: datetime, queued: QueuedCase = queued) -> Transition:
                case = state.live_case
                if case is None:
                    return Transition(state)
                choice = choose(state, case, rules.policy)
                return dry_run(state, queued.case, choice.repair_action, choice.reason, now)

            self.append(queued.key, revise, actor=Actor.DISPATCH, config=rules.config)
