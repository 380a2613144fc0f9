"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from faultbridge.model.cluster.config import CapacitySource, UpdateHold
from faultbridge.model.enums import CaseStatus, RepairAction
from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import Match, Rule
from faultbridge.record.ports.compute import Capacity, CapacityEvidence, Verdict, Verification
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.node_orders import NodeOrders
from faultbridge.repair.registry.registration import Registration
from tests.scenarios.world import CLUSTER, GROUP, World


def begin_update(world: World) -> None:
    now = world.clock.now()
    hold = UpdateHold(GROUP, now, now + timedelta(days=1))
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, {"update_holds": (hold,)})


FAILED = Verification(Verdict.FAILED, ("memory: 3 errors",))

UNANSWERED = Verification(Verdict.UNKNOWN, ("the command ended as Undeliverable",))


HOURS = timedelta(hours=4)


def ignore(world: World) -> None:
    NodeOrders(world.append, world.rulebook).ignore(world.key(), OperatorOrder("jane"), world.clock.now() + HOURS)


def maintain(world: World) -> None:
    set_cluster(world, maintenance_until=world.clock.now() + HOURS)


def set_cluster(world: World, **settings: object) -> None:
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, settings)


ADA = OperatorOrder("arn:aws:iam::123456789012:user/ada", "checked")

REPLACE = RepairAction.REPLACE_NODE

MILD = Rule("reboots-are-automatic", Match(codes=("xid.48",)), release_without_capacity=True)

CAREFUL = Rule("replacements-ask", Match(codes=("xid.79",)), approval=(REPLACE,), release_without_capacity=True)


def with_rules(*rules: Rule) -> World:
    world = World(rules=rules, orchestrated=True)
    world.provider.known_capacity = Capacity(CapacityEvidence.LAUNCH_FIRST)
    return world


def record_outcomes(world: World, step: str) -> list[str]:
    """Return a list that gets the outcome of each later call of a step."""
    found: list[str] = []
    handler = world.workflow.handler

    def recording_handler(payload: Any) -> Any:
        answer = handler(payload)
        if answer["step"] == step:
            found.append(answer["outcome"])
        return answer

    world.workflow.handler = recording_handler
    return found


RESOLVED, ESCALATED = CaseStatus.RESOLVED, CaseStatus.ESCALATED

FIRST = "i-00000000000000001"

RESET = Rule("reset", Match(codes=("xid.48",)), action=Action.RESET_GPU, release_without_capacity=True)

REBOOT = Rule("reboot", Match(codes=("xid.79",)), action=Action.REBOOT_NODE, release_without_capacity=True)


def faulty_world(code: str = "xid.79", **others: object) -> World:
    world = World(rules=(RESET, REBOOT), **others)  # type: ignore[arg-type]  # the arguments of a world
    world.fault_and_react(code=code)
    return world


def restarts(world: World) -> list[tuple[str, str]]:
    return [(repair_action.value, instance) for repair_action, instance, _ in world.restarter.restarted]


OWN, OPEN, BLOCK, PLAN = (
    CapacitySource.OWN_RESERVATION,
    CapacitySource.OPEN_RESERVATION,
    CapacitySource.CAPACITY_BLOCK,
    CapacitySource.TRAINING_PLAN,
)

SPARES, ON_DEMAND, FALLBACK = CapacitySource.SPARE_POOL, CapacitySource.ON_DEMAND, CapacitySource.FALLBACK_TYPES

FREE = Capacity(CapacityEvidence.RESERVATION, reason="cr-2: 2 free", count=2)

UNKNOWN = Capacity(reason="only a launch shows it")


def launched_type(world: World) -> str:
    return world.fleet.instances[world.instance()].instance_type
