"""The isolation budget: many reports, true or false, take few serving nodes out, and stop little running work."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from msgspec.structs import force_setattr

from faultbridge.decide.case_moves import Rules
from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.policies import default_policy
from faultbridge.model.catalog import Catalog
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, WaitingFor
from faultbridge.model.fault_enums import Action
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits, Rule
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Update
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.record.ports.messaging import PageUrgency
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.isolate import IsolationResult, prepare_isolations
from faultbridge.repair.isolation_permits import IsolationPermits
from faultbridge.repair.node_orders import NodeOrders
from faultbridge.serve.wiring.services import wire_cluster_status
from tests.builders import CATALOG
from tests.races import run_before_write, writes_to
from tests.scenarios.incidents.pages_of_incidents import pages
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import Call

DIAGNOSED = "dcgm.diag_failed"
"""A code of severity error whose action is to run diagnostics."""


class RacingPermits(IsolationPermits, frozen=True, kw_only=True):
    """Permits whose answers pass through a function, which can let another writer commit first."""

    answer: Callable[[NodeState, Rules, datetime], Update | str]

    def permit(self, state: NodeState, rules: Rules, now: datetime) -> Update | str:
        return self.answer(state, rules, now)


def busy_world(nodes: int, *, days: int = 3) -> World:
    """Return a world with the packaged catalog and policy, whose nodes all run work."""
    world = World(nodes=nodes, orchestrated=True, catalog=load_catalog())
    world.policy = default_policy()
    until = world.clock.now() + timedelta(days=days)
    world.orchestrator.busy_until = {f"node-{number}": until for number in range(1, nodes + 1)}
    return world


def out_of_service(world: World, nodes: int) -> int:
    return sum(not world.status(number).in_service for number in range(1, nodes + 1))


def cordoned(world: World) -> int:
    return len(world.orchestrator.cordoned)


def drains(world: World, nodes: int) -> int:
    histories = (world.record_history(number) for number in range(1, nodes + 1))
    return sum(any(line.startswith("drain ") for line in history) for history in histories)


def drain_limits(world: World) -> list[str]:
    return [line for line in world.record_history(None) if line.startswith("evictions")]


@pytest.mark.parametrize("gap", [0, 1, 20])
def test_claims_on_all_nodes_stop_no_work_and_cordon_the_budget_at_most(gap: int) -> None:
    world, most = busy_world(32), 0
    for number in range(1, 33):
        world.claim(number)
        world.process_entries()
        world.advance_minutes(gap)
        most = max(most, cordoned(world))
    for _ in range(90):
        world.advance_minutes()
        most = max(most, cordoned(world))
    assert 1 <= most <= 3
    assert drains(world, 32) == 0
    assert out_of_service(world, 32) == 0


def test_a_cordon_for_a_claim_keeps_the_node_in_service_until_its_work_has_ended() -> None:
    world = busy_world(1)
    world.claim(1)
    world.process_entries()
    world.advance_minutes(45)
    assert (world.status(), world.node().isolation) == (NodeStatus.DEGRADED, Isolation.CONFIRMED)
    assert world.case().waiting_for is WaitingFor.IDLE
    world.orchestrator.busy_until.clear()
    world.until(lambda: world.status() is NodeStatus.VALIDATING, minutes=10)
    world.until(lambda: world.status() is NodeStatus.HEALTHY, minutes=30)
    assert not world.orchestrator.cordoned
    assert world.control().permits == {}


def test_a_cordon_for_a_claim_ends_with_the_claim_while_the_work_runs() -> None:
    world = busy_world(1)
    world.claim(1)
    world.process_entries()
    world.advance_minutes(2)
    assert world.node().permitted_at is not None
    world.clear(1)
    world.process_entries()
    world.advance_minutes(2)
    assert (world.status(), world.node().isolation) == (NodeStatus.HEALTHY, Isolation.NONE)
    assert not world.orchestrator.cordoned
    assert world.control().permits == {}
    assert drains(world, 1) == 0


def test_a_lost_uncordon_of_a_cordon_for_a_claim_is_repeated_by_the_sweep() -> None:
    world = busy_world(1)
    world.claim(1)
    world.process_entries()
    world.advance_minutes(2)
    world.orchestrator.unreachable_until = world.clock.now() + timedelta(minutes=7)
    world.clear(1)
    world.process_entries()
    world.advance_minutes(5)
    assert world.orchestrator.cordoned
    world.advance_minutes(10)
    assert not world.orchestrator.cordoned
    assert world.node().isolation is Isolation.NONE


def test_a_claim_that_a_proven_sender_reports_too_takes_the_node_out_without_another_cordon() -> None:
    world = busy_world(2)
    world.claim(1)
    world.process_entries()
    world.advance_minutes(2)
    assert world.control().permits.keys() == {"node-1"}
    world.fault(1)
    world.advance_minutes()
    assert not world.status(1).in_service
    assert world.control().permits == {}, "a lost node is counted, but it holds no permit"


def test_a_proven_loss_on_all_nodes_cordons_all_and_drains_few_within_an_hour() -> None:
    world = busy_world(32)
    for number in range(1, 33):
        world.fault(number)
    world.process_entries()
    assert cordoned(world) == 32
    world.advance_minutes(60)
    assert drains(world, 32) <= 3
    (page,) = [one for one in pages(world) if one.urgency is PageUrgency.URGENT]
    assert "xid.79 (reported by kernel-log)" in page.bodies["email"]


@pytest.mark.parametrize(
    ("catalog", "cause"),
    [(load_catalog(), "gpu.lost (xid.79 reported by kernel-log)"), (CATALOG, "xid.79 (reported by kernel-log)")],
)
def test_where_no_breaker_limits_repairs_the_limit_of_drains_sends_the_one_urgent_page(
    catalog: Catalog, cause: str
) -> None:
    world = World(nodes=32, orchestrated=True, catalog=catalog, limits=Limits(concurrent=32, per_hour=100))
    for number in range(1, 7):
        world.fault(number)
    world.process_entries()
    world.advance_minutes(30)
    assert drains(world, 32) == 3
    assert world.case(6).waiting_for is WaitingFor.ISOLATION_BUDGET
    (page,) = [one for one in pages(world) if one.urgency is PageUrgency.URGENT]
    assert f"3 nodes were drained for {cause} within an hour" in page.bodies["email"]
    assert page.key == f"{CLUSTER}:evictions:{cause.partition(' ')[0]}"
    world.advance_minutes(120)
    assert drains(world, 32) == 6
    limits = [line for line in world.record_history(None) if line.startswith("evictions")]
    assert limits == ["evictions available -> used_up", "evictions used_up -> available"]


def test_no_limit_of_drains_applies_to_operators_orders() -> None:
    world = World(nodes=32, orchestrated=True, limits=Limits(concurrent=32, per_hour=100))
    for number in range(1, 7):
        world.node_orders.replace(world.key(number), OperatorOrder("arn:aws:iam::1:role/op", "a recall of the maker"))
    world.process_entries()
    world.advance_minutes(30)
    assert drains(world, 32) == 6
    assert drain_limits(world) == []


def test_the_limit_of_drains_is_recorded_once_and_so_is_its_end() -> None:
    world = World(nodes=32, orchestrated=True, limits=Limits(concurrent=32, per_hour=100))
    for number in range(1, 7):
        world.fault(number)
    world.process_entries()
    world.advance_minutes(30)
    assert drain_limits(world) == ["evictions available -> used_up"]
    assert world.control().eviction_limits == ("xid.79",)
    world.advance_minutes(150)
    assert drain_limits(world) == ["evictions available -> used_up", "evictions used_up -> available"]
    assert world.control().eviction_limits == ()


def test_diagnostics_that_a_source_demands_everywhere_take_the_budget_at_most_out() -> None:
    world, most = busy_world(16), 0
    world.orchestrator.busy_until.clear()
    for number in range(1, 17):
        world.fault(number, DIAGNOSED)
        world.process_entries()
        most = max(most, out_of_service(world, 16))
    for _ in range(120):
        world.advance_minutes()
        most = max(most, out_of_service(world, 16))
    assert most == 1


def test_each_waiting_node_records_once_that_the_budget_is_used_up() -> None:
    world = busy_world(10)
    world.fault(1, DIAGNOSED)
    world.process_entries()
    world.fault(2, DIAGNOSED)
    world.process_entries()
    world.advance_minutes(20)
    assert world.status(2) is NodeStatus.DEGRADED
    assert world.case(2).waiting_for is WaitingFor.ISOLATION_BUDGET
    assert world.case(2).reason == f"the isolation budget of cluster {CLUSTER} is used up: 1 of 1"
    waits = [one for one in world.bodies(2) if "isolation budget" in str(one)]
    assert len(waits) == 1


def test_each_failure_domain_has_a_budget_of_its_own() -> None:
    world = World(
        nodes=40,
        orchestrated=True,
        catalog=load_catalog(),
        domain=lambda number: f"rack-{number % 4}",
        limits=Limits(concurrent=20),
    )
    for number in (4, 8, 12, 1):
        world.fault(number, DIAGNOSED)
        world.process_entries()
    assert {number for number in (4, 8, 12, 1) if not world.status(number).in_service} == {4, 1}


def test_lost_nodes_use_up_the_budget_but_one_other_node_at_a_time_is_still_verified() -> None:
    world = busy_world(20)
    world.orchestrator.busy_until.clear()
    world.pause_repairs(paused=True)
    for number in (1, 2, 3):
        world.fault(number)
    world.process_entries()
    assert out_of_service(world, 20) == 3
    world.fault(4, DIAGNOSED)
    world.fault(5, DIAGNOSED)
    world.process_entries()
    world.advance_minutes(3)
    assert out_of_service(world, 20) == 3
    assert set(world.control().permits) == {"node-4"}
    assert (world.status(4), world.node(4).isolation) == (NodeStatus.DEGRADED, Isolation.CONFIRMED)


def cordon_by_others(world: World, *nodes: str) -> None:
    """Record what an inventory reads from the orchestrator about nodes that others cordoned."""
    wire_cluster_status(world.app).report_provider(CLUSTER, lambda before: replace(before, cordoned=nodes))


def test_nodes_that_others_cordoned_use_up_the_budget() -> None:
    world = busy_world(20)
    cordon_by_others(world, "node-19", "node-20")
    for number in (1, 2):
        world.fault_and_react(number, DIAGNOSED, action=Action.RUN_DIAGNOSTICS)
    assert (world.node(1).isolation, world.node(2).isolation) == (Isolation.CONFIRMED, Isolation.NONE)
    assert world.case(2).waiting_for is WaitingFor.ISOLATION_BUDGET
    cordon_by_others(world)
    world.until(lambda: world.node(2).isolation is Isolation.CONFIRMED, minutes=15)


def test_a_node_that_others_cordoned_does_not_stand_in_its_own_way() -> None:
    world = busy_world(20)
    cordon_by_others(world, "node-20")
    for number in (1, 20):
        world.fault_and_react(number, DIAGNOSED, action=Action.RUN_DIAGNOSTICS)
    assert {world.node(number).isolation for number in (1, 20)} == {Isolation.CONFIRMED}


def test_an_operator_orders_a_node_out_beyond_the_budget() -> None:
    world = busy_world(2)
    world.fault(1, DIAGNOSED)
    world.process_entries()
    world.node_orders.quarantine(world.key(2), OperatorOrder("arn:aws:iam::1:role/op", "moves to another rack"))
    world.process_entries()
    world.advance_minutes(2)
    assert not world.status(2).in_service


def world_with_a_discouraged_node() -> World:
    """Return a world whose second node waits for a permit, and gets no new work where another node can."""
    world = busy_world(2)
    world.fault(1, DIAGNOSED)
    world.process_entries()
    world.fault(2, DIAGNOSED)
    world.process_entries()
    world.advance_minutes()
    assert world.orchestrator.discouraged == {"node-2"}
    return world


def test_a_node_that_waits_for_a_permit_is_discouraged_until_its_fault_ends() -> None:
    world = world_with_a_discouraged_node()
    world.clear(2, DIAGNOSED)
    world.process_entries()
    world.advance_minutes()
    assert world.orchestrator.discouraged == set()
    assert world.status(2) is NodeStatus.HEALTHY


def test_a_node_that_is_discouraged_again_during_the_end_of_its_discouragement_is_released_with_its_next_fault() -> (
    None
):
    world = world_with_a_discouraged_node()
    world.clear(2, DIAGNOSED)

    def ends_and_begins_again() -> None:
        world.clock.advance(1)
        assert world.isolate.isolate(world.key(2)) is IsolationResult.WITHDRAWN
        world.clock.advance(1)
        world.fault(2, DIAGNOSED)
        assert world.isolate.isolate(world.key(2)) is IsolationResult.HELD
        assert world.orchestrator.discouraged == {"node-2"}

    run_before_write(world.seam, writes_to(keys.node_state(world.key(2))), ends_and_begins_again)
    world.isolate.isolate(world.key(2))
    world.clock.advance(1)
    world.clear(2, DIAGNOSED)
    world.isolate.isolate(world.key(2))
    assert world.orchestrator.discouraged == set()


def test_a_node_that_fails_again_during_the_end_of_its_discouragement_is_discouraged_again() -> None:
    world = world_with_a_discouraged_node()
    world.clear(2, DIAGNOSED)

    def fails_again(call: Call) -> None:
        if call.name == "orchestrator.uncordon":
            world.seam.after = lambda _: None
            world.clock.advance(1)
            world.fault(2, DIAGNOSED)

    world.seam.after = fails_again
    assert world.isolate.isolate(world.key(2)) is IsolationResult.HELD
    assert (world.orchestrator.discouraged, world.node(2).discouraged) == ({"node-2"}, True)


def test_a_used_up_budget_is_measured_once_for_all_nodes_that_wait_for_it() -> None:
    world = busy_world(12)
    for number in range(1, 13):
        world.fault(number, DIAGNOSED)
    world.process_entries()
    world.advance_minutes()
    reads: list[Call] = []
    world.seam.before = lambda call: reads.append(call) if call.name == "table.query" else None
    waiting = prepare_isolations(world.isolate, CLUSTER, [f"node-{number}" for number in range(1, 13)])
    results = [result for isolate in waiting.values() for result in isolate().values()]
    assert results.count(IsolationResult.HELD) == 11
    assert len(reads) == len(set(map(repr, reads)))


def test_a_permit_that_ends_while_many_nodes_are_isolated_is_given_to_the_next_of_them() -> None:
    world = busy_world(3)
    world.claim(1)
    world.process_entries()
    world.advance_minutes()
    assert world.control().permits.keys() == {"node-1"}
    for number in (2, 3):
        world.fault(number, DIAGNOSED)
    second, third = prepare_isolations(world.isolate, CLUSTER, ["node-2", "node-3"]).values()
    assert second() == {"node-2": IsolationResult.HELD}
    world.clear(1)
    assert world.isolate.isolate(world.key(1)) is IsolationResult.WITHDRAWN
    assert third() == {"node-3": IsolationResult.DONE}


def test_a_node_that_is_cordoned_while_it_is_discouraged_is_recorded_as_cordoned_only() -> None:
    world = busy_world(2)
    world.fault(1, DIAGNOSED)
    world.process_entries()
    world.fault(2, DIAGNOSED)

    def is_lost_and_cordoned(call: Call) -> None:
        if call.name == "orchestrator.discourage":
            world.seam.after = lambda _: None
            world.clock.advance(1)
            world.fault(2, "xid.79")
            world.isolate.isolate(world.key(2))

    world.seam.after = is_lost_and_cordoned
    world.isolate.isolate(world.key(2))
    assert (world.node(2).isolation, world.node(2).discouraged) == (Isolation.CONFIRMED, False)


def test_two_writers_that_measured_the_same_budget_give_one_permit() -> None:
    world, raced = busy_world(4), []
    world.orchestrator.busy_until.clear()
    permit = world.isolate.permits.permit

    def race(state: NodeState, rules: Rules, now: datetime) -> Update | str:
        found = permit(state, rules, now)
        if not raced and state.key.node == "node-1":
            raced.append(True)
            world.isolate.isolate(world.key(2))  # another invocation commits between measure and commit
        return found

    for number in (1, 2):
        world.fault(number, DIAGNOSED)
    force_setattr(world.isolate, "permits", RacingPermits(table=world.table, answer=race))
    world.isolate.isolate(world.key(1))
    assert raced
    assert world.orchestrator.cordoned == {"node-2"}
    assert set(world.control().permits) == {"node-2"}


def test_a_date_that_no_provider_states_neither_frees_a_node_nor_stops_the_others() -> None:
    world = busy_world(3)
    world.orchestrator.busy_until.clear()
    world.fault(1, DIAGNOSED, attributes={"not_before": "soon"})
    world.fault(2, DIAGNOSED, attributes={"not_before": to_text(world.clock.now())})
    world.fault(3)
    world.process_entries()
    world.advance_minutes(2)
    assert world.case(3).status is CaseStatus.IN_PROGRESS
    assert len(world.control().permits) <= 1
    assert world.status(2).in_service


def test_a_claim_of_a_repaired_fault_evicts_no_work_although_its_relapse_requires_a_verification() -> None:
    world = World(orchestrated=True, rules=(Rule("reset", action=Action.RESET_GPU, release_without_capacity=True),))
    world.fault_until_resolved(code="xid.48")
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(days=2)
    drained = world.record_history(1).count("drain drained")
    world.clock.advance(60)
    world.claim(1, "xid.48")
    world.process_entries()
    world.advance_minutes(5)
    assert (world.case().relapse_of is not None, world.node().isolation) == (True, Isolation.CONFIRMED)
    world.clear(1, "xid.48")
    world.process_entries()
    world.advance_minutes(30)
    assert (world.status(), world.node().isolation) == (NodeStatus.HEALTHY, Isolation.NONE)
    assert world.record_history(1).count("drain drained") == drained


def test_an_ignored_node_that_waits_does_not_keep_the_others_from_the_last_permit() -> None:
    world = busy_world(10)
    world.pause_repairs(paused=True)
    for number in (5, 6, 7):
        world.fault(number)
    world.process_entries()
    world.fault(1, DIAGNOSED)
    ignore(world, 1)
    world.process_entries()
    world.fault(3, DIAGNOSED)
    world.process_entries()
    world.advance_minutes(3)
    assert set(world.control().permits) == {"node-3"}


def test_a_cordon_for_a_claim_also_ends_while_the_node_is_ignored() -> None:
    world = busy_world(1)
    world.claim(1)
    world.process_entries()
    world.advance_minutes(2)
    ignore(world, 1)
    world.clear(1)
    world.process_entries()
    world.advance_minutes(3)
    assert world.node().isolation is Isolation.NONE
    assert (world.orchestrator.cordoned, world.control().permits) == (set(), {})


def ignore(world: World, node: int) -> None:
    """Exclude a node from repairs, as an operator does."""
    NodeOrders(world.append, world.rulebook).ignore(world.key(node), OperatorOrder("arn:aws:iam::1:role/op", "seen"))
