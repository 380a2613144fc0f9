"""Somebody else is faster in the very moment in which a repair writes what it decided."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.domain.aliases import Alias, AliasRow
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import WaitingFor
from faultbridge.domain.edges import Actor, CaseStatus, NodeStatus
from faultbridge.domain.faults import Action, Severity
from faultbridge.domain.nodes import Isolation, NodeKey
from faultbridge.domain.policy import Match, Rule
from faultbridge.domain.times import to_text
from faultbridge.errors import Transient
from faultbridge.ports import Capacity, CapacityEvidence, ProviderFailure
from faultbridge.simulation.fakes import Call, breaking
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Put, Update
from tests.races import just_before
from tests.scenarios.world import CLUSTER, GROUP, World

CONTROL = keys.cluster_control(CLUSTER)


def test_a_successor_that_is_registered_elsewhere_in_the_last_moment_is_left_there() -> None:
    world = World(launch_delay=timedelta(minutes=1))
    world.fault()
    world.listen()
    world.clock.advance(timedelta(minutes=2))
    (first,) = [one.instance_id for one in world.fleet.running(GROUP)]
    second = world.fleet.launch(GROUP)
    row = AliasRow(NodeKey(CLUSTER, "node-9"), first, world.clock.now())
    register = Put(items.alias_item(Alias("instance", first), row, world.clock.now()))
    just_before(world.seam, lambda write: write.key.sk == "CLAIM", lambda: world.table.write(register))
    world.minute()
    assert world.node().incarnation.instance_id == second
    assert items.read_alias(world.table.get(keys.alias("instance", first))).key.node == "node-9"


def test_a_group_that_another_repair_found_dry_in_the_same_moment_stays_known_as_dry() -> None:
    world = World()
    world.provider.known_capacity = Capacity(CapacityEvidence.RESERVATION, free=False)
    world.fault()
    until = to_text(world.clock.now() + timedelta(hours=1))
    others = Update(CONTROL, set={("dry",): {"another-group": until}}, add={"version": 1})
    just_before(
        world.seam,
        lambda write: isinstance(write, Update) and write.key == CONTROL and ("dry",) in write.set,
        lambda: world.table.write(others),
    )
    world.listen()
    assert "another-group" in world.control().dry


def test_a_node_that_broke_again_is_kept_out_even_if_the_scheduler_does_not_answer_at_first() -> None:
    world = World(orchestrated=True)
    world.fault()

    def breaks_again(call: Call) -> None:
        if call.name == "orchestrator.uncordon":
            world.seam.after = lambda _: None
            world.fault(code="xid.48")
            world.orchestrator.fail_next(*[ProviderFailure.THROTTLED] * 2)

    world.seam.after = breaks_again
    world.until(lambda: world.case().attempts > 1 or world.case().status is CaseStatus.ESCALATED, minutes=120)
    assert world.node().isolation is Isolation.CONFIRMED
    assert world.orchestrator.cordoned == {"node-1"}


def answers_of(world: World, step: str) -> list[str]:
    """What each call of a step comes to, from now on."""
    found: list[str] = []
    handler = world.workflow.handler

    def overheard(payload: Any) -> Any:
        answer = handler(payload)
        if answer["step"] == step:
            found.append(answer["outcome"])
        return answer

    world.workflow.handler = overheard
    return found


def test_without_capacity_the_attempt_is_stopped_before_any_intent() -> None:
    world = World()
    world.provider.known_capacity = Capacity(CapacityEvidence.RESERVATION, free=False)
    answers = answers_of(world, "release_instance")
    world.fault()
    world.listen()
    assert answers == ["stopped"]


def test_a_node_of_which_no_instance_is_known_is_a_persons() -> None:
    world = World()
    world.append(
        world.key(),
        lambda state, _: Transition(replace(state, incarnation=replace(state.incarnation, instance_id=None))),
        actor=Actor.CLI,
        config=world.rulebook.config(CLUSTER),
    )
    world.fault()
    world.listen()
    assert (world.case().status, world.released()) == (CaseStatus.ESCALATED, [])
    assert world.case().reason == "NOT_FOUND: no instance is known to sit in the node"


@pytest.mark.parametrize("severity", [Severity.WARNING, Severity.FATAL])
def test_a_node_that_comes_back_with_something_harmful_left_is_degraded(severity: Severity) -> None:
    mild = Rule("mild", Match(codes=("xid.92",)), severity=severity, action=Action.NONE)
    look = Rule("look", Match(codes=("xid.48",)), action=Action.RUN_DIAGNOSTICS)
    world = World(rules=(mild, look))
    world.fault(code="xid.92")
    world.fault(code="xid.48")
    world.listen()
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert (world.node().severity, world.status()) == (severity, NodeStatus.DEGRADED)


def test_what_the_provider_took_on_is_given_up_though_no_probe_answers() -> None:
    world = World()
    world.provider.blind = True
    world.fault()
    world.listen()
    assert world.status() is NodeStatus.PROVISIONING
    assert world.story().count("release_instance released") == 1


@pytest.mark.parametrize("failure", [ProviderFailure.PROVIDER_ERROR, ProviderFailure.CONFLICT])
def test_an_error_although_the_instance_is_gone_is_no_refusal(failure: ProviderFailure) -> None:
    world = World()
    world.provider.fail_next(failure, effect=True)
    world.fault()
    world.listen()
    assert world.status() is NodeStatus.PROVISIONING
    assert "release_instance refused" not in world.story()
    assert len(world.released()) == 1


def test_a_provider_that_refuses_for_want_of_capacity_lets_its_group_alone_and_costs_no_attempt() -> None:
    world = World()
    world.provider.fail_next(ProviderFailure.CAPACITY)
    world.fault()
    world.listen()
    case = world.case()
    assert (case.status, case.waiting_for, case.tried) == (CaseStatus.QUEUED, WaitingFor.CAPACITY, 0)
    assert set(world.control().dry) == {GROUP}


def test_an_execution_that_was_not_told_what_its_step_came_to_is_told_by_the_sweep() -> None:
    world = World()
    world.fault()
    world.listen()
    world.seam.before = breaking(("workflow.resume", Transient("no answer")))
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=60)
    assert (world.case().attempts, len(world.workflow.executions)) == (1, 1)
