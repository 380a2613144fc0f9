"""Intent: the point of no return, on the record before anything is done to an instance."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Intent, Phase, RepairAction, WaitingFor
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.repair_actions import wanted
from faultbridge.repair.attempt.contract import Answer
from faultbridge.repair.attempt.progress import live, moved, reached, with_attempt
from faultbridge.repair.attempt.step_context import Work
from faultbridge.storage import items, keys

NAME = "intent"
STATUS = {
    RepairAction.RESET_GPU: NodeStatus.REPAIRING,
    RepairAction.REBOOT_NODE: NodeStatus.REPAIRING,
    RepairAction.REPLACE_NODE: NodeStatus.REPLACING,
}


def stopped_before(work: Work) -> Answer | None:
    """End the attempt while nothing is done yet: it was cancelled, repairs are paused, or more is needed by now."""
    return work.stop_if_cancelled() or _stop_if_paused(work) or _stop_if_more_is_needed(work)


def commit(work: Work, facts: Mapping[str, Any], spare: str | None = None) -> Work:
    """Put the intent on the record, unless a person cancelled the case in the last moment."""

    def revise(state: NodeState, now: datetime) -> Transition:
        case, attempt = live(state)
        sitting = state.incarnation
        if case.cancelled or attempt.intent is not None or sitting is None or sitting.instance_id is None:
            return Transition(state)
        intent = Intent(case.repair_action, sitting.instance_id, sitting.instance, case.execution, now)
        told = {"generation": intent.generation, "token": intent.token, "rule": case.rule, "policy": case.policy}
        step = entry_builder.step(
            case, NAME, "committed", now, old_instance=intent.instance_id, facts=told | dict(facts)
        )
        state = reached(with_attempt(state, intent=intent, spare=spare), Phase.INTENT, now)
        state, draft = moved(state, STATUS[case.repair_action], now, "drained; intent committed")
        return Transition(state, (step, draft))

    return work.commit(revise)


def _stop_if_paused(work: Work) -> Answer | None:
    cluster = work.state.key.cluster
    if not items.read_control(cluster, work.tools.table.get(keys.cluster_control(cluster))).paused:
        return None
    return work.requeue(WaitingFor.PAUSE, "repairs were paused before the intent", later=False, counts=False)


def _stop_if_more_is_needed(work: Work) -> Answer | None:
    repair_action = wanted(work.state, work.case, work.rules.policy)
    if repair_action is work.case.repair_action:
        return None
    reason = f"{repair_action.value} is needed by now"
    return work.requeue(WaitingFor.BUDGET, reason, repair_action=repair_action, later=False, counts=False)
