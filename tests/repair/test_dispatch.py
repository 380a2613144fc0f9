"""Dispatch: slots, order of admission, concurrent dispatches, lost responses and missing configuration."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.cluster.config import Mode
from faultbridge.model.enums import CaseStatus, RepairAction, Resolution, WaitingFor
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.fault_enums import Severity
from faultbridge.model.nodes import NodeKey
from faultbridge.model.policy import Match, Rule
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.node_rows import QueuedCase
from faultbridge.model.storage.writes import Delete, Put, Update
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Capacity, CapacityEvidence
from faultbridge.repair.case_orders import OperatorOrder
from tests.races import run_before_write, writes_to
from tests.scenarios.world import CLUSTER, World, limits
from tests.sim.fakes import Call


def queued(nodes: int, **others) -> World:
    """Return a cluster in which every node has a queued case and no dispatch has run yet."""
    world = World(nodes=nodes, **others)
    for node in range(1, nodes + 1):
        world.fault(node)
        world.isolate.isolate(world.key(node))
    return world


def in_progress(world: World, nodes: int) -> list[str]:
    cases = [world.case(node) for node in range(1, nodes + 1)]
    return [case.id for case in cases if case.status is CaseStatus.IN_PROGRESS]


def test_several_cases_and_their_slots_are_admitted_in_one_transaction():
    world = queued(4, limits=limits(concurrent=4))
    world.seam.calls.clear()
    dispatched = world.dispatch.admit_cases(CLUSTER)
    admissions = [
        call
        for call in world.seam.named("table.transact")
        if any(write.key.sk.startswith("ADMISSION#") for write in call.argument)
    ]
    assert all(any(write.key == keys.cluster_control(CLUSTER) for write in call.argument) for call in admissions)
    assert (len(admissions), len(dispatched.admitted)) == (1, 4)
    assert set(world.control().holders) == set(in_progress(world, 4))


def test_more_cases_than_one_transaction_holds_are_admitted_in_batches():
    world = queued(40, limits=limits(concurrent=40, per_hour=100))
    assert len(world.dispatch.admit_cases(CLUSTER).admitted) == 40
    assert len(world.control().holders) == 40


def test_cases_of_all_shards_are_admitted_by_urgency():
    rule = Rule("mild", Match(codes=("xid.48",)), severity=Severity.ERROR)
    world = World(nodes=20, nodes_per_shard=2, rules=(rule,), limits=limits(concurrent=2, per_hour=100))
    world.pause_repairs(paused=True)
    for node in range(1, 21):
        world.fault(node, code="xid.79" if node > 18 else "xid.48")
        world.isolate.isolate(world.key(node))
    world.pause_repairs(paused=False)
    world.dispatch.admit_cases(CLUSTER)
    assert {node for node in range(1, 21) if world.case(node).status is CaseStatus.IN_PROGRESS} == {19, 20}


def test_thousands_of_cases_that_may_not_start_do_not_block_the_case_behind_them():
    world = World(nodes=1)
    now, key = world.clock.now(), NodeKey(CLUSTER, "node-9")
    early = QueuedCase(key, "", RepairAction.REPLACE_NODE, 0, now, WaitingFor.WAIT, now + timedelta(days=1))
    for number in range(2_000):
        case = f"c-{number:04}"
        world.table.write(Put(items.row_item(keys.queue(CLUSTER, 0, 0, now, case), replace(early, case=case), now)))
    world.fault(1)
    world.isolate.isolate(world.key(1))
    world.dispatch.admit_cases(CLUSTER)
    assert world.case(1).status is CaseStatus.IN_PROGRESS


def test_cases_that_wait_for_approval_do_not_block_the_case_behind_them():
    rule = Rule("asked", Match(codes=("xid.79",)), approval=(RepairAction.REPLACE_NODE,))
    world = World(nodes=6, rules=(rule,), limits=limits(concurrent=6, per_hour=100))
    for node in range(1, 6):
        world.fault(node)
    world.process_entries(minutes=3)
    world.fault_and_react(6, code="xid.48", minutes=1)
    assert world.case(6).status is CaseStatus.IN_PROGRESS


def test_a_case_that_loses_a_race_for_a_slot_is_not_overtaken():
    world = World(nodes=2, limits=limits(concurrent=1))
    for node in (1, 2):
        world.fault(node)
        world.isolate.isolate(world.key(node))
        world.clock.advance(1)
    left = [2]

    def rival(call: Call) -> None:
        if call.name == "table.transact" and left[0]:
            left[0] -= 1
            world.table.write(Update(keys.cluster_control(CLUSTER), add={"version": 1}))

    world.seam.before = rival
    world.dispatch.admit_cases(CLUSTER)
    assert in_progress(world, 2) == [world.case(1).id]


def test_a_case_without_a_free_slot_is_not_overtaken_when_a_slot_is_released_a_moment_later():
    world = World(nodes=3, limits=limits(concurrent=1))
    for node in (1, 2):
        world.fault(node)
        world.isolate.isolate(world.key(node))
        world.clock.advance(1)
    reads = []

    def rival(call: Call) -> None:
        if call.name == "table.transact" and not reads:
            take_slot(world, "another")
            reads.append("the slot is taken")
        elif call.name == "table.get" and call.argument == keys.cluster_control(CLUSTER) and reads:
            reads.append("the first case reads the slots again, then the second case would")
            if len(reads) > 2:
                release_slot(world, "another")

    world.seam.before = rival
    world.dispatch.admit_cases(CLUSTER)
    world.seam.before = lambda _: None
    assert (in_progress(world, 2), set(world.control().holders)) == ([], {"another"})
    release_slot(world, "another")
    world.dispatch.admit_cases(CLUSTER)
    assert in_progress(world, 2) == [world.case(1).id]


def test_while_no_case_may_start_the_queue_is_not_read_again():
    world = queued(3, limits=limits(concurrent=1))
    assert len(world.dispatch.admit_cases(CLUSTER).admitted) == 1
    with world.reads.once(CLUSTER):
        world.correlate.update_incidents(CLUSTER)
        world.seam.calls.clear()
        assert world.dispatch.admit_cases(CLUSTER).admitted == ()
    assert world.seam.named("table.query") == []
    assert [world.case(node).waiting_for for node in (1, 2, 3)].count(WaitingFor.BUDGET) == 2


def test_one_dispatch_admits_a_case_and_records_what_the_other_cases_wait_for():
    world = queued(3, limits=limits(concurrent=1))
    assert len(world.dispatch.admit_cases(CLUSTER).admitted) == 1
    assert [world.case(node).waiting_for for node in (1, 2, 3)].count(WaitingFor.BUDGET) == 2


def test_nothing_is_recorded_about_a_queued_case_of_a_cluster_that_is_only_observed():
    world = queued(1)
    world.pause_repairs(paused=True)
    world.set_mode(Mode.OBSERVE)
    recorded = world.record_history()
    world.dispatch.admit_cases(CLUSTER)
    assert (world.record_history(), world.case().waiting_for) == (recorded, WaitingFor.ADMISSION)


def test_a_dry_run_reports_its_repairs_also_while_repairs_are_paused():
    world = World(mode=Mode.DRY_RUN)
    world.pause_repairs(paused=True)
    world.fault_and_react()
    assert (world.case().resolution, world.case().waiting_for) == (Resolution.DRY_RUN, None)


def test_a_case_is_admitted_only_after_what_permits_it_was_read_again():
    world = queued(1)
    with world.reads.once(CLUSTER):
        world.correlate.update_incidents(CLUSTER)
        world.set_mode(Mode.OBSERVE)
        assert world.dispatch.admit_cases(CLUSTER).admitted == ()
    assert in_progress(world, 1) == []


def test_two_concurrent_dispatches_never_exceed_the_limit():
    world = queued(4, limits=limits(concurrent=2))

    def rival(call: Call) -> None:
        if call.name == "table.transact":
            world.seam.before = lambda _: None
            world.dispatch.admit_cases(CLUSTER)

    world.seam.before = rival
    world.dispatch.admit_cases(CLUSTER)
    assert len(in_progress(world, 4)) == 2
    assert set(world.control().holders) == set(in_progress(world, 4))


def test_concurrent_dispatches_of_different_cases_never_exceed_the_limit():
    mild = Rule("mild", Match(codes=("xid.48",)), severity=Severity.ERROR)
    world = World(nodes=2, limits=limits(concurrent=1), rules=(mild,))
    world.fault(1, code="xid.48")
    world.isolate.isolate(world.key(1))

    def rival(call: Call) -> None:
        # A more urgent case is queued and admitted after the slots were read and before the transaction.
        if call.name == "table.transact":
            world.seam.before = lambda _: None
            world.fault(2)
            world.isolate.isolate(world.key(2))
            world.dispatch.admit_cases(CLUSTER)

    world.seam.before = rival
    world.dispatch.admit_cases(CLUSTER)
    assert in_progress(world, 2) == [world.case(2).id]
    assert list(world.control().holders) == in_progress(world, 2)


def test_cases_admitted_one_by_one_after_a_lost_race_never_exceed_the_limit():
    mild = Rule("mild", Match(codes=("xid.48",)), severity=Severity.ERROR)
    world = World(nodes=3, limits=limits(concurrent=2), rules=(mild,))
    world.provider.known_capacity = Capacity(CapacityEvidence.LAUNCH_FIRST)
    for node in (1, 2):
        world.fault(node, code="xid.48")
        world.isolate.isolate(world.key(node))

    def rival(call: Call) -> None:
        if call.name == "table.transact":
            world.seam.before = lambda _: None
            world.fault(3)
            world.isolate.isolate(world.key(3))
            world.rollup.update(CLUSTER)
            take_slot(world, world.case(3).id)

    world.seam.before = rival
    world.dispatch.admit_cases(CLUSTER)
    assert len(in_progress(world, 3)) + 1 == len(world.control().holders) == 2


def take_slot(world: World, case: str) -> None:
    holder = {("holders", case): "2026-02-03T12:00:00.000Z"}
    world.table.write(Update(keys.cluster_control(CLUSTER), set=holder, add={"version": 1}))


def release_slot(world: World, case: str) -> None:
    world.table.write(Update(keys.cluster_control(CLUSTER), remove=(("holders", case),), add={"version": 1}))


def test_a_node_that_cannot_be_isolated_leaves_its_slot_to_the_next_node():
    world = World(nodes=2, limits=limits(concurrent=1), orchestrated=True)

    def out_of_reach(call: Call) -> None:
        if call.name == "orchestrator.cordon" and call.argument == "node-1":
            raise Transient("the orchestrator does not answer")

    world.seam.before = out_of_reach
    world.fault(1)
    world.clock.advance(1)
    world.fault(2)
    world.advance_minutes()
    assert in_progress(world, 2) == [world.case(2).id]


def test_a_node_that_changes_during_admission_delays_no_other_node():
    world = queued(3, limits=limits(concurrent=3))

    def change(call: Call) -> None:
        if call.name == "table.transact":
            world.seam.before = lambda _: None
            world.clock.advance(1)
            world.fault(2, code="xid.48")

    world.seam.before = change
    world.dispatch.admit_cases(CLUSTER)
    assert len(in_progress(world, 3)) == 3
    assert len(world.control().holders) == 3


def test_a_dispatch_isolates_no_further_node_after_its_time():
    world = World(nodes=4, limits=limits(concurrent=4), orchestrated=True)
    world.seam.before = lambda call: world.clock.advance(15) if call.name == "orchestrator.cordon" else None
    for node, code in enumerate(("xid.79", "xid.79", "xid.48", "xid.48"), start=1):
        world.fault(node, code)
    world.dispatch.admit_cases(CLUSTER)
    assert len(world.orchestrator.cordoned) == len(in_progress(world, 4)) == 2


def test_after_a_lost_race_cases_are_admitted_one_by_one_only_until_the_time_ends():
    world = queued(2, limits=limits(concurrent=2))

    def rival() -> None:
        world.clock.advance(20)
        world.table.write(Update(keys.cluster_control(CLUSTER), add={"version": 1}))

    run_before_write(world.seam, writes_to(keys.cluster_control(CLUSTER)), rival)
    world.dispatch.admit_cases(CLUSTER)
    assert in_progress(world, 2) == []
    world.dispatch.admit_cases(CLUSTER)
    assert len(in_progress(world, 2)) == 2


def test_a_case_that_an_operator_takes_over_during_the_admission_is_left_to_the_operator():
    world = queued(2, limits=limits(concurrent=2))
    order = OperatorOrder("ada")
    written = writes_to(keys.node_state(world.key(2)))
    run_before_write(world.seam, written, lambda: world.node_orders.quarantine(world.key(2), order))
    world.dispatch.admit_cases(CLUSTER)
    assert [world.case(node).status for node in (1, 2)] == [CaseStatus.IN_PROGRESS, CaseStatus.ESCALATED]
    assert list(world.control().holders) == [world.case(1).id]


def test_an_admission_with_a_lost_response_counts_once():
    world = queued(1)

    def lose_response(call: Call) -> None:
        if call.name == "table.transact":
            world.seam.after = lambda _: None
            raise Transient("the response was lost")

    world.seam.after = lose_response
    with pytest.raises(Transient):
        world.dispatch.admit_cases(CLUSTER)
    assert world.case().attempts == 1
    assert world.dispatch.admit_cases(CLUSTER).admitted == ()
    world.advance_minutes(3)
    assert list(world.workflow.executions) == [f"{world.case().id}-1"]


def test_a_throttled_start_is_left_to_the_sweep_and_the_others_are_started():
    world = queued(2, limits=limits(concurrent=2))

    def throttle(call: Call) -> None:
        if call.name == "workflow.start":
            world.seam.before = lambda _: None
            raise Transient("throttled")

    world.seam.before = throttle
    dispatched = world.dispatch.admit_cases(CLUSTER)
    assert (len(dispatched.admitted), len(dispatched.unstarted)) == (2, 1)
    assert list(world.workflow.executions) == [dispatched.admitted[1]]


def test_an_execution_gets_only_the_ids_of_its_node_case_and_attempt():
    world = queued(1)
    world.dispatch.admit_cases(CLUSTER)
    ((name, execution),) = world.workflow.executions.items()
    assert name == f"{world.case().id}-1"
    given = {key: execution.data[key] for key in execution.data if key != "last"}
    assert given == {"v": 1, "cluster": CLUSTER, "node": "node-1", "case": world.case().id, "attempt": 1}


def test_an_unregistered_cluster_is_a_configuration_error():
    with pytest.raises(Misconfigured):
        World().dispatch.admit_cases("elsewhere")


def test_a_cluster_without_slots_is_a_configuration_error():
    world = queued(1)
    world.table.write(Delete(keys.cluster_control(CLUSTER)))
    with pytest.raises(Misconfigured):
        world.dispatch.admit_cases(CLUSTER)


def test_a_queued_case_is_escalated_if_the_policy_no_longer_permits_a_repair_action():
    world = queued(1, rules=(Rule("one"),))
    world.policy = replace(world.policy, rules=(Rule("one", repair_actions=(RepairAction.VERIFY,)),))
    world.dispatch.admit_cases(CLUSTER)
    assert world.case().status is CaseStatus.ESCALATED
    assert "permit" in str(world.case().reason)
