"""Breakers: many failures at once stop repairs until it is clear that not all nodes are affected."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.cluster.config import Mode, RepairOwner
from faultbridge.model.cluster.state import BreakerLimit, BreakerState, Control
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, BreakerScope, CaseStatus, NodeStatus, ProviderFailure, WaitingFor
from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import Match, Rule
from faultbridge.model.storage import keys
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Verdict, Verification
from faultbridge.repair.registry.registration import Registration
from tests.scenarios.admission.builders import CLUSTER_LIMIT, fail, states
from tests.scenarios.world import CLUSTER, World, limits

RESOLVED, QUEUED = CaseStatus.RESOLVED, CaseStatus.QUEUED
RACK_LIMIT = BreakerLimit(BreakerScope.DOMAIN, nodes=4, percent=50)


def rack(number: int) -> str:
    return f"rack-{(number - 1) // 8 + 1}"


def world_of(nodes: int, *breakers: BreakerLimit, **others) -> World:
    return World(nodes=nodes, breakers=breakers or (CLUSTER_LIMIT, RACK_LIMIT), domain=rack, **others)


def safety(world: World) -> list[str]:
    return [line for line in world.record_history(None) if line.startswith("breaker")]


@pytest.mark.parametrize(("failing", "is_open"), [(3, False), (4, True)])
def test_a_breaker_of_a_rack_opens_at_its_number_of_nodes(failing: int, is_open: bool):
    world = world_of(40)
    fail(world, *range(1, failing + 1))
    assert (states(world).get("domain:rack-1") is BreakerState.OPEN) is is_open


def test_a_breaker_of_a_rack_stays_closed_below_its_share_of_the_nodes():
    world = World(nodes=20, breakers=(RACK_LIMIT,), domain=lambda _: "rack-1")
    fail(world, 1, 2, 3, 4)
    assert states(world).get("domain:rack-1") is not BreakerState.OPEN


def test_a_breaker_of_one_rack_blocks_only_that_rack_and_closes_by_itself():
    world = world_of(40)
    fail(world, 1, 2, 3, 4, 5)
    assert states(world) == {"domain:rack-1": BreakerState.OPEN}
    assert [world.status(node) for node in range(1, 6)] == [NodeStatus.QUARANTINED] * 5
    assert {world.case(node).waiting_for for node in range(1, 6)} == {WaitingFor.BREAKER}
    fail(world, 30)
    assert world.released_instances() == ["i-0000000000000001e"]
    world.advance_minutes()
    for node in range(1, 6):
        world.clear(node)
    world.process_entries()
    world.until(lambda: {world.status(node) for node in range(1, 6)} == {NodeStatus.HEALTHY})
    assert states(world) == {"domain:rack-1": BreakerState.CLOSED}
    assert safety(world) == ["breaker None -> open", "breaker open -> half_open", "breaker half_open -> closed"]
    assert world.released_instances() == ["i-0000000000000001e"]


def test_an_open_breaker_of_the_cluster_does_not_make_every_update_read_all_nodes():
    world = world_of(25)
    fail(world, 1, 2, 9, 10, 17)
    assert states(world) == {"cluster": BreakerState.OPEN}
    prefixes, query = [], world.table.query

    def recorded(pk: str, **others):
        prefixes.append(others.get("prefix", ""))
        return query(pk, **others)

    world.table.query = recorded
    world.guard.update(CLUSTER)
    assert prefixes
    assert keys.NODE_ROW not in prefixes
    fail(world, 3, 4)
    assert states(world) == {"cluster": BreakerState.OPEN, "domain:rack-1": BreakerState.OPEN}
    assert keys.NODE_ROW in prefixes


def test_an_open_breaker_stops_repairs_and_never_a_cordon():
    world = world_of(40, orchestrated=True)
    fail(world, *range(1, 6))
    assert states(world) == {"domain:rack-1": BreakerState.OPEN}
    assert world.orchestrator.cordoned == {f"node-{node}" for node in range(1, 6)}
    assert world.control().holders == {}
    assert {world.case(node).waiting_for for node in range(1, 6)} == {WaitingFor.BREAKER}


def test_a_breaker_that_opens_during_the_admission_prevents_the_repair(monkeypatch):
    world = world_of(40, orchestrated=True)
    for node in range(1, 6):
        world.fault(node)
    read = world.dispatch._control

    def read_then_open(cluster: str) -> Control:
        found = read(cluster)
        world.guard.update(cluster)
        return found

    monkeypatch.setattr(type(world.dispatch), "_control", lambda _, cluster: read_then_open(cluster))
    assert world.dispatch.admit_cases(CLUSTER).admitted == ()
    assert states(world) == {"domain:rack-1": BreakerState.OPEN}
    assert world.control().holders == {}


def test_a_half_open_breaker_admits_one_repair_at_a_time():
    world = world_of(40, limits=limits(concurrent=4))
    fail(world, 1, 2, 3, 4, 5)
    world.advance_minutes(9)
    assert world.released_instances() == []
    most = 0
    for _ in range(200):
        world.advance_minutes()
        if states(world)["domain:rack-1"] is BreakerState.HALF_OPEN:
            most = max(most, len(world.control().holders))
    assert most == 1
    assert {world.case(node).status for node in range(1, 6)} == {RESOLVED}
    assert safety(world) == ["breaker None -> open", "breaker open -> half_open", "breaker half_open -> closed"]


def test_a_new_failure_reopens_a_half_open_breaker():
    world = world_of(40)
    fail(world, 1, 2, 3, 4, 5, 6)
    world.until(lambda: states(world)["domain:rack-1"] is BreakerState.HALF_OPEN)
    world.clock.advance(1)
    fail(world, 7)
    assert states(world)["domain:rack-1"] is BreakerState.OPEN
    assert world.case(7).waiting_for is WaitingFor.BREAKER


def test_the_cluster_breaker_blocks_every_rack():
    world = world_of(40, CLUSTER_LIMIT)
    fail(world, *range(1, 33, 4))
    assert states(world) == {"cluster": BreakerState.OPEN}
    fail(world, 40)
    assert (world.status(40), world.case(40).waiting_for) == (NodeStatus.QUARANTINED, WaitingFor.BREAKER)


def test_nodes_without_an_instance_yet_do_not_open_the_breaker():
    world = world_of(20, CLUSTER_LIMIT)
    for node in range(1, 7):

        def gone(state, now):
            from faultbridge.decide import entry_builder
            from faultbridge.model.values import replace

            draft = entry_builder.status_change(state, NodeStatus.PROVISIONING, now, "growing")
            return Transition(replace(state, status=NodeStatus.PROVISIONING), (draft,))

        world.append(world.key(node), gone, actor=Actor.INVENTORY)
    fail(world, 20)
    assert states(world) == {}
    world.until(world.case_is(RESOLVED, 20))


def test_nodes_without_a_case_do_not_open_the_breaker():
    world = world_of(20, CLUSTER_LIMIT)
    for node in range(1, 7):
        world.fault(node, "xid.92")
    world.process_entries()
    assert {(world.status(node), world.node(node).case) for node in range(1, 7)} == {(NodeStatus.DEGRADED, None)}
    assert states(world) == {}


def test_verified_nodes_are_uncordoned_while_the_breaker_is_open():
    world = world_of(40, CLUSTER_LIMIT, orchestrated=True)
    fail(world, 1)
    world.until(lambda: world.status(1) is NodeStatus.VALIDATING)
    fail(world, *range(2, 12))
    assert states(world) == {"cluster": BreakerState.OPEN}
    assert world.orchestrator.cordoned == {f"node-{node}" for node in range(1, 12)}
    world.until(world.case_is(RESOLVED, 1))
    assert "node-1" not in world.orchestrator.cordoned
    assert world.record_history().index("return_to_service returned") > 0


def test_after_an_operator_closes_the_breaker_only_other_nodes_open_it_again():
    world = world_of(40, CLUSTER_LIMIT, limits=limits(concurrent=40, per_hour=40))
    fail(world, *range(1, 9))
    world.controls.close_breakers(CLUSTER, "arn:aws:iam::123456789012:user/ada")
    world.advance_minutes(2)
    assert states(world) == {"cluster": BreakerState.CLOSED}
    assert not [node for node in range(1, 9) if world.node(node).status.in_service]
    closing = world.bodies(None)[-1]
    last = next(body for body in reversed(world.bodies(None)) if body["data"].get("kind") == "breaker")
    assert (last["data"]["operator"], last["metadata"]["recorded_by"]) == ("arn:aws:iam::123456789012:user/ada", "cli")
    assert closing["metadata"]["sequence"] >= last["metadata"]["sequence"]


def test_forty_of_four_hundred_nodes_are_isolated_within_a_minute_and_two_repaired_at_a_time():
    world = World(nodes=400, breakers=(CLUSTER_LIMIT,), orchestrated=True, limits=limits(concurrent=2, per_hour=100))
    fail(world, *range(1, 41))
    world.advance_minutes()
    assert world.orchestrator.cordoned == {f"node-{node}" for node in range(1, 41)}
    for _ in range(30):
        world.advance_minutes()
        assert len(world.control().holders) <= 2
    assert len(world.released_instances()) >= 2


@pytest.mark.parametrize("lost", ["gone", "over"])
def test_a_leaked_slot_is_released(lost):
    world = World()
    if lost == "over":
        world.fault_until_resolved()
        case = world.case().id
    else:
        case = "c-of-nobody"
    from faultbridge.model.storage import keys
    from faultbridge.model.storage.writes import Update

    held = {("holders", case): "2026-02-03T12:00:00.000Z"}
    world.table.write(Update(keys.cluster_control(CLUSTER), set=held, add={"version": 1}))
    assert world.advance_minutes().released_slots == 1
    assert world.control().holders == {}


def test_a_slot_in_use_is_never_released():
    world = World()
    world.fault_and_react()
    for _ in range(10):
        assert world.advance_minutes().released_slots == 0
    assert list(world.control().holders) == [world.case().id]
    assert timedelta(0) <= world.clock.now() - world.control().starts[0]


def test_a_failed_trial_repair_reopens_a_half_open_breaker_until_it_stays_open():
    world = world_of(40)
    world.verifier.result = Verification(Verdict.FAILED, ("pcie: fail",), b"{}")
    fail(world, 1, 2, 3, 4, 5, 6)
    world.advance_minutes(24 * 60)
    assert states(world)["domain:rack-1"] is BreakerState.OPEN
    changes = [line.removeprefix("breaker ") for line in safety(world)]
    assert changes == ["None -> open", *["open -> half_open", "half_open -> open"] * 2]
    assert len(world.released_instances()) == 2
    assert [world.status(node) for node in range(1, 7)].count(NodeStatus.FAILED) == 0


@pytest.mark.parametrize("trial", [1, 2])
def test_the_trial_of_a_half_open_breaker_ends_with_its_first_failed_attempt(trial: int):
    world = World(nodes=20, breakers=(replace(CLUSTER_LIMIT, trial=trial, openings=2),), limits=limits(per_hour=100))
    world.verifier.result = Verification(Verdict.FAILED, ("bad image",), b"{}")
    fail(world, *range(1, 9))
    world.until(lambda: states(world)["cluster"] is BreakerState.HALF_OPEN)
    world.until(lambda: states(world)["cluster"] is BreakerState.OPEN)
    assert len(world.released_instances()) == trial
    world.advance_minutes(120)
    assert len(world.released_instances()) == trial
    tried = [world.case(node) for node in range(1, 9) if world.case(node).attempts]
    assert {(case.status, case.attempts, case.waiting_for) for case in tried} == {(QUEUED, 1, WaitingFor.BREAKER)}
    opened = [body["data"] for body in world.bodies(None) if body["data"].get("to") == "open"]
    assert opened[-1]["reason"].startswith("a repair failed; opened 2 times within a day")


def test_a_failed_reboot_ends_the_trial_of_a_half_open_breaker_before_a_replacement():
    rule = Rule("reboot", Match(codes=("xid.79",)), action=Action.REBOOT_NODE)
    world = World(nodes=20, rules=(rule,), breakers=(CLUSTER_LIMIT,))
    world.verifier.result = Verification(Verdict.FAILED, ("bad image",), b"{}")
    fail(world, *range(1, 9))
    world.until(lambda: states(world)["cluster"] is BreakerState.HALF_OPEN)
    world.until(lambda: states(world)["cluster"] is BreakerState.OPEN)
    assert (len(world.restarter.restarted), world.released_instances()) == (1, [])


def test_an_attempt_that_ends_before_it_repairs_does_not_end_the_trial_of_a_half_open_breaker():
    world = World(nodes=20, breakers=(CLUSTER_LIMIT,))
    fail(world, *range(1, 9))
    world.provider.fail_next(ProviderFailure.THROTTLED)
    world.until(lambda: bool(world.released_instances()))
    world.advance_minutes(30)
    assert "breaker half_open -> open" not in safety(world)


@pytest.mark.parametrize("triggered", [True, False])
def test_a_breaker_names_as_its_cause_its_trigger_or_else_the_last_status_change_of_a_failing_node(triggered: bool):
    world = world_of(40)
    for node in range(1, 6):
        world.fault(node)
        world.clock.advance(1)
    last = next(body for body in world.bodies(5) if body["data"].get("to") == "degraded")
    event = "an-event" if triggered else None
    world.guard.update(CLUSTER, event)
    opened = next(body for body in world.bodies(None) if body["data"].get("kind") == "breaker")
    assert opened["metadata"]["causation_id"] == (event or last["metadata"]["event_id"])


def breakers_after_five_faults(**changes: Any) -> list[BreakerState]:
    world = World(nodes=8, breakers=(BreakerLimit(nodes=5, percent=20),))
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, changes)
    for node in range(1, 6):
        world.fault(node)
    world.guard.update(CLUSTER)
    return [one.state for one in world.control().breakers.values()]


def test_five_faults_open_the_breaker_of_a_cluster_that_faultbridge_repairs() -> None:
    assert breakers_after_five_faults(mode=Mode.ACT) == [BreakerState.OPEN]


@pytest.mark.parametrize("changes", [{"mode": Mode.DRY_RUN}, {"repair_owner": RepairOwner.PROVIDER}])
def test_no_breaker_opens_in_a_cluster_that_faultbridge_does_not_repair(changes: dict[str, Any]) -> None:
    assert breakers_after_five_faults(**changes) == []
