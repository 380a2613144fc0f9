"""Out of reach: whether a repair goes on although the node's orchestrator does not answer.

It waits, unless the policy lets it proceed and somebody who sees the machine from outside proves it dead: what a node
says of itself, or what is said of its GPUs, proves nothing about the work that still runs there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import OrchestratorUnreachable, Policy

PROOFS: Mapping[str, frozenset[str]] = {
    "cloud.instance_gone": frozenset({"ec2-event"}),
    "cloud.system_impaired": frozenset({"ec2-status"}),
}
"""The conditions that prove a machine dead, and the reporters whose word counts for it."""


def proof_of_death(state: NodeState) -> str | None:
    """Say who proves the machine in the node dead, and by what; None where nobody does."""
    for condition in state.active():
        reporters = condition.sources & PROOFS.get(condition.code, frozenset())
        if reporters and condition.known_incarnation:
            return f"{', '.join(sorted(reporters))} proves the machine dead ({condition.code})"
    return None


def impatient(state: NodeState, policy: Policy, now: datetime) -> bool:
    """Tell whether the orchestrator has been out of reach for as long as the policy waits."""
    since = state.orchestrator_lost_at
    return since is not None and now >= since + policy.limits.orchestrator_timeout


def proceeds(state: NodeState, policy: Policy, now: datetime) -> str | None:
    """Say why the repair of a node goes on without its orchestrator, or None: it waits."""
    case = state.live_case
    if case is None or not impatient(state, policy, now):
        return None
    if policy.rule_named(case.rule).orchestrator_unreachable is not OrchestratorUnreachable.PROCEED:
        return None
    proof = proof_of_death(state)
    return f"the orchestrator is out of reach, and {proof}" if proof else None
