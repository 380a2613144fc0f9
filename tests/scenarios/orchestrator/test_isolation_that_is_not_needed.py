"""Isolation that is not needed: a node is ignored, recovers meanwhile, or is kept in service by its rule."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.model.enums import Actor, Isolation, NodeStatus, ProviderFailure
from faultbridge.model.errors import Misconfigured
from faultbridge.model.policy import Rule
from faultbridge.model.storage import keys
from faultbridge.record.rulebook import rules_of
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.isolate import Isolate, IsolationResult, prepare_isolations, quarantine
from faultbridge.repair.node_orders import NodeOrders
from tests.races import run_before_write, writes_to
from tests.scenarios.orchestrator.unreachable_orchestrator import DEAD, PROCEED, pages, unreachable_world
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import Call

GENTLE = Rule("gentle", isolate=False, release_without_capacity=True)


@pytest.mark.parametrize("orchestrated", [False, True])
def test_a_node_that_is_ignored_is_not_isolated_for_its_case(orchestrated: bool) -> None:
    world = World(orchestrated=orchestrated)
    world.fault()
    NodeOrders(world.append, world.rulebook).ignore(world.key(), OperatorOrder("ada", "her experiment"))
    (isolate,) = prepare_isolations(world.isolate, CLUSTER, ["node-1"]).values()
    assert isolate() == {"node-1": IsolationResult.NOTHING}
    assert (world.status(), world.node().isolation) == (NodeStatus.DEGRADED, Isolation.NONE)


def test_no_isolation_is_requested_for_a_node_that_recovers_just_before() -> None:
    world = World(orchestrated=True)
    world.fault()
    world.clock.advance(5)
    run_before_write(world.seam, writes_to(keys.node_state(world.key())), world.clear)
    assert world.isolate.isolate(world.key()) is IsolationResult.NOTHING
    assert (world.node().isolation, world.orchestrator.cordoned) == (Isolation.NONE, set())


def test_a_node_that_recovers_just_before_its_isolation_takes_no_permit_from_the_others() -> None:
    world = World(nodes=2, orchestrated=True)
    world.fault(code="xid.48")
    world.clock.advance(5)
    run_before_write(world.seam, writes_to(keys.node_state(world.key())), lambda: world.clear(code="xid.48"))
    assert world.isolate.isolate(world.key()) is IsolationResult.NOTHING
    assert world.control().permits == {}


def test_a_node_whose_instance_is_no_longer_proven_dead_is_not_quarantined_without_a_cordon() -> None:
    world = unreachable_world(PROCEED)
    world.fault(code=DEAD[0], source=DEAD[1])
    cleared: list[str] = []

    def clear() -> None:
        cleared.append("just before the node is quarantined")
        world.clear(code=DEAD[0], source=DEAD[1])

    run_before_write(world.seam, lambda write: "isolation not confirmed" in repr(write), clear)
    world.advance_minutes(15)
    assert cleared
    assert (world.status(), world.node().isolation) == (NodeStatus.DEGRADED, Isolation.REQUESTED)


def test_an_isolation_that_two_calls_request_at_once_has_failed_since_the_first_request() -> None:
    world = World(orchestrated=True)
    world.fault()
    world.orchestrator.fail_next(*[ProviderFailure.TIMEOUT] * 2)
    requested: list[datetime | None] = []

    def other_call() -> None:
        world.clock.advance(1)
        world.isolate.isolate(world.key())
        requested.append(world.node().isolation_since)
        world.clock.advance(60)

    run_before_write(world.seam, writes_to(keys.node_state(world.key())), other_call)
    world.isolate.isolate(world.key())
    assert requested == [world.node().isolation_since]


def test_a_node_that_was_uncordoned_while_many_are_isolated_is_not_cordoned_for_its_earlier_fault() -> None:
    """No condition of a write protects the call of the orchestrator, so the node is read again just before it."""
    world = World(orchestrated=True)
    world.fault()
    world.orchestrator.fail_next(ProviderFailure.TIMEOUT)
    assert world.isolate.isolate(world.key()) is IsolationResult.FAILED
    world.clock.advance(timedelta(hours=1))
    (isolate,) = prepare_isolations(world.isolate, CLUSTER, ["node-1"]).values()
    world.clear()
    assert world.isolate.isolate(world.key()) is IsolationResult.WITHDRAWN
    assert isolate() == {"node-1": IsolationResult.NOTHING}
    assert (world.node().isolation, world.orchestrator.cordoned) == (Isolation.NONE, set())


def test_a_node_that_recovers_during_its_cordon_is_not_quarantined_and_is_uncordoned_by_the_next_call() -> None:
    world = World(orchestrated=True)
    world.fault()

    def recovers(call: Call) -> None:
        if call.name == "orchestrator.cordon":
            world.seam.after = lambda _: None
            world.clock.advance(1)
            world.clear()

    world.seam.after = recovers
    assert world.isolate.isolate(world.key()) is IsolationResult.NOTHING
    assert world.status().in_service
    assert world.node().isolation is Isolation.REQUESTED
    assert world.isolate.isolate(world.key()) is IsolationResult.WITHDRAWN
    assert world.orchestrator.cordoned == set()


def test_a_dead_node_that_another_writer_has_just_quarantined_is_not_quarantined_again() -> None:
    world = unreachable_world(PROCEED)
    world.fault(code=DEAD[0], source=DEAD[1])

    def quarantined() -> None:
        world.clock.advance(1)
        world.append(world.key(), lambda state, now: quarantine(state, now, "another call"), actor=Actor.ISOLATE)

    world.advance_minutes(9)
    world.clock.advance(timedelta(minutes=1))
    run_before_write(world.seam, lambda write: "isolation not confirmed" in repr(write), quarantined)
    assert world.isolate.isolate(world.key()) is IsolationResult.DONE
    assert world.record_history()[-1] == "node degraded -> quarantined"


def test_an_operator_is_paged_if_a_node_that_recovered_cannot_be_uncordoned() -> None:
    world = unreachable_world()
    world.clock.advance(timedelta(seconds=5))
    world.clear()
    world.advance_minutes(10)
    assert pages(world) == ["note isolation overdue"]


def test_a_node_that_its_rule_keeps_in_service_serves_again_after_a_failed_cordon_for_its_repair() -> None:
    world = World(orchestrated=True, rules=(GENTLE,))
    world.fault()
    world.orchestrator.fail_next(ProviderFailure.TIMEOUT)
    world.dispatch.admit_cases(CLUSTER)
    assert world.node().isolation is Isolation.REQUESTED
    assert world.isolate.isolate(world.key()) is IsolationResult.WITHDRAWN
    assert world.node().isolation is Isolation.NONE


@pytest.mark.parametrize(("names", "known"), [((), "none"), (("slurm", "eks"), "eks, slurm")])
def test_an_unknown_orchestrator_is_a_configuration_error_that_lists_the_known_ones(
    names: tuple[str, ...], known: str
) -> None:
    world = World()
    isolate = Isolate(world.append, world.rulebook, dict.fromkeys(names, world.orchestrator), world.controls)
    with pytest.raises(Misconfigured, match=f"unknown orchestrator of {CLUSTER}: 'none'; known: {known}$"):
        isolate.orchestrator(rules_of(world.rulebook, CLUSTER).config)
