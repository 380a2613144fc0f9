"""The desired size of a group: a cluster recovers until that many nodes serve, and its events count them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.cases import INSTANCE_ADDED
from faultbridge.model.cluster.config import Mode, RepairOwner
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, Resolution, WaitingFor
from faultbridge.model.policy import Rule
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.retirement import Retirement
from tests.hyperpod import GROUP as INSTANCE_GROUP
from tests.scenarios.provider.builders import last
from tests.scenarios.provider.growth import BAD, Growth
from tests.scenarios.provider.hyperpod_world import hyperpod_world
from tests.scenarios.provider.provider_conditions import statuses
from tests.scenarios.world import CLUSTER, GROUP
from tests.sim.fakes import FakeInventory


def test_a_cluster_recovers_until_its_group_has_the_desired_number_of_verified_nodes() -> None:
    growth = Growth()
    fakes: FakeInventory = growth.fakes
    fakes.desired[GROUP] = 4
    growth.run_inventory()
    assert last(growth) == ("recovering", 2, 4)
    assert str(growth.statuses()[-1]["reason"]).startswith("2 of 4 nodes in service")
    (first,) = growth.launch()
    growth.run_inventory()
    growth.until_verified(first)
    assert last(growth) == ("recovering", 3, 4)
    (second,) = growth.launch()
    growth.run_inventory()
    growth.until_verified(second)
    assert last(growth) == ("healthy", 4, 4)


def test_a_smaller_desired_size_hides_no_registered_node() -> None:
    growth = Growth()
    growth.fakes.desired[GROUP] = 1
    growth.run_inventory()
    assert last(growth) == ("healthy", 2, 2)


def test_an_unchanged_size_records_nothing() -> None:
    growth = Growth()
    growth.fakes.desired[GROUP] = 3
    growth.run_inventory()
    recorded = len(growth.statuses())
    growth.run_inventory()
    assert len(growth.statuses()) == recorded


def test_a_group_that_does_not_exist_lacks_no_node() -> None:
    growth = Growth()
    growth.fakes.desired[GROUP] = 3
    growth.run_inventory()
    growth.fakes.omitted_groups.add(GROUP)
    growth.run_inventory()
    growth.world.advance_minutes(2)
    assert last(growth) == ("healthy", 2, 2)


def test_the_target_count_of_a_hyperpod_group_is_its_desired_size() -> None:
    with hyperpod_world(nodes=2) as world:
        world.cluster.desired[INSTANCE_GROUP] = 3
        world.run_inventory()
        status = statuses(world)[-1]["data"]
        assert (status["to"], status["in_service"], status["expected"]) == ("recovering", 2, 3)


@pytest.mark.parametrize("orchestrated", [False, True])
def test_a_new_instance_serves_only_after_its_verification(orchestrated: bool) -> None:
    growth = Growth(orchestrated=orchestrated)
    (new,) = growth.launch()
    growth.run_inventory()
    state = growth.node(new)
    assert (state.status, state.unverified) == (NodeStatus.VALIDATING, True)
    assert state.case is not None
    assert (state.case.code, state.case.rule) == (INSTANCE_ADDED, "release")
    growth.world.advance_minutes(2)
    name = state.key.node
    assert (name in growth.world.orchestrator.cordoned) is orchestrated
    growth.until_verified(new)
    state = growth.node(new)
    assert (state.status, state.unverified, state.isolation) == (NodeStatus.HEALTHY, False, Isolation.NONE)
    assert state.case is not None
    assert (state.case.resolution, state.probations) == (Resolution.RECOVERED, ())
    assert name not in growth.world.orchestrator.cordoned
    assert growth.world.released_instances() == []


def test_a_new_instance_that_joins_its_cluster_late_is_cordoned_before_its_diagnostics() -> None:
    growth = Growth(orchestrated=True)
    (new,) = growth.launch()
    name = f"ip-{new[-4:]}"
    growth.world.orchestrator.unknown_nodes.add(name)
    growth.run_inventory()
    growth.world.advance_minutes(10)
    assert not growth.world.verifier.started
    growth.world.orchestrator.unknown_nodes.clear()
    growth.world.until(lambda: name in growth.world.orchestrator.cordoned, minutes=30)
    growth.until_verified(new)
    assert growth.node(new).status is NodeStatus.HEALTHY


def test_a_group_grows_from_two_to_six_although_one_new_instance_is_bad() -> None:
    growth = Growth()
    new = growth.launch(4)
    growth.world.verifier.results[new[1]] = BAD
    growth.run_inventory()
    growth.until_verified(*new)
    nodes = [growth.node(one) for one in new]
    assert [one.status for one in nodes] == [NodeStatus.HEALTHY] * 4
    assert not any(one.unverified for one in nodes)
    assert growth.world.released_instances() == [new[1]]
    statuses = growth.statuses()
    assert "2 of 6 nodes in service" in {str(one["reason"]).partition(",")[0] for one in statuses}
    assert (statuses[-1]["to"], statuses[-1]["in_service"], statuses[-1]["expected"]) == ("healthy", 6, 6)
    assert max(int(str(one["in_service"])) for one in statuses[:-1]) == 5
    growing = [(one["in_service"], one["verified"]) for one in statuses if one["expected"] == 6]
    assert {(2, 0), (6, 4)} <= set(growing)
    assert all(serving - verified == 2 for serving, verified in growing)  # type: ignore[operator] # counts; the first two were imported while they served
    assert growth.world.record_history(1)[-1] == "node None -> healthy"  # the serving nodes were never touched


def test_the_events_count_an_imported_node_as_verified_once_an_operator_let_it_be_verified() -> None:
    growth = Growth()
    world, order = growth.world, OperatorOrder("ada")
    for node in (1, 2):
        world.node_orders.quarantine(world.key(node), order)
        world.process_entries()
        world.until(lambda one=node: world.status(one) is NodeStatus.QUARANTINED)  # type: ignore[misc]
        assert growth.statuses()[-1]["verified"] == node - 1
        world.node_orders.return_node(world.key(node), order)
        world.process_entries()
        world.until(world.case_is(CaseStatus.RESOLVED, node), minutes=60)
        assert not world.node(node).unverified
        last = growth.statuses()[-1]
        assert (last["to"], last["in_service"], last["verified"]) == ("healthy", 2, node)


def test_a_retired_node_that_was_never_verified_is_no_longer_counted() -> None:
    growth = Growth()
    world = growth.world
    assert world.control().unverified == 2
    Retirement(world.table, world.append, world.rulebook).retire(world.key(2), OperatorOrder("ada"))
    assert world.control().unverified == 1


def test_a_bad_new_instance_waits_for_an_operator_if_the_policy_requires_it() -> None:
    growth = Growth(rules=(Rule("careful"),))
    (new,) = growth.launch()
    growth.world.verifier.results[new] = BAD
    growth.run_inventory()
    growth.world.until(lambda: growth.node(new).live_case.waiting_for is WaitingFor.APPROVAL, minutes=200)
    assert growth.world.released_instances() == []
    assert growth.node(new).status is NodeStatus.QUARANTINED


def test_a_new_instance_that_starts_slowly_is_verified() -> None:
    growth = Growth()
    (new,) = growth.launch()
    growth.fakes.standby.add(new)
    for _ in range(2):
        growth.run_inventory()
        growth.world.clock.advance(timedelta(minutes=5))
    growth.fakes.standby.clear()
    growth.run_inventory()
    assert growth.node(new).status is NodeStatus.VALIDATING


def test_an_instance_that_ran_before_its_group_was_known_serves_at_once() -> None:
    growth = Growth(known=False)
    (running,) = growth.launch()
    growth.world.clock.advance(timedelta(minutes=1))
    growth.run_inventory()
    state = growth.node(running)
    assert (state.status, state.unverified, state.case) == (NodeStatus.HEALTHY, True, None)


@pytest.mark.parametrize("change", [{"mode": Mode.DRY_RUN}, {"repair_owner": RepairOwner.OBSERVE}])
def test_a_new_instance_serves_at_once_where_faultbridge_does_not_act(change: dict[str, object]) -> None:
    growth = Growth()
    growth.registration.set_cluster(CLUSTER, change)
    (new,) = growth.launch()
    growth.run_inventory()
    assert growth.node(new).status is NodeStatus.HEALTHY


def test_an_opted_out_new_instance_is_left_alone() -> None:
    growth = Growth()
    (new,) = growth.launch()
    growth.fakes.opted_out_instances.add(new)
    growth.run_inventory()
    assert (growth.node(new).status, growth.node(new).case) == (NodeStatus.HEALTHY, None)


def test_where_the_provider_repairs_a_new_instance_is_verified_too() -> None:
    growth = Growth()
    growth.registration.set_cluster(CLUSTER, {"repair_owner": RepairOwner.PROVIDER})
    (new,) = growth.launch()
    growth.run_inventory()
    assert growth.node(new).status is NodeStatus.VALIDATING
    growth.until_verified(new)
    assert growth.node(new).status is NodeStatus.HEALTHY
    assert growth.world.released_instances() == []


def test_the_growth_of_a_paused_cluster_waits_out_of_service() -> None:
    growth = Growth()
    growth.world.pause_repairs(paused=True)
    (new,) = growth.launch()
    growth.run_inventory()
    growth.world.advance_minutes(30)
    assert growth.node(new).status is NodeStatus.VALIDATING
    growth.world.pause_repairs(paused=False)
    growth.until_verified(new)
    case = growth.node(new).case
    assert case is not None
    assert case.status is CaseStatus.RESOLVED
