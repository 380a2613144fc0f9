"""Bugs planted by hand, each of which all seeds and tests once missed: each is a replaced piece of source."""

from __future__ import annotations

from tests.simulation.mutants.explain_guards import EXPLAIN_GUARDS
from tests.simulation.mutants.fleet_guards import (
    CAPACITY_GUARDS,
    GROWTH_GUARDS,
    RIVAL_GUARDS,
    UPDATE_GUARDS,
    VOLUME_GUARDS,
)
from tests.simulation.mutants.pair_guards import PAIR_GUARDS
from tests.simulation.mutants.planted_bug import PlantedBug, planted
from tests.simulation.mutants.scheduler_guards import HYPERPOD_GUARDS, OCCUPIED_GUARDS, SLURM_GUARDS
from tests.simulation.mutants.shared_cause_guards import SHARED_CAUSE_GUARDS
from tests.simulation.mutants.successor_guards import SUCCESSOR_GUARDS

_TABLE = "adapters/dynamodb/table.py"
_ISOLATE = "repair/isolate.py"
_LIFE_CYCLE = "pipeline/correlate/life_cycle.py"
_HELD_CASES = "pipeline/correlate/held_cases.py"
INCIDENT_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        "repair/attempt/intent.py",
        "stop_for_incident",
        "a repair passes its intent although an incident holds the node",
        "if incident is None:",
        "if True:",
    ),
    planted(
        "repair/attempt/intent.py",
        "commit_intent",
        "a repair passes its intent while the faults of an incident are recorded but not correlated",
        "    _update_incidents(context)\n\n    def revise",
        "    def revise",
    ),
    planted(
        "pipeline/decide/admit.py",
        "_check_incident",
        "a case is admitted although an incident holds its node",
        "if incident is None:",
        "if True:",
    ),
    planted(
        _HELD_CASES,
        "_is_kept_by_operator",
        "a node that an operator quarantined, or whose repair an operator denied, waits for an incident",
        "return case.status is CaseStatus.ESCALATED and (denied or ordered)",
        "return False",
    ),
    planted(
        _HELD_CASES,
        "absorb",
        "a case that is being repaired is absorbed",
        "if not is_absorbable(case) or _is_kept_by_operator(state, case):",
        "if case.cancelled:",
    ),
    planted(
        _HELD_CASES,
        "release",
        "a case is released while its incident holds it",
        "if faulty and case.incident in holding:",
        "if False:",
    ),
    planted(
        "pipeline/correlate/shared_causes.py",
        "find_shared_causes",
        "correlation opens no incident",
        "return tuple(chosen)",
        "return ()",
    ),
    planted(
        _LIFE_CYCLE,
        "_advance",
        "an incident holds repairs for ever",
        "if incident.status.holds and now >=",
        "if False and now >=",
    ),
    planted(
        _LIFE_CYCLE,
        "_advance",
        "an incident closes without a quiet period",
        "if incident.quiet_since is not None and now >= incident.quiet_since + incident.quiet_period(limits):",
        "if incident.quiet_since is not None:",
    ),
    planted(
        "pipeline/correlate/openings.py",
        "_ignored",
        "faults of an incident that is over open the next one",
        "family is node.family and domain in node.domains and at is not None and node.since <= at",
        "False",
    ),
    planted(
        "incidents/changes.py",
        "IncidentChanges.__call__",
        "an incident opens without holding repairs",
        "holds |= {one.id: hold_of(one, limits, now) for one in (*incidents, *(one.after for one in committed))}",
        "pass",
    ),
    planted(
        "incidents/held.py",
        "HeldCases.release",
        "the cases of an incident that is over are not released",
        'row["incident"] not in holding or row["node"] not in affected',
        'row["node"] not in affected and row["incident"] in holding',
    ),
    planted(
        "incidents/held.py",
        "HeldCases.absorb",
        "no case waits for an incident",
        "for node in incident.nodes}",
        "for node in incident.nodes if False}",
    ),
)
"""The guards of incidents, each left out."""

