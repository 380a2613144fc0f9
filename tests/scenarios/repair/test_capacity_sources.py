"""Sources of capacity: asked in the order of the policy, recorded with the intent or with what the case waits for."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from faultbridge.model.cluster.config import DEFAULT_SOURCES, CapacitySource
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, NodeStatus, ProviderFailure, WaitingFor
from faultbridge.model.fault_enums import Action
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits, Match, Rule
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Write
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Capacity, CapacityEvidence
from faultbridge.repair.registry.registration import Registration
from tests.races import run_before_write
from tests.scenarios.repair.builders import (
    BLOCK,
    FALLBACK,
    FREE,
    ON_DEMAND,
    OPEN,
    OWN,
    PLAN,
    SPARES,
    UNKNOWN,
    launched_type,
)
from tests.scenarios.world import CLUSTER, GROUP, World
from tests.sim.fakes import Call

FULL = Capacity(CapacityEvidence.RESERVATION, free=False, reason="cr-2: 0 free", count=0)
CAREFUL = Rule("careful", release_without_capacity=False)


def world_with(*sources: CapacitySource, rule: Rule = CAREFUL, **answers: Capacity) -> World:
    """A node whose policy asks these sources; `answers` are those of the provider, by the name of the source."""
    world = World(rules=(rule,))
    world.policy = replace(world.policy, capacity=sources)
    world.provider.known_capacity = Capacity(CapacityEvidence.ABSENT)
    world.provider.capacities = {CapacitySource(name): answer for name, answer in answers.items()}
    return world


def answers_of(world: World, step: str = "intent") -> list[tuple[str, str, int | None]]:
    """Return source, decision and free count of each answer in the last entry of a step."""
    return [(one["source"], one["decision"], one["free"]) for one in facts(world, step)["capacity_sources"]]


def facts(world: World, step: str) -> dict[str, Any]:
    return [body["data"]["facts"] for body in world.bodies() if body["data"].get("step") == step][-1]


def asked(world: World) -> list[CapacitySource]:
    return [call.argument[0] for call in world.seam.named("provider.capacity")]


@pytest.mark.parametrize("source", [OWN, OPEN, BLOCK, PLAN, ON_DEMAND])
def test_a_source_of_the_provider_with_a_free_instance_permits_the_release(source: CapacitySource) -> None:
    world = world_with(source, **{source.value: FREE})
    world.fault_until_resolved()
    assert answers_of(world) == [(source.value, "used", 2)]
    assert facts(world, "intent")["capacity_source"] == source.value
    assert facts(world, "intent")["capacity_sources"][0]["reason"] == "cr-2: 2 free"


def test_the_sources_are_asked_in_the_order_of_the_policy_until_one_counts() -> None:
    world = world_with(OPEN, BLOCK, OWN, PLAN, open_reservation=FULL, own_reservation=FREE, training_plan=FREE)
    world.fault_until_resolved()
    assert asked(world)[:3] == [OPEN, BLOCK, OWN]
    assert PLAN not in asked(world)
    assert answers_of(world) == [
        ("open_reservation", "none_free", 0),
        ("capacity_block", "absent", None),
        ("own_reservation", "used", 2),
    ]
    step = next(body["data"] for body in world.bodies() if body["data"].get("step") == "intent")
    assert step["reason"] == "capacity from own_reservation: cr-2: 2 free"


def test_a_source_that_the_policy_does_not_name_is_not_asked() -> None:
    world = world_with(OWN, own_reservation=UNKNOWN, open_reservation=FREE)
    world.fault_and_react()
    assert set(asked(world)) == {OWN}
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])


def test_with_nothing_free_in_any_source_the_case_waits_and_continues_once_an_instance_is_free() -> None:
    lenient = Rule("lenient", release_without_capacity=True)
    world = world_with(OWN, OPEN, BLOCK, rule=lenient, own_reservation=FULL, open_reservation=FULL)
    world.fault_and_react()
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.CAPACITY, [])
    assert answers_of(world, "capacity") == [
        ("own_reservation", "none_free", 0),
        ("open_reservation", "none_free", 0),
        ("capacity_block", "absent", None),
    ]
    world.provider.capacities[OPEN] = FREE
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert answers_of(world)[-1] == ("open_reservation", "used", 2)


def test_on_demand_capacity_is_recorded_as_unknown_and_the_rule_decides() -> None:
    asking = world_with(OWN, ON_DEMAND, own_reservation=FULL, on_demand=UNKNOWN)
    asking.fault_and_react()
    assert asking.case().pending_approval is not None
    assert answers_of(asking, "capacity")[-1] == ("on_demand", "unknown", None)
    assert asking.case().reason.endswith("cr-2: 0 free; only a launch shows it")
    lenient = Rule("lenient", release_without_capacity=True)
    permitted = world_with(OWN, ON_DEMAND, rule=lenient, own_reservation=FULL, on_demand=UNKNOWN)
    permitted.fault_until_resolved()
    assert [decision for _, decision, _ in answers_of(permitted)] == ["none_free", "unknown"]
    assert facts(permitted, "intent")["capacity_evidence"] == "none"
    assert "capacity_source" not in facts(permitted, "intent")


def test_without_any_source_that_exists_an_operator_is_asked_instead_of_waiting_forever() -> None:
    world = world_with(PLAN)
    world.fault_and_react()
    assert world.case().waiting_for is WaitingFor.APPROVAL
    assert answers_of(world, "capacity") == [("training_plan", "absent", None)]


def test_a_list_without_on_demand_is_never_released_on_demand_by_a_rule() -> None:
    lenient = Rule("lenient", release_without_capacity=True)
    world = world_with(OWN, BLOCK, rule=lenient)
    world.fault_and_react()
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])
    empty = world_with(rule=lenient)
    empty.fault_until_resolved()
    assert len(empty.released_instances()) == 1


def nodes_with_one_free_instance(rule: Rule = CAREFUL) -> World:
    """Three nodes of a group whose open reservation has one free instance, until a successor is launched in it."""
    world = World(nodes=3, limits=Limits(concurrent=3), rules=(rule,))
    world.policy = replace(world.policy, capacity=(OPEN,))
    world.provider.known_capacity = Capacity(CapacityEvidence.ABSENT)
    world.provider.capacities = {OPEN: replace(FREE, count=1)}
    return world


def test_one_free_instance_of_an_open_reservation_permits_one_release_at_a_time() -> None:
    world = nodes_with_one_free_instance()
    for node in (1, 2, 3):
        world.fault(node)
    world.process_entries()
    world.until(lambda: len(world.released_instances()) == 1)
    world.advance_minutes()
    assert len(world.released_instances()) == 1
    waiting = [world.case(node) for node in (1, 2, 3) if world.case(node).waiting_for is WaitingFor.CAPACITY]
    assert waiting
    assert all("1 replacements in progress use them first" in one.reason for one in waiting)
    for node in (1, 2, 3):
        world.until(world.case_is(CaseStatus.RESOLVED, node))


def test_two_repairs_that_ask_at_once_do_not_both_use_the_only_free_instance() -> None:
    world = nodes_with_one_free_instance()

    first, second = "i-00000000000000001", "i-00000000000000002"

    def is_intent_of_the_first(write: Write) -> bool:
        asked_for = [call.argument[1] for call in world.seam.named("provider.capacity")]
        return write.key == keys.cluster_control(CLUSTER) and first in asked_for

    run_before_write(world.seam, is_intent_of_the_first, lambda: world.fault_and_react(2))
    world.fault_and_react(1)
    assert world.released_instances() == [second]


def move_to_another_group(world: World) -> None:
    """Move the second node to the group `others`."""

    def revise(state: NodeState, _now: datetime) -> Transition:
        return Transition(replace(state, placement=replace(state.placement, group="others")))

    world.append(world.key(2), revise, actor=Actor.INVENTORY)


def test_what_one_group_finds_leaves_the_wait_of_another_group_as_it_is() -> None:
    world = nodes_with_one_free_instance()
    world.provider.capacities = {OPEN: FULL}
    move_to_another_group(world)
    world.fault_and_react(1)
    first = world.control().no_capacity_until
    world.clock.advance(timedelta(minutes=1))
    world.fault_and_react(2)
    assert list(first) == [GROUP]
    assert world.control().no_capacity_until == {**first, "others": first[GROUP] + timedelta(minutes=1)}


def test_a_replacement_in_another_group_uses_no_free_instance_of_this_group() -> None:
    world = nodes_with_one_free_instance()
    move_to_another_group(world)
    for node in (1, 2):
        world.fault_and_react(node)
    assert world.released_instances() == ["i-00000000000000001", "i-00000000000000002"]


@pytest.mark.parametrize(
    ("busy", "action", "status"),
    [(True, Action.REPLACE_NODE, NodeStatus.DRAINING), (False, Action.REBOOT_NODE, NodeStatus.REPAIRING)],
)
def test_only_a_replacement_after_its_intent_uses_a_free_instance(
    busy: bool, action: Action, status: NodeStatus
) -> None:
    first = Rule("first", Match(codes=("xid.48",)), action=action, release_without_capacity=False)
    world = World(nodes=2, limits=Limits(concurrent=2), rules=(first, CAREFUL), orchestrated=True)
    world.policy = replace(world.policy, capacity=(OPEN,))
    world.provider.capacities = {OPEN: replace(FREE, count=1)}
    if busy:
        world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(hours=1)
    world.fault_and_react(1, code="xid.48")
    world.fault_and_react(2)
    assert (world.status(1), world.released_instances()) == (status, ["i-00000000000000002"])


def test_a_successor_that_is_launched_before_the_release_is_not_subtracted_from_the_free_instances() -> None:
    world = World(nodes=2, limits=Limits(concurrent=2), rules=(CAREFUL,))
    world.launch_from_template("p5.48xlarge")
    world.policy = replace(world.policy, capacity=(OPEN,))
    world.provider.capacities = {OPEN: replace(FREE, count=1)}
    for node in (1, 2):
        world.fault_and_react(node)
    assert [world.status(node) for node in (1, 2)] == [NodeStatus.REPLACING] * 2


def test_a_release_changes_no_controls_of_a_cluster_whose_groups_have_capacity() -> None:
    world = World()
    world.fleet.capacity_left = 0
    versions: list[int] = []

    def note_version(call: Call) -> None:
        if call.name == "provider.replace":
            versions.append(world.control().version)

    world.seam.before = note_version
    world.fault_and_react()
    assert world.status() is NodeStatus.PROVISIONING
    assert [world.control().version] == versions


@pytest.mark.parametrize(("minutes", "decision"), [(59, "none_free"), (600, "used")])
def test_a_block_that_ends_within_the_hour_does_not_count(minutes: int, decision: str) -> None:
    world = world_with(BLOCK)
    ends = world.clock.now() + timedelta(minutes=minutes)
    world.provider.capacities[BLOCK] = replace(FREE, ends_at=ends)
    world.fault_and_react()
    recorded = answers_of(world, "intent" if decision == "used" else "capacity")
    assert recorded == [("capacity_block", decision, 2)]
    if decision == "none_free":
        assert "it ends at" in world.case().reason
        assert world.released_instances() == []


def launching(*sources: CapacitySource, spares: int = 0) -> World:
    world = World(rules=(CAREFUL,))
    world.launch_from_template("p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge")
    world.policy = replace(world.policy, capacity=sources)
    if spares:
        changes = {"spares": spares, "spare_group": GROUP}
        Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, changes)
        world.advance_minutes(30)
    return world


def test_a_spare_is_taken_only_where_the_policy_names_the_pool_and_in_its_place() -> None:
    first = launching(SPARES, ON_DEMAND, spares=1)
    first.fault_until_resolved()
    assert answers_of(first) == [("spare_pool", "used", None)]
    later = launching(ON_DEMAND, SPARES, spares=1)
    later.fault_until_resolved()
    assert answers_of(later) == [("on_demand", "used", None)]
    assert "spare" not in facts(later, "intent")


def test_an_empty_pool_is_recorded_and_the_next_source_is_asked() -> None:
    world = launching(SPARES, ON_DEMAND)
    changes = {"spares": 1, "spare_group": GROUP}
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, changes)
    world.fault_until_resolved()
    assert answers_of(world) == [("spare_pool", "none_free", 0), ("on_demand", "used", None)]


def test_a_cluster_without_spares_records_that_the_pool_is_absent() -> None:
    world = launching(SPARES, ON_DEMAND)
    world.fault_until_resolved()
    assert answers_of(world) == [("spare_pool", "absent", None), ("on_demand", "used", None)]


def test_further_instance_types_are_launched_only_if_the_policy_names_them() -> None:
    only_first = launching(ON_DEMAND)
    only_first.launcher.types_without_capacity.add("p5.48xlarge")
    only_first.fault_and_react(minutes=10)
    assert (only_first.case().waiting_for, only_first.released_instances()) == (WaitingFor.CAPACITY, [])
    both = launching(ON_DEMAND, FALLBACK)
    both.launcher.types_without_capacity.add("p5.48xlarge")
    both.fault_until_resolved()
    assert launched_type(both) == "p5e.48xlarge"


def test_the_further_instance_types_come_first_where_the_policy_says_so() -> None:
    world = launching(FALLBACK, ON_DEMAND)
    world.fault_until_resolved()
    assert answers_of(world) == [("fallback_types", "used", None)]
    assert facts(world, "intent")["capacity"] == "p5e.48xlarge, p5en.48xlarge"
    assert launched_type(world) == "p5e.48xlarge"


def test_the_types_of_the_source_that_permitted_the_release_are_launched_first() -> None:
    world = launching(ON_DEMAND, FALLBACK)
    world.provider.capacities[ON_DEMAND] = FULL
    world.fault_until_resolved()
    assert answers_of(world) == [("on_demand", "none_free", 0), ("fallback_types", "used", None)]
    assert launched_type(world) == "p5e.48xlarge"


def test_the_default_order_asks_no_reservation_that_other_workloads_may_use() -> None:
    assert OPEN not in DEFAULT_SOURCES
    assert World().policy.capacity == DEFAULT_SOURCES


@pytest.mark.parametrize("source", [OWN, OPEN, BLOCK])
def test_the_type_of_the_reservation_that_permitted_the_release_is_launched_first(source: CapacitySource) -> None:
    world = launching(source, FALLBACK)
    world.provider.capacities[source] = FREE
    world.fault_until_resolved()
    assert facts(world, "intent")["capacity_source"] == source.value
    assert launched_type(world) == "p5.48xlarge"


def test_the_type_of_a_full_reservation_is_not_launched_in_place_of_a_further_type() -> None:
    world = launching(OWN, FALLBACK)
    world.provider.capacities[OWN] = FULL
    world.launcher.types_without_capacity |= {"p5e.48xlarge", "p5en.48xlarge"}
    world.fault_and_react(minutes=10)
    assert (world.case().waiting_for, world.live_instances()) == (WaitingFor.CAPACITY, ["i-00000000000000001"])


def test_a_change_of_the_policy_does_not_change_the_types_of_a_launch_under_way() -> None:
    world = launching(ON_DEMAND)
    world.launcher.fail_next(ProviderFailure.TIMEOUT)
    world.fault_and_react()
    world.until(lambda: len(world.launcher.launch_calls) == 1)
    world.policy = replace(world.policy, capacity=(FALLBACK,))
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert launched_type(world) == "p5.48xlarge"
    assert len({token for _, token in world.launcher.launch_calls}) == 1


def test_a_successor_that_took_the_last_free_instance_of_a_reservation_is_used_by_the_next_attempt() -> None:
    world = launching(OWN)
    world.provider.capacities[OWN] = replace(FREE, count=1)
    world.provider.fail_next(ProviderFailure.CONFLICT)
    world.fault_and_react()
    world.until(lambda: len(world.live_instances()) == 2)
    world.provider.capacities[OWN] = FULL
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert answers_of(world) == [("own_reservation", "used", None)]
    successor = "i-00000000000000002"
    assert facts(world, "intent")["capacity"] == f"{successor} was launched by an earlier attempt"
    assert world.live_instances() == [successor]


def test_a_spare_that_an_earlier_attempt_took_is_used_although_another_source_counts_by_now() -> None:
    world = launching(ON_DEMAND, SPARES, spares=1)
    world.provider.capacities[ON_DEMAND] = FULL
    world.provider.fail_next(ProviderFailure.CONFLICT)
    world.fault_and_react()
    world.until(lambda: len(world.provider.replaced) == 1)
    del world.provider.capacities[ON_DEMAND]
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert answers_of(world) == [("spare_pool", "used", None)]


def test_a_successor_of_an_earlier_attempt_counts_as_on_demand_if_the_policy_lists_no_source_of_its_type() -> None:
    world = launching(PLAN)
    world.provider.capacities[PLAN] = FREE
    world.provider.fail_next(ProviderFailure.CONFLICT)
    world.fault_until_resolved()
    assert (world.case().attempts, answers_of(world)) == (2, [("on_demand", "used", None)])
