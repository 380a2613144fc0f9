"""Dispatch against another dispatch, lost answers and missing parts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.domain.cases import RepairAction
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.faults import Severity
from faultbridge.domain.policy import Match, Rule
from faultbridge.domain.times import to_text
from faultbridge.errors import Misconfigured, Transient
from faultbridge.ports import Capacity, CapacityEvidence
from faultbridge.simulation.fakes import Call
from faultbridge.storage import keys
from faultbridge.storage.writes import Delete, Put, Update
from tests.scenarios.world import CLUSTER, World, limits


def queued(nodes: int, **others) -> World:
    """A cluster whose nodes are all queued, and nobody has looked at the queue yet."""
    world = World(nodes=nodes, **others)
    for node in range(1, nodes + 1):
        world.fault(node)
        world.isolate(world.key(node))
    return world


def running(world: World, nodes: int) -> list[str]:
    cases = [world.case(node) for node in range(1, nodes + 1)]
    return [case.id for case in cases if case.status is CaseStatus.IN_PROGRESS]


def test_several_cases_are_admitted_in_one_transaction_with_their_slots():
    world = queued(4, limits=limits(concurrent=4))
    world.seam.calls.clear()
    dispatched = world.dispatch(CLUSTER)
    admissions = [
        call
        for call in world.seam.named("table.transact")
        if any(write.key == keys.cluster_control(CLUSTER) for write in call.argument)
    ]
    assert (len(admissions), len(dispatched.admitted)) == (1, 4)
    assert set(world.control().holders) == set(running(world, 4))


def test_more_than_one_transaction_holds_are_admitted_in_turns():
    world = queued(40, limits=limits(concurrent=40, per_hour=100))
    assert len(world.dispatch(CLUSTER).admitted) == 40
    assert len(world.control().holders) == 40


def test_cases_are_admitted_by_urgency_whichever_shard_they_wait_in():
    rule = Rule("mild", Match(codes=("xid.48",)), severity=Severity.ERROR)
    world = World(nodes=20, shards=16, rules=(rule,), limits=limits(concurrent=2, per_hour=100))
    world.pause_repairs(paused=True)
    for node in range(1, 21):
        world.fault(node, code="xid.79" if node > 18 else "xid.48")
        world.isolate(world.key(node))
    world.pause_repairs(paused=False)
    world.dispatch(CLUSTER)
    assert {node for node in range(1, 21) if world.case(node).status is CaseStatus.IN_PROGRESS} == {19, 20}


def test_cases_that_may_not_begin_keep_nobody_behind_them_waiting_however_many_they_are():
    world = World(nodes=1)
    tomorrow = to_text(world.clock.now() + timedelta(days=1))
    early = {"node": "node-9", "repair_action": "replace_node", "waiting_for": "wait", "not_before": tomorrow}
    for number in range(2_000):
        case = f"c-{number:04}"
        place = keys.queue(CLUSTER, 0, 0, world.clock.now(), case)
        world.table.write(Put({"pk": place.pk, "sk": place.sk, "case": case, **early}))
    world.fault(1)
    world.isolate(world.key(1))
    world.dispatch(CLUSTER)
    assert world.case(1).status is CaseStatus.IN_PROGRESS


def test_cases_that_a_person_was_asked_about_keep_nobody_behind_them_waiting():
    rule = Rule("asked", Match(codes=("xid.79",)), approval=(RepairAction.REPLACE_NODE,))
    world = World(nodes=6, rules=(rule,), limits=limits(concurrent=6, per_hour=100))
    for node in range(1, 6):
        world.fault(node)
    world.process_entries()
    world.advance_minutes(3)
    world.fault(6, code="xid.48")
    world.process_entries()
    world.advance_minutes()
    assert world.case(6).status is CaseStatus.IN_PROGRESS


def test_a_case_that_loses_a_race_for_the_slots_is_not_overtaken_by_the_next_one():
    world = World(nodes=2, limits=limits(concurrent=1))
    for node in (1, 2):
        world.fault(node)
        world.isolate(world.key(node))
        world.clock.advance(1)
    left = [2]

    def rival(call: Call) -> None:
        if call.name == "table.transact" and left[0]:
            left[0] -= 1
            world.table.write(Update(keys.cluster_control(CLUSTER), add={"version": 1}))

    world.seam.before = rival
    world.dispatch(CLUSTER)
    assert running(world, 2) == [world.case(1).id]


def test_a_case_that_found_no_room_is_not_overtaken_when_there_is_room_a_moment_later():
    world = World(nodes=3, limits=limits(concurrent=1))
    for node in (1, 2):
        world.fault(node)
        world.isolate(world.key(node))
        world.clock.advance(1)
    looks = []

    def rival(call: Call) -> None:
        if call.name == "table.transact" and not looks:
            take_a_slot(world, "another")
            looks.append("the slot is taken")
        elif call.name == "table.get" and call.argument == keys.cluster_control(CLUSTER) and looks:
            looks.append("the first looks again, then the second would")
            if len(looks) > 2:
                give_back(world, "another")

    world.seam.before = rival
    world.dispatch(CLUSTER)
    world.seam.before = lambda _: None
    assert (running(world, 2), set(world.control().holders)) == ([], {"another"})
    give_back(world, "another")
    world.dispatch(CLUSTER)
    assert running(world, 2) == [world.case(1).id]


def test_two_dispatches_at_once_never_pass_the_limit():
    world = queued(4, limits=limits(concurrent=2))

    def rival(call: Call) -> None:
        if call.name == "table.transact":
            world.seam.before = lambda _: None
            world.dispatch(CLUSTER)

    world.seam.before = rival
    world.dispatch(CLUSTER)
    assert len(running(world, 4)) == 2
    assert set(world.control().holders) == set(running(world, 4))


def test_two_dispatches_that_pick_different_cases_never_pass_the_limit_either():
    mild = Rule("mild", Match(codes=("xid.48",)), severity=Severity.ERROR)
    world = World(nodes=2, limits=limits(concurrent=1), rules=(mild,))
    world.fault(1, code="xid.48")
    world.isolate(world.key(1))

    def rival(call: Call) -> None:
        # A worse case is queued and admitted between the look at the slots and the transaction.
        if call.name == "table.transact":
            world.seam.before = lambda _: None
            world.fault(2)
            world.isolate(world.key(2))
            world.dispatch(CLUSTER)

    world.seam.before = rival
    world.dispatch(CLUSTER)
    assert running(world, 2) == [world.case(2).id]
    assert list(world.control().holders) == running(world, 2)


def test_what_is_admitted_one_by_one_after_a_lost_race_keeps_to_the_limit_too():
    mild = Rule("mild", Match(codes=("xid.48",)), severity=Severity.ERROR)
    world = World(nodes=3, limits=limits(concurrent=2), rules=(mild,))
    world.provider.known_capacity = Capacity(CapacityEvidence.LAUNCH_FIRST)
    for node in (1, 2):
        world.fault(node, code="xid.48")
        world.isolate(world.key(node))

    def rival(call: Call) -> None:
        if call.name == "table.transact":
            world.seam.before = lambda _: None
            world.fault(3)
            world.isolate(world.key(3))
            world.rollup(CLUSTER)
            take_a_slot(world, world.case(3).id)

    world.seam.before = rival
    world.dispatch(CLUSTER)
    assert len(running(world, 3)) + 1 == len(world.control().holders) == 2


def take_a_slot(world: World, case: str) -> None:
    held = {("holders", case): "2026-02-03T12:00:00.000Z"}
    world.table.write(Update(keys.cluster_control(CLUSTER), set=held, add={"version": 1}))


def give_back(world: World, case: str) -> None:
    world.table.write(Update(keys.cluster_control(CLUSTER), remove=(("holders", case),), add={"version": 1}))


def test_a_node_that_cannot_be_isolated_leaves_its_slot_to_the_next_one():
    world = World(nodes=2, limits=limits(concurrent=1), orchestrated=True)

    def out_of_reach(call: Call) -> None:
        if call.name == "orchestrator.cordon" and call.argument == "node-1":
            raise Transient("the orchestrator does not answer")

    world.seam.before = out_of_reach
    world.fault(1)
    world.clock.advance(1)
    world.fault(2)
    world.advance_minutes()
    assert running(world, 2) == [world.case(2).id]


def test_a_node_that_changes_meanwhile_holds_up_only_itself():
    world = queued(3, limits=limits(concurrent=3))

    def change(call: Call) -> None:
        if call.name == "table.transact":
            world.seam.before = lambda _: None
            world.clock.advance(1)
            world.fault(2, code="xid.48")

    world.seam.before = change
    world.dispatch(CLUSTER)
    assert len(running(world, 3)) == 3
    assert len(world.control().holders) == 3


def test_an_admission_whose_answer_was_lost_is_one_admission():
    world = queued(1)

    def lose(call: Call) -> None:
        if call.name == "table.transact":
            world.seam.after = lambda _: None
            raise Transient("the answer was lost")

    world.seam.after = lose
    with pytest.raises(Transient):
        world.dispatch(CLUSTER)
    assert world.case().attempts == 1
    assert world.dispatch(CLUSTER).admitted == ()
    world.advance_minutes(3)
    assert list(world.workflow.executions) == [f"{world.case().id}-1"]


def test_a_start_that_is_throttled_is_left_to_the_sweep_and_the_others_are_started():
    world = queued(2, limits=limits(concurrent=2))

    def throttle(call: Call) -> None:
        if call.name == "workflow.start":
            world.seam.before = lambda _: None
            raise Transient("throttled")

    world.seam.before = throttle
    dispatched = world.dispatch(CLUSTER)
    assert (len(dispatched.admitted), len(dispatched.unstarted)) == (2, 1)
    assert list(world.workflow.executions) == [dispatched.admitted[1]]


def test_an_execution_is_named_after_case_and_attempt_and_told_nothing_else():
    world = queued(1)
    world.dispatch(CLUSTER)
    ((name, execution),) = world.workflow.executions.items()
    assert name == f"{world.case().id}-1"
    told = {key: execution.data[key] for key in execution.data if key != "last"}
    assert told == {"v": 1, "cluster": CLUSTER, "node": "node-1", "case": world.case().id, "attempt": 1}


def test_a_cluster_that_nobody_registered_is_an_operators_matter():
    with pytest.raises(Misconfigured):
        World().dispatch("elsewhere")


def test_a_cluster_without_slots_is_an_operators_matter():
    world = queued(1)
    world.table.write(Delete(keys.cluster_control(CLUSTER)))
    with pytest.raises(Misconfigured):
        world.dispatch(CLUSTER)
