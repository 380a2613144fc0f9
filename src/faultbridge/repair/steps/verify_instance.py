"""The step VerifyInstance: runs diagnostics; a node returns to service only if they pass.

A verification that ends without a result has not failed; it is started again until the deadline.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from faultbridge.decide import entry_builder
from faultbridge.decide.decide import decide
from faultbridge.decide.fold.changes import Folded
from faultbridge.decide.fold.claims import confirm_claims, is_unproven
from faultbridge.decide.fold.expire import end_claims, end_former, end_verified, ignore_observations
from faultbridge.decide.governing_rules import required_repair_action, rests_on_claims, rule_of_case, without_claims
from faultbridge.decide.work import work_stays
from faultbridge.decode.frames.instance_type import missing_gpus
from faultbridge.model.cases import Attempt, Case, Phase, Reason
from faultbridge.model.cluster.config import NO_VERIFIER
from faultbridge.model.cluster.vacancies import mark_gone
from faultbridge.model.conditions import Condition
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import Isolation, ProviderFailure, RepairAction, WaitingFor
from faultbridge.model.errors import Misconfigured
from faultbridge.model.fault_enums import Severity
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Verdict, Verification
from faultbridge.repair.attempt.intent import store_report, try_next_action, wait_for_incident
from faultbridge.repair.attempt.step_context import (
    StepContext,
    StepOutcome,
    StepResult,
    enter_phase,
    live_attempt,
    update_attempt,
    waiting,
)
from faultbridge.repair.isolate import confirm_cordon
from faultbridge.repair.steps.follow_provider import gone_reason, is_gone

MAX_FINDINGS_LENGTH = 1800
"""Maximum characters of the findings in a reason. With the text before them, the reason is below `MAX_REASON`."""

_SEPARATOR = "; "


def joined_findings(findings: Sequence[str]) -> str:
    """Return findings as one text of about `MAX_FINDINGS_LENGTH`; those that do not fit are counted."""
    shown = [finding[:MAX_FINDINGS_LENGTH] for finding in findings[:1]]
    room = MAX_FINDINGS_LENGTH - sum(map(len, shown))
    for finding in findings[1:]:
        room -= len(finding) + len(_SEPARATOR)
        if room < 0:
            break
        shown.append(finding)
    more = len(findings) - len(shown)
    counted = (f"... and {more} more {'finding' if more == 1 else 'findings'}",) if more else ()
    return _SEPARATOR.join((*shown, *counted))


def faults_since_start(state: NodeState) -> tuple[str, ...]:
    """List the active conditions that fail the verification, one line of text each.

    These are conditions of severity `error` or worse that were observed since the verification started. If the repair
    action replaces the instance, the start of the current instance counts instead. A claimed condition does not count,
    because the verification itself tests the node for that fault.
    """
    case, attempt = live_attempt(state)
    found = _conditions_since(without_claims(state), case.repair_action, watched_since(case, attempt))
    return tuple(f"{condition.code}: {condition.message}" for condition in found)


def watched_since(case: Case, attempt: Attempt) -> datetime | None:
    """Return the time after which an observed fault counts against the verification.

    This is `watched_since` of the attempt: when its verification started or, after a restart, when the instance was
    back. If the attempt has no such time, it is the time at which the case first reached the phase `verifying`, else
    the start of the attempt's current step. Returns None if none of these times is stored.
    """
    return attempt.watched_since or case.marks.get(Phase.VERIFYING.value, attempt.since)


def is_successor(state: NodeState, case: Case) -> bool:
    """Return whether reports from before the verification may be about an earlier instance or boot."""
    incarnation = state.incarnation
    attached = incarnation is not None and (
        incarnation.since >= case.opened_at or (state.unverified and incarnation.instance > 1)
    )
    return attached or case.repair_action is RepairAction.REPLACE_NODE


def verification_level(context: StepContext) -> int | None:
    """Return the diagnostics level of the verification; None for the verifier's default level.

    - If the policy rule of the case has a `verify_level`, this is the level.
    - Otherwise, the level is the higher one of the policy's general `verify_level` and the lowest level that tests each
      active fault that opens a case and that the repair action alone does not end. If no level tests all these faults,
      it is the highest level. If the catalog does not say which faults each level of this verifier tests, they have no
      level.
    - If the case is a relapse (the same fault again, soon after a repair), the level is raised to the policy's
      `relapse_verify_level` if it is lower.
    """
    policy, case = context.rules.policy, context.case
    repaired = end_verified(context.state, case.repair_action, at=context.now, covers=lambda _: False).state
    codes = {one.code for one in repaired.active() if one.action.opens_case}
    of_faults = context.tools.rulebook.catalog().lowest_level(context.rules.config.verifier, codes)
    lowest = max(policy.limits.verify_level or 0, of_faults or 0) or None
    level = rule_of_case(context.state, case, policy).verify_level or lowest
    return level if case.relapse_of is None else max(level or 0, policy.limits.relapse_verify_level)


def _conditions_since(state: NodeState, action: RepairAction, since: datetime | None) -> list[Condition]:
    """List active conditions from `error` on that were observed since the start of the verification."""
    incarnation = state.incarnation
    start = incarnation.since if action is RepairAction.REPLACE_NODE and incarnation else since
    return [
        condition
        for condition in state.active()
        if start is not None and condition.last_at > start and condition.severity.rank >= Severity.ERROR.rank
    ]


NAME = "verify"
FAILED, LATE = ProviderFailure.VERIFY_FAILED, ProviderFailure.TIMEOUT


def verify_instance(context: StepContext) -> StepResult:
    """Start a verification of the instance, or evaluate the result of the verification that was started."""
    if context.instance_id is None:
        raise Misconfigured(f"no known instance to verify: node {context.state.key.stream}")
    if context.attempt.operation is None:
        return _requeue_if_gone(context) or _finish_unverified(context) or _start(context, context.instance_id)
    found = context.verifier.status(context.instance_id, context.attempt.operation, verification_level(context))
    if found.verdict is Verdict.PENDING:
        return waiting("the verification is running")
    if found.verdict in {Verdict.OCCUPIED, Verdict.UNKNOWN}:
        return _end_if_occupied(context, found) or _requeue_if_gone(context) or _start_again(context, found)
    missing = missing_gpus(found.gpus, context.state.placement.instance_type)
    faults = (*faults_since_start(context.state), *((missing,) if missing else ()))
    if found.verdict is not Verdict.PASSED or faults:
        return _finish_failed(context, found, (*found.findings, *faults))
    remaining = _end_verified(context, found, context.state, context.now).state
    stronger = required_repair_action(without_claims(remaining), context.case, context.rules.policy)
    if stronger is context.case.repair_action or context.case.cancelled:
        return _wait_for_evidence(context, found, remaining) or _finish_passed(context, found)
    finding = f"diagnostics passed, but a remaining condition needs {stronger.value}"
    return _finish_failed(context, found, (finding,), at_least=stronger)


def on_timeout(context: StepContext, reason: str) -> StepResult:
    """Escalate the case after the deadline. The node stays out of service.

    - If the attempt only verifies a node with a claimed condition, and a fault that is not claimed is active too, the
      next repair action is tried instead.
    - If an open incident explains the failure, the case waits for the incident instead.
    """
    draft = context.entry("inconclusive", reason=reason, failure=LATE)
    seen = sorted({one.code for one in without_claims(context.state).active() if one.action.opens_case})
    if seen and context.case.repair_action is RepairAction.VERIFY and without_claims(context.state) != context.state:
        text = f"could not be verified, and {', '.join(seen)} is reported too: {reason}"
        return _try_next(_confirm(context), Reason(text, LATE), draft)
    late = Reason(f"could not be verified: {reason}", LATE)
    waits = wait_for_incident(context, late, draft)
    return waits or context.escalate_to_operator(late, draft, fails=False)


def revoke(context: StepContext, findings: tuple[str, ...]) -> StepResult:
    """Fail a verification that has passed, because of faults that were observed after its start."""
    return _finish_failed(context, Verification(Verdict.FAILED), findings)


def _end_verified(context: StepContext, found: Verification, state: NodeState, now: datetime) -> Folded:
    """End conditions of the node after its verification passed.

    These are the conditions that the repair fixed or that the verification proves fixed, the claimed conditions that
    the verification refutes, and the conditions of a replaced instance. In a canceled case, which an operator ended,
    the verification counts as a proof for every fault code.
    """
    case, _ = live_attempt(state)
    if case.cancelled:
        reason = "verification passed after the order of an operator"
        return end_verified(state, case.repair_action, at=now, covers=lambda _: True, reason=reason)
    covers = partial(context.tools.rulebook.catalog().covers, context.rules.config.verifier, found.level)
    refuted = end_claims(state, at=now, covers=covers)
    former = end_former(refuted.state, at=now)
    ended = end_verified(former.state, case.repair_action, at=now, covers=covers)
    return replace(ended, changes=refuted.changes + former.changes + ended.changes)


def _wait_for_evidence(context: StepContext, found: Verification, remaining: NodeState) -> StepResult | None:
    """Return `waiting` while a fault is active that the verification does not test, else None."""
    if context.case.cancelled:
        return None
    active = sorted({one.code for one in remaining.active() if one.action.opens_case and one.known_incarnation})
    if not active:
        return None
    verification = f"level {found.level} of {context.rules.config.verifier}"
    reported = f"{', '.join(active)} is still reported"
    return waiting(f"diagnostics passed, but {reported} and {verification} does not cover it")


def _start(context: StepContext, instance_id: str) -> StepResult:
    unconfirmed = context.case.unrequested_instance and context.state.isolation is Isolation.REQUESTED
    if (context.attempt.successor is not None or unconfirmed) and context.orchestrator.applicable:
        # A new instance joins its cluster at any time; it must not run work before its verification.
        cordoned = context.orchestrator.cordon(context.member)
        if not cordoned.ok:
            return waiting(f"the new instance cannot be cordoned yet: {cordoned.reason}")
        if context.state.isolation is Isolation.REQUESTED:
            context = context.commit(confirm_cordon)
    # The token contains the number of probes so far: a retry after a crash finds the verification that it started.
    token = f"{context.case.execution}-{context.attempt.tries}"
    claimed = rests_on_claims(context.state, context.case)
    operation = context.verifier.start(instance_id, token, verification_level(context), prove_idle=claimed)

    def revise(state: NodeState, now: datetime) -> Transition:
        case, attempt = live_attempt(state)
        if attempt.operation is not None:
            return Transition(state)
        step = entry_builder.step(case, NAME, "begun", now, operation=operation, new_instance=instance_id)
        started = update_attempt(state, operation=operation, watched_since=attempt.watched_since or now)
        return Transition(enter_phase(started, Phase.VERIFYING, now), (step,))

    context.commit(revise)
    return waiting("the verification has started")


def _start_again(context: StepContext, found: Verification) -> StepResult:
    reason = joined_findings(found.findings) or "the verification left no result"
    context = _end_operation(context, found, reason)
    context.log("verification_restarted", reason, instance_id=context.instance_id)
    if found.verdict is Verdict.OCCUPIED and context.instance_id is not None:
        _start(context, context.instance_id)  # so that the result at the deadline is that of the latest check
    return waiting(reason)


def _finish_passed(context: StepContext, found: Verification) -> StepResult:
    evidence, facts = store_report(context.tools.objects, context.state.key, found.report, context.now)

    def finished(state: NodeState, now: datetime) -> Transition:
        case, attempt = live_attempt(state)
        step = entry_builder.step(
            case,
            NAME,
            "passed",
            now,
            operation=attempt.operation,
            new_instance=context.instance_id,
            facts=facts | {"findings": list(found.findings)},
            evidence=evidence,
        )
        ended = _end_verified(context, found, state, now)
        since = watched_since(case, attempt) if is_successor(state, case) else None
        verified = ended.state if since is None else ignore_observations(ended.state, before=since)
        decided = decide(verified, ended.changes, context.rules, now)
        return Transition(decided.state, (step, *decided.drafts))

    return context.finish(StepOutcome.DONE, Phase.VERIFYING, finished)


def _finish_unverified(context: StepContext) -> StepResult | None:
    """Finish without diagnostics once no fault of the node is reported; None if the cluster has a verifier."""
    if context.rules.config.verifier != NO_VERIFIER:
        return None
    reason = "no diagnostics reach the nodes of this provider"
    remaining = end_former(context.state, at=context.now, reason=reason).state
    active = sorted({one.code for one in remaining.active() if one.action.opens_case})
    if active and not context.case.cancelled:
        return waiting(f"{', '.join(active)} is still reported, and {reason}")

    def finished(state: NodeState, now: datetime) -> Transition:
        case, _ = live_attempt(state)
        step = entry_builder.step(case, NAME, "not_applicable", now, reason=reason, new_instance=context.instance_id)
        ended = end_former(state, at=now, reason=f"another instance backs the node; {reason}")
        decided = decide(ended.state, ended.changes, context.rules, now)
        return Transition(decided.state, (step, *decided.drafts))

    return context.finish(StepOutcome.DONE, Phase.VERIFYING, finished)


def _finish_failed(
    context: StepContext, found: Verification, findings: tuple[str, ...], *, at_least: RepairAction | None = None
) -> StepResult:
    now = context.now
    evidence, facts = store_report(context.tools.objects, context.state.key, found.report, now)
    reason = joined_findings(findings) or "the verification failed"
    draft = context.entry(
        "failed",
        now,
        step=NAME,
        reason=reason,
        failure=FAILED,
        operation=context.attempt.operation,
        new_instance=context.instance_id,
        facts=facts | {"findings": list(findings)},
        evidence=evidence,
    )
    if context.rules.config.follows_provider:
        text = f"the instance failed its verification after the provider's repair: {reason}"
        return context.escalate_to_operator(Reason(text, FAILED), draft)
    if at_least is not None:
        return try_next_action(context, Reason(reason, FAILED), draft, at_least=at_least)
    return _try_next(_confirm(context), Reason(reason, FAILED), draft)


def _confirm(context: StepContext) -> StepContext:
    """Record that the claimed conditions that are active now, if there are any, count as confirmed."""
    if without_claims(context.state) == context.state:
        return context

    def revise(state: NodeState, now: datetime) -> Transition:
        live_attempt(state)
        return Transition(confirm_claims(state, now))

    return context.commit(revise)


def _try_next(context: StepContext, reason: Reason, draft: Draft) -> StepResult:
    case = context.case
    confirmed = any(one.claimed and not is_unproven(context.state, one) for one in context.state.active())
    required = required_repair_action(context.state, case, context.rules.policy) if confirmed else None
    stronger = required if required is not case.repair_action else None
    return try_next_action(context, reason, draft, at_least=stronger)


# Verifications without a result: the instance is gone, work runs on it, or it has to start again.

NO_RESULT = {Verdict.UNKNOWN: "no_result", Verdict.OCCUPIED: "occupied"}


def _requeue_if_gone(context: StepContext) -> StepResult | None:
    """Queue the case again if the instance is gone, or escalate it after the last attempt; None if it is not gone."""
    if not is_gone(context):
        return None
    reason, instance = gone_reason(context), context.instance_id
    context = context.commit(lambda state, now: Transition(mark_gone(state, now)))
    draft = context.entry("gone", reason=reason, new_instance=instance)
    return context.retry_or_escalate(WaitingFor.WAIT, reason, draft)


def _end_if_occupied(context: StepContext, found: Verification) -> StepResult | None:
    """Queue a case whose node keeps its work again until the node is idle; escalate any other one after the deadline.

    Returns None before the deadline, because the verification is started again, and for any verdict but `occupied`.
    Nothing about the hardware is known, so no claim is confirmed.
    """
    if found.verdict is not Verdict.OCCUPIED:
        return None
    reason = f"no diagnostics beside running work: {joined_findings(found.findings)}"
    operation, instance = context.attempt.operation, context.instance_id
    draft = context.entry("occupied", reason=reason, operation=operation, new_instance=instance)
    if work_stays(context.state, context.case):
        return context.requeue(WaitingFor.IDLE, reason, draft, counts=False)
    if context.attempt.deadline is None or context.now < context.attempt.deadline:
        return None
    return context.escalate_to_operator(Reason(f"could not be verified: {reason}", LATE), draft, fails=False)


def _end_operation(context: StepContext, found: Verification, reason: str) -> StepContext:
    """Record that the started verification has no result, so that another one can start."""

    def revise(state: NodeState, now: datetime) -> Transition:
        case, attempt = live_attempt(state)
        if attempt.operation is None:
            return Transition(state)
        ended, instance, outcome = attempt.operation, context.instance_id, NO_RESULT[found.verdict]
        step = entry_builder.step(case, NAME, outcome, now, reason=reason, operation=ended, new_instance=instance)
        return Transition(update_attempt(state, operation=None), (step,))

    return context.commit(revise)
