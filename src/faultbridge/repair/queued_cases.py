"""Queued cases: records decisions that start no repair, which are refusals, escalations and dry runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice

from faultbridge.dataclass import dataclass
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cluster.config import Mode
from faultbridge.domain.cluster.state import Control, QueuedCase
from faultbridge.domain.edges import Actor, CaseStatus
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.ledger.append import Append, Revise
from faultbridge.log import log_cause
from faultbridge.pipeline.decide.admit import Admission, Refused, admit
from faultbridge.pipeline.decide.isolation_budget import IsolationUse
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.repair.admission import apply_dry_run, escalate_queued, record_refusal
from faultbridge.repair.append_many import append_many

MAX_REFUSALS = 500
"""How many refusals one run of admission records if no case may start; the next run records the others.

In a burst, each node has two entries, so this is the number of cases that one batch of `react` (1,000 entries) adds.
"""
MAX_BEFORE_REPAIRS = 30
"""How many refusals are recorded before the cases that may start are admitted, so that these need not wait."""
GROUP = 50
"""How many cases are read at once. Their refusals are recorded, in a few transactions, before more cases are read."""


@dataclass(frozen=True, slots=True)
class QueuedCases:
    """Records decisions about queued cases: refusals, escalations and dry runs."""

    append: Append

    def record_if_all_wait(
        self, queued: Sequence[QueuedCase], control: Control, rules: Rules, now: datetime, use: IsolationUse | None
    ) -> bool:
        """If no queued case may start now, record what the cases wait for, and return True.

        If any case may start or is a dry run, record nothing and return False.

        The arguments may come from a cache and be outdated, which does no harm: each change that permits a repair
        triggers another dispatch, and a refusal is recorded only if the case is still queued.
        """
        if rules.config.mode is Mode.DRY_RUN or any(rules.policy.rule_named(one.rule).dry_run for one in queued):
            return False
        admission = admit(control, rules.policy, queued, now, rules.config.update_holds, use)
        if not admission.picks:
            self.record(admission, rules)
        return not admission.picks

    def record(self, admission: Admission, rules: Rules) -> None:
        """Record the refusals of an admission: at most `MAX_BEFORE_REPAIRS` if other cases may start now."""
        self.record_refusals(admission.refusals, rules, MAX_BEFORE_REPAIRS if admission.picks else MAX_REFUSALS)

    def record_refusals(self, refusals: Iterable[Refused], rules: Rules, limit: int = MAX_REFUSALS) -> None:
        """Record what each case waits for, if that changed; at most `limit` cases in one call.

        A later call records the others. An error with one case does not stop the others of its group (`GROUP`).
        """
        changed = list(islice((one for one in refusals if not one.recorded), limit))
        for start in range(0, len(changed), GROUP):
            self._record_group(changed[start : start + GROUP], rules)

    def _record_group(self, refusals: Sequence[Refused], rules: Rules) -> None:
        refused = {one.queued.key: one for one in refusals}

        def revision(refusal: Refused) -> Revise:
            rule = rules.policy.rule_named(refusal.queued.rule)
            return lambda state, now: record_refusal(state, refusal, rule, now)

        changes = {key: revision(one) for key, one in refused.items()}
        for appended in append_many(self.append, changes, actor=Actor.DISPATCH):
            key = appended.state.key
            if not appended.entries:
                continue
            waiting_for, reason = refused[key].waiting_for.value, refused[key].reason
            log_admission(key, refused[key].queued.case, "admission_refused", reason, waiting_for=waiting_for)

    def escalate(self, pick: QueuedCase, reason: str) -> None:
        """Escalate a case to an operator because the policy permits no repair action for it."""
        self.append(
            pick.key,
            lambda state, now: escalate_queued(state, pick.case, reason, now),
            actor=Actor.DISPATCH,
        )
        log_admission(pick.key, pick.case, "case_escalated", reason)

    def resolve_dry_runs(self, rules: Rules, cases: Iterable[QueuedCase]) -> set[str]:
        """Resolve, keep or escalate the queued cases of a dry run, by the rules of `apply_dry_run`.

        Returns the ids of the cases that are no longer queued.
        """
        ended: set[str] = set()
        for queued in cases:

            def revise(state: NodeState, now: datetime, queued: QueuedCase = queued) -> Transition:
                return apply_dry_run(state, queued.case, rules, now)

            after = self.append(queued.key, revise, actor=Actor.DISPATCH).state
            if after.live_case is None or after.live_case.status is not CaseStatus.QUEUED:
                ended.add(queued.case)
        return ended


def log_admission(
    key: NodeKey, case_id: str, decision: str, reason: str, level: int = logging.INFO, **fields: object
) -> None:
    """Log one decision about the admission of a case to repair."""
    ids = {"cluster": key.cluster, "node": key.node, "case_id": case_id}
    log_cause(decision, reason=reason, level=level, **ids, **fields)