PLANTED: tuple[PlantedBug, ...] = (
    *INCIDENT_GUARDS,
    *SHARED_CAUSE_GUARDS,
    *EXPLAIN_GUARDS,
    *GROWTH_GUARDS,
    *VOLUME_GUARDS,
    *CAPACITY_GUARDS,
    *UPDATE_GUARDS,
    *RIVAL_GUARDS,
    *PAIR_GUARDS,
    *SLURM_GUARDS,
    *HYPERPOD_GUARDS,
    *OCCUPIED_GUARDS,
    *SUCCESSOR_GUARDS,
    planted(
        "pipeline/decide/escalation.py",
        "raise_repair_action",
        "an approval survives a raise to another repair action",
        "unapproved, approval_over = drop_approval(case, now, text)",
        "unapproved, approval_over = (case, ())",
    ),
    planted(
        "pipeline/fold/fold.py",
        "_apply",
        "a late clear of the old instance ends the condition of the new one",
        "if arrival.incarnation is IncarnationMatch.EARLIER:",
        "if arrival.incarnation is IncarnationMatch.EARLIER and not isinstance(observation, Clear):",
    ),
    planted(
        "pipeline/normalize/timestamp.py",
        "_corrected",
        "the times of a node whose clock is behind are not corrected",
        "if not slow or age < slow - tolerance:",
        "if True:",
    ),
    planted(
        "pipeline/normalize/timestamp.py",
        "slow_by",
        "no heartbeat shows that a clock is behind",
        'return min(filter(None, (_behind(one.get(SECONDS_OFF, "0")) for one in reports)), default=_NO_SKEW)',
        "return _NO_SKEW",
    ),
    planted(
        "pipeline/normalize/timestamp.py",
        "slow_by",
        "a delayed heartbeat decides how far a clock is behind",
        "return min(filter(",
        "return max(filter(",
    ),
    planted(
        "pipeline/normalize/timestamp.py",
        "_corrected",
        "a delayed heartbeat leaves the times of the slow clock as they are",
        "tolerance = max(TOLERANCE, min(slow / _LAG_PER_TOLERANCE, MAX_HEARTBEAT_DELAY))",
        "tolerance = TOLERANCE",
    ),
    planted(
        "pipeline/fold/condition_updates.py",
        "repeat_condition",
        "a slow clock that moved corrects times by its first difference",
        "if arrival.at >= condition.last_at and clock_has_moved(condition.attributes, fault.attributes):",
        "if False:",
    ),
    planted(_TABLE, "DynamoTable.get", "get is not consistent", ", ConsistentRead=True)", ")"),
    planted(_TABLE, "DynamoTable._read", "batch get is not consistent", ', "ConsistentRead": consistent}}', "}}"),
    planted(_TABLE, "DynamoTable.query", "query is not consistent", '{"ConsistentRead": True} if', "{} if"),
    planted(
        "adapters/compute/ssm_commands.py",
        "comment_of",
        "tokens of attempts are cut and collide",
        "        return token\n",
        "        return token[:28]\n",
    ),
    planted(
        "repair/admission.py",
        "record_refusal",
        "a canceled case is asked for approval again",
        "if must_ask and case.cancelled and action is not RepairAction.VERIFY:",
        "if False:",
    ),
    planted(
        "repair/case_orders.py",
        "_open_approval",
        "an approval counts after its deadline",
        "if approval.answer_by <= now:",
        "if False:",
    ),
    planted(
        "repair/attempt/failed_attempts.py",
        "requeue_case",
        "a fault that joins an attempt leaves the rule of the milder one",
        "with_requirement(case, requirement) if requirement else case",
        "case",
    ),
    planted(
        "repair/attempt/failed_attempts.py",
        "requeue_case",
        "a canceled case that is queued again keeps its repair action",
        "if case.cancelled or (verifying and repair_action is None):",
        "if verifying and repair_action is None:",
    ),
    planted(
        "repair/attempt/failed_attempts.py",
        "requeue_case",
        "the instance of another controller gets the repair of the former one",
        "if case.cancelled or (verifying and repair_action is None):",
        "if case.cancelled:",
    ),
    planted(
        "repair/admission.py",
        "ask_operator",
        "a canceled case asks for an approval of a repair",
        "if case is None or (case.cancelled and repair_action is not RepairAction.VERIFY):",
        "if case is None:",
    ),
    planted(
        "pipeline/decide/governing_rules.py",
        "governing_rules",
        "a changed policy does not govern the repair of a fault that has ended",
        "_rules_of_ended_fault(state, case, policy) if has_ended and case.policy != policy.version else ()",
        "()",
    ),
    planted(
        "pipeline/decide/governing_rules.py",
        "governing_rules",
        "any active fault hides that the fault of the case has ended",
        "has_ended = all(",
        "has_ended = not found and all(",
    ),
    planted(
        "pipeline/decide/governing_rules.py",
        "_rules_of_ended_fault",
        "a rule of a changed policy that names a source does not govern an ended fault",
        "if stored.covers(fault",
        "if rule.match.covers(fault",
    ),
    planted(
        "pipeline/decide/governing_rules.py",
        "governing_rules",
        "only the rule of the case is asked",
        "rules = (rule_of_case(state, case, policy), *active, *changed, *former)",
        "rules = (rule_of_case(state, case, policy),)",
    ),
    planted(
        "pipeline/decide/governing_rules.py",
        "governing_rules",
        "a rule is forgotten when a reboot ends its fault but not the defect",
        ", *former)",
        ")",
    ),
    planted(
        "repair/attempt/intent.py",
        "commit_intent",
        "the rules at the intent are not kept",
        "case=with_governing_rules(state, live_attempt(state)[0], context.rules.policy)",
        "case=live_attempt(state)[0]",
    ),
    planted(
        "repair/attempt/intent.py",
        "stop_before_intent",
        "a repair passes its intent without the approval of a fault that joined",
        " or _stop_for_approval(context)",
        "",
    ),
)
