"""Unreachable orchestrator: whether a repair may proceed without the node's orchestrator.

The repair waits, unless all of these are true:

- The orchestrator has been unreachable for the policy's `orchestrator_timeout`.
- The policy rule of the case permits the repair to proceed.
- EC2 reports that the instance is gone or impaired. Reports of the node itself, or about its GPUs, are not sufficient:
  its jobs may still run.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import OrchestratorUnreachable, Policy
from faultbridge.pipeline.decide.governing_rules import rule_of_case

PROOFS: Mapping[str, frozenset[str]] = {
    "cloud.instance_gone": frozenset({"ec2-event"}),
    "cloud.system_impaired": frozenset({"ec2-status"}),
}
"""The conditions that prove an instance unusable, and the reporters that are accepted for each."""


def proof_of_failure(state: NodeState) -> str | None:
    """Return a text that states which report proves the instance unusable, or None without proof."""
    for condition in state.active():
        reporters = condition.sources & PROOFS.get(condition.code, frozenset())
        if reporters and condition.known_incarnation and not condition.claimed:
            return f"{', '.join(sorted(reporters))} reports {condition.code}: the instance is unusable"
    return None


def orchestrator_timed_out(state: NodeState, policy: Policy, now: datetime) -> bool:
    """Return whether the orchestrator has been unreachable for the policy's `orchestrator_timeout`."""
    since = state.orchestrator_lost_at
    return since is not None and now >= since + policy.limits.orchestrator_timeout


def reason_to_proceed(state: NodeState, policy: Policy, now: datetime) -> str | None:
    """Return why a repair may proceed without the orchestrator, or None if it must wait.

    Without a live case, the result is None.
    """
    case = state.live_case
    if case is None or not orchestrator_timed_out(state, policy, now):
        return None
    if rule_of_case(state, case, policy).orchestrator_unreachable is not OrchestratorUnreachable.PROCEED:
        return None
    proof = proof_of_failure(state)
    return f"the orchestrator is unreachable, and {proof}" if proof else None
