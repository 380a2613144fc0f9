"""Return: let work on the verified node again. Only a node whose verification passed comes this far."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Phase
from faultbridge.domain.nodes import Isolation, NodeState
from faultbridge.pipeline import entry_builder
from faultbridge.repair.attempt.contract import Answer, Outcome
from faultbridge.repair.attempt.failed_attempts import escalated
from faultbridge.repair.attempt.step_context import Work, waiting
from faultbridge.repair.isolation_backoff import in_time_again
from faultbridge.repair.steps import verify_node

NAME = "return_to_service"


def return_to_service(work: Work) -> Answer:
    """Un-cordon the node; where there is no orchestrator the step says that it does not apply."""
    if work.attempt.steps.get(verify_node.NAME) != Outcome.DONE:
        return work.escalate("the node was to return without a passed verification")
    fresh = verify_node.seen_since(work.state)
    if fresh:
        return verify_node.overtaken(work, fresh)
    if work.rules.config.follows:
        return _returned(work, "not_applicable", "the provider lets work back")
    orchestrator = work.orchestrator
    if not orchestrator.applicable:
        return _returned(work, "not_applicable", "the cluster has no orchestrator")
    answer = orchestrator.uncordon(work.member)
    if answer.ok:
        return _returned(work, "returned", answer.reason)
    return waiting(f"{answer.failure.value if answer.failure else ''}: {answer.reason}")


def return_is_late(work: Work, reason: str) -> Answer:
    """Hand over a good node of which the orchestrator did not say that it takes it back; perhaps it has done so."""
    why = f"TIMEOUT: verified, but the orchestrator does not take it back: {reason}"

    def stop(state: NodeState, now: datetime) -> Transition:
        draft = entry_builder.step(work.case, NAME, "timed_out", now, reason=reason, failure="TIMEOUT")
        unsure = replace(state, isolation=Isolation.REQUESTED)
        return escalated(unsure, now, why, drafts=(draft,), fails=False)

    work.commit(stop)
    return Answer(Outcome.FAILED, why)


def _returned(work: Work, how: str, reason: str) -> Answer:
    def finish(state: NodeState, now: datetime) -> Transition:
        step = entry_builder.step(work.case, NAME, how, now, reason=reason, new_instance=work.instance_id)
        free, over = in_time_again(replace(state, isolation=Isolation.NONE), now)
        return Transition(free, (*over, step))

    return work.settle(Outcome.DONE, Phase.CLOSING, finish)
