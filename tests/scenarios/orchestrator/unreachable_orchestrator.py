"""Builders of unreachable orchestrator that several test modules use."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.enums import CaseStatus, NodeStatus
from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import OrchestratorUnreachable, Rule
from tests.builders import NOON
from tests.scenarios.world import World
from tests.sim.fakes import Call

RESOLVED, QUEUED = CaseStatus.RESOLVED, CaseStatus.QUEUED

LONG = timedelta(days=2)

PROCEED = Rule("proceed", release_without_capacity=True, orchestrator_unreachable=OrchestratorUnreachable.PROCEED)

DEAD = ("cloud.system_impaired", "ec2-status")


def unreachable_world(*rules: Rule, code: str = "xid.79", source: str = "kernel-log", **others: object) -> World:
    """Return a world with a faulty node whose orchestrator is unreachable from the start."""
    world = World(orchestrated=True, rules=rules, **others)  # type: ignore[arg-type]  # the arguments of a world
    world.orchestrator.unreachable_until = NOON + LONG
    world.fault_and_react(code=code, source=source)
    return world


def unreachable_before_drain(*rules: Rule, action: Action = Action.REPLACE_NODE, **others: object) -> World:
    """Return a world whose orchestrator becomes unreachable between the cordon and the drain of a faulty node."""
    world = World(orchestrated=True, rules=rules, **others)  # type: ignore[arg-type]  # the arguments of a world

    def become_unreachable(call: Call) -> None:
        if call.name == "orchestrator.drain":
            world.seam.before = lambda _: None
            world.orchestrator.unreachable_until = NOON + LONG

    world.seam.before = become_unreachable
    world.fault_and_react(action=action)
    assert world.orchestrator.cordoned == {"node-1"}
    assert world.status() is NodeStatus.DRAINING
    return world


def pages(world: World) -> list[str]:
    """Return the entries that trigger or resolve a page about the orchestrator."""
    return [line for line in world.record_history() if line in {"note isolation overdue", "note isolation over"}]
