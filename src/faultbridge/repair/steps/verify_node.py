"""Verify: a node serves again only when it was proven good. That nobody could tell is not that it failed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from faultbridge.decoders.common.gpu_count import missing_gpus
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Attempt, Case, Phase, RepairAction, WaitingFor
from faultbridge.domain.conditions import Condition
from faultbridge.domain.faults import Severity
from faultbridge.domain.nodes import Isolation, NodeState
from faultbridge.errors import Misconfigured
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.decide import decide
from faultbridge.pipeline.decide.repair_actions import wanted
from faultbridge.pipeline.fold.expire import end_verified, outdate
from faultbridge.ports import ProviderFailure, Verdict, Verification
from faultbridge.repair.attempt.contract import Answer, Outcome
from faultbridge.repair.attempt.escalate import go_on
from faultbridge.repair.attempt.evidence import keep
from faultbridge.repair.attempt.progress import live, reached, with_attempt
from faultbridge.repair.attempt.step_context import Work, waiting
from faultbridge.repair.isolation_backoff import in_time_again
from faultbridge.repair.steps.follow import is_gone, why_gone

NAME = "verify"
FAILED = ProviderFailure.VERIFY_FAILED.value


def verify(work: Work) -> Answer:
    """Begin a verification of the instance in the node once, then look at it until it says something."""
    if work.instance_id is None:
        raise Misconfigured(f"no instance is known to sit in {work.state.key.stream}")
    if work.attempt.operation is None:
        return _gone(work) or _begin(work, work.instance_id)
    found = work.verifier.status(work.instance_id, work.attempt.operation, _level(work))
    if found.verdict is Verdict.PENDING:
        return waiting("the verification is running")
    if found.verdict is Verdict.UNKNOWN:
        return _gone(work) or _once_more(work, found)
    fresh = (*seen_since(work.state), *_lacking(work, found))
    if found.verdict is not Verdict.PASSED or fresh:
        return _failed(work, found, (*found.findings, *fresh))
    more = _still_needed(work)
    if more is None:
        return _passed(work, found)
    return _failed(work, found, (f"it passed, and what is left asks for {more.value}",), at_least=more)


def seen_since(state: NodeState) -> tuple[str, ...]:
    """List what was seen on the node since its verification began and is not mended by it, a line each."""
    case, attempt = live(state)
    return tuple(f"{one.code}: {one.message}" for one in _since(state, case.repair_action, _began(case, attempt)))


def _began(case: Case, attempt: Attempt) -> datetime | None:
    """Return since when what is seen on the node speaks against it."""
    return attempt.watched_since or case.marks.get(Phase.VERIFYING.value, attempt.since)


def _lacking(work: Work, found: Verification) -> tuple[str, ...]:
    """Count the GPUs against the instance type: diagnostics pass on those that are there."""
    lack = missing_gpus(found.gpus, work.state.placement.instance_type)
    return (lack,) if lack else ()


def _still_needed(work: Work) -> RepairAction | None:
    """Return what the conditions ask for that this repair action does not end, or None; a cancelled case asks for no more."""
    left = end_verified(work.state, work.case.repair_action, at=work.tools.clock.now()).state
    repair_action = wanted(left, work.case, work.rules.policy)
    return None if repair_action is work.case.repair_action or work.case.cancelled else repair_action


def overtaken(work: Work, findings: tuple[str, ...]) -> Answer:
    """Take a passed verification back: the node was good, and is not any more."""
    return _failed(work, Verification(Verdict.FAILED), findings)


def verify_is_late(work: Work, reason: str) -> Answer:
    """Hand over a node that nobody could prove good or bad; it stays where it is, out of service."""
    now = work.tools.clock.now()
    draft = entry_builder.step(work.case, NAME, "inconclusive", now, reason=reason, failure="TIMEOUT")
    return work.escalate(f"TIMEOUT: could not be verified: {reason}", draft, fails=False)


def _begin(work: Work, instance_id: str) -> Answer:
    if work.attempt.successor is not None and work.orchestrator.applicable:
        # It joins its cluster like any machine; until it is proven good nothing is to run on it.
        kept_off = work.orchestrator.cordon(work.member)
        if not kept_off.ok:
            return waiting(f"work cannot be kept off the successor yet: {kept_off.reason}")
        if work.state.isolation is Isolation.REQUESTED:
            work = work.commit(_confirmed)
    # The number of looks so far makes the token: a repetition after a crash finds what it began itself.
    token = f"{work.case.execution}-{work.attempt.tries}"
    operation = work.verifier.start(instance_id, token, _level(work))

    def revise(state: NodeState, now: datetime) -> Transition:
        case, attempt = live(state)
        if attempt.operation is not None:
            return Transition(state)
        step = entry_builder.step(case, NAME, "begun", now, operation=operation, new_instance=instance_id)
        begun = with_attempt(state, operation=operation, watched_since=attempt.watched_since or now)
        return Transition(reached(begun, Phase.VERIFYING, now), (step,))

    work.commit(revise)
    return waiting("the verification has begun")


def _gone(work: Work) -> Answer | None:
    """End the attempt where others took the machine away; the next one finds the node empty and waits for another."""
    if not is_gone(work):
        return None
    reason = why_gone(work)
    draft = entry_builder.step(
        work.case, NAME, "gone", work.tools.clock.now(), reason=reason, new_instance=work.instance_id
    )
    return work.retry_or_escalate(WaitingFor.WAIT, reason, draft)


def _confirmed(state: NodeState, now: datetime) -> Transition:
    return Transition(*in_time_again(replace(state, isolation=Isolation.CONFIRMED), now))


def _level(work: Work) -> int | None:
    return work.rules.policy.rule_named(work.case.rule).verify_level


def _once_more(work: Work, found: Verification) -> Answer:
    reason = "; ".join(found.findings) or "the verification left no result"
    work.commit(lambda state, _: Transition(with_attempt(state, operation=None)))
    return waiting(reason)


def _passed(work: Work, found: Verification) -> Answer:
    evidence, facts = keep(work.tools.objects, work.state.key, found.report, work.tools.clock.now())

    def finish(state: NodeState, now: datetime) -> Transition:
        case, attempt = live(state)
        step = entry_builder.step(
            case,
            NAME,
            "passed",
            now,
            operation=attempt.operation,
            new_instance=work.instance_id,
            facts=facts | {"findings": list(found.findings)},
            evidence=evidence,
        )
        ended = end_verified(state, case.repair_action, at=now)
        began = _began(case, attempt) if _is_successor(state, case) else None
        proven = ended.state if began is None else outdate(ended.state, before=began)
        decided = decide(proven, ended.changes, work.rules, now)
        return Transition(decided.state, (step, *decided.drafts))

    return work.settle(Outcome.DONE, Phase.VERIFYING, finish)


def _is_successor(state: NodeState, case: Case) -> bool:
    """Tell whether the machine in the node is another than the one that the case was opened for, whoever brought it."""
    sits = state.incarnation
    came = sits is not None and (sits.since >= case.opened_at or (state.unverified and sits.instance > 1))
    return came or case.repair_action is RepairAction.REPLACE_NODE


def _failed(
    work: Work, found: Verification, findings: tuple[str, ...], *, at_least: RepairAction | None = None
) -> Answer:
    now = work.tools.clock.now()
    evidence, facts = keep(work.tools.objects, work.state.key, found.report, now)
    reason = "; ".join(findings) or "the verification failed"
    draft = entry_builder.step(
        work.case,
        NAME,
        "failed",
        now,
        reason=reason,
        failure=FAILED,
        operation=work.attempt.operation,
        new_instance=work.instance_id,
        facts=facts | {"findings": list(findings)},
        evidence=evidence,
    )
    if work.rules.config.follows:
        return work.escalate(f"{FAILED}: what the provider brought back is no good: {reason}", draft)
    return go_on(work, f"{FAILED}: {reason}", draft, at_least=at_least)


def _since(state: NodeState, repair_action: RepairAction, began: datetime | None) -> list[Condition]:
    """List what was seen on the node since it came under verification: no diagnosis outweighs that."""
    sitting = state.incarnation
    start = sitting.since if repair_action is RepairAction.REPLACE_NODE and sitting else began
    return [
        condition
        for condition in state.active()
        if start is not None and condition.last_at > start and condition.severity.rank >= Severity.ERROR.rank
    ]
