"""Stores policies other than the default policy in a simulated system.

One policy repairs an instance that EC2 reports as impaired even if the orchestrator does not respond. The other
policies start certain repair actions only after an operator approves them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from faultbridge.decode.data.policies import version_of
from faultbridge.model.enums import RepairAction
from faultbridge.model.policy import OrchestratorUnreachable, Policy, Rule
from faultbridge.model.storage.codec import dump
from faultbridge.model.values import replace
from faultbridge.record.policies import PolicyStore
from tests.sim.simulated_system import SimulatedSystem

LOST = "lost"
"""The version of a current policy that is not stored, until an operator stores one within the hour."""


def proceed_without_orchestrator(system: SimulatedSystem) -> None:
    """Set a policy that repairs an instance with an impaired host even if the orchestrator is unreachable."""
    proceeding = OrchestratorUnreachable.PROCEED
    _store(system, [replace(rule, orchestrator_unreachable=proceeding) for rule in system.policy.rules])


def require_approval(
    system: SimulatedSystem, repair_actions: tuple[RepairAction, ...], deadline: timedelta, codes: tuple[str, ...] = ()
) -> None:
    """Set a policy under which these repair actions start only after an operator approves them.

    With `codes`, only faults with these codes require the approval. If no operator decides within `deadline`, the case
    is escalated.
    """
    rules = system.policy.rules
    if codes:
        last = rules[-1]
        rule = replace(last, name="some-codes-ask", match=replace(last.match, codes=codes))
        _store(system, [_asking(rule, repair_actions, deadline), *rules])
    else:
        _store(system, [_asking(rule, repair_actions, deadline) for rule in rules])


def _asking(rule: Rule, repair_actions: tuple[RepairAction, ...], deadline: timedelta) -> Rule:
    return replace(rule, approval=repair_actions, approval_deadline=deadline)


def _store(system: SimulatedSystem, rules: list[Rule]) -> None:
    document = hashed(replace(system.policy, rules=tuple(rules)))
    system.policy = replace(system.policy, version=document["version"], rules=tuple(rules))
    system.workers.operate(lambda app: PolicyStore(app.ports.table, app.ports.clock).put(document))


def hashed(policy: Policy) -> dict[str, Any]:
    """Return the document of a policy with its hash as the version, as the command line stores it."""
    document: Any = dump(policy)
    del document["version"]
    return {**document, "version": version_of(document)}
