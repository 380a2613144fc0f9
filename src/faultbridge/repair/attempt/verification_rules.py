"""Rules of a verification: its level, the faults that fail it, and the text of its findings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from faultbridge.decide.fold.expire import end_verified
from faultbridge.decide.governing_rules import rule_of_case, without_claims
from faultbridge.model.cases import Attempt, Case, Phase
from faultbridge.model.conditions import Condition
from faultbridge.model.enums import RepairAction
from faultbridge.model.fault_enums import Severity
from faultbridge.model.nodes import NodeState
from faultbridge.repair.attempt.progress import live_attempt
from faultbridge.repair.attempt.step_context import StepContext

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
    - Otherwise, the level is the higher one of the policy's general `verify_level` and the level that tests the faults
      of the node.
    - If the case is a relapse (the same fault again, soon after a repair), the level is raised to the policy's
      `relapse_verify_level` if it is lower.
    """
    policy, case = context.rules.policy, context.case
    lowest = max(policy.limits.verify_level or 0, _level_for_faults(context) or 0) or None
    level = rule_of_case(context.state, case, policy).verify_level or lowest
    return level if case.relapse_of is None else max(level or 0, policy.limits.relapse_verify_level)


def _level_for_faults(context: StepContext) -> int | None:
    """Return the lowest diagnostics level that tests each active fault of the node that must be tested.

    A fault must be tested if it opens a case and the repair action alone does not end it. If no level tests all these
    faults, the highest level is returned. Returns None, which means the verifier's default level, if the catalog does
    not say which faults each level of this verifier tests.
    """
    repaired = end_verified(context.state, context.case.repair_action, at=context.now, covers=lambda _: False).state
    codes = {one.code for one in repaired.active() if one.action.opens_case}
    return context.tools.rulebook.catalog().lowest_level(context.rules.config.verifier, codes)


def _conditions_since(state: NodeState, action: RepairAction, since: datetime | None) -> list[Condition]:
    """List active conditions from `error` on that were observed since the start of the verification."""
    incarnation = state.incarnation
    start = incarnation.since if action is RepairAction.REPLACE_NODE and incarnation else since
    return [
        condition
        for condition in state.active()
        if start is not None and condition.last_at > start and condition.severity.rank >= Severity.ERROR.rank
    ]
