"""No group fills the node: a successor is launched first, of the first type that is to be had, and once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.domain.cases import Resolution, WaitingFor
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.errors import Transient
from faultbridge.ports import ProviderFailure, Verdict, Verification
from faultbridge.repair.case_orders import CaseOrder
from faultbridge.simulation.fakes.seams import Call, breaking
from tests.builders import NOON
from tests.scenarios.world import GROUP, World

RESOLVED, QUEUED, ESCALATED = CaseStatus.RESOLVED, CaseStatus.QUEUED, CaseStatus.ESCALATED
OLD, NEW = "i-00000000000000001", "i-00000000000000002"


def faulty(*instance_types: str) -> World:
    world = World()
    world.launch_from_template(*instance_types)
    world.fault()
    return world


def test_the_old_machine_goes_only_when_its_successor_runs() -> None:
    world = faulty()
    world.listen()
    while world.case().status is not RESOLVED:
        running = {one.instance_id for one in world.fleet.running(GROUP)}
        assert OLD in running or NEW in running
        assert (OLD in running) is (world.released() == [])
        world.minute()
        assert world.clock.now() < NOON + timedelta(hours=1)
    assert world.living() == [NEW]
    assert world.story()[9:] == [
        "collect kept",
        "intent committed",
        "node draining -> replacing",
        "release_instance released",
        "node replacing -> provisioning",
        "await_successor claimed",
        "node provisioning -> validating",
        "verify begun",
        "verify passed",
        "cleared xid.79",
        "return_to_service not_applicable",
        "node validating -> healthy",
        "case in_progress -> resolved (replaced)",
    ]
    (intent,) = [body["data"] for body in world.bodies() if body["data"].get("step") == "intent"]
    assert intent["facts"]["capacity_evidence"] == "launch_first"


def test_an_execution_that_launches_stays_far_below_thirty_transitions() -> None:
    world = faulty()
    world.listen()
    world.until(world.case_is(RESOLVED))
    (execution,) = world.workflow.executions.values()
    assert execution.transitions <= 15


def test_where_there_is_nothing_of_the_first_type_the_second_is_launched_and_counted_as_what_it_is() -> None:
    world = faulty("p5.48xlarge", "p5e.48xlarge")
    world.launcher.dry = {"p5.48xlarge"}
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert world.node().placement.instance_type == "p5e.48xlarge"
    claimed = next(body["data"] for body in world.bodies() if body["data"].get("outcome") == "claimed")
    assert claimed["facts"]["instance_type"] == "p5e.48xlarge"


def test_a_type_with_another_number_of_gpus_is_never_launched() -> None:
    world = faulty("p5.4xlarge", "p5.48xlarge", "g5.48xlarge")
    world.launcher.dry = {"p5.48xlarge"}
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert world.node().placement.instance_type == "g5.48xlarge"


def test_where_no_type_has_as_many_gpus_nothing_is_given_up_and_a_person_is_asked() -> None:
    world = faulty("p5.4xlarge")
    world.listen()
    world.until(world.case_is(ESCALATED))
    assert (world.released(), world.living()) == ([], [OLD])
    assert "as many GPUs" in world.case().reason
    assert "intent committed" not in world.story()


def test_without_capacity_for_any_type_the_node_is_kept_and_the_case_waits_until_there_is_some() -> None:
    world = faulty("p5.48xlarge", "p5e.48xlarge")
    world.launcher.dry = {"p5.48xlarge", "p5e.48xlarge"}
    world.listen()
    world.minute(8 * 60)
    assert (world.released(), world.living()) == ([], [OLD])
    assert (world.status(), world.case().status) == (NodeStatus.QUARANTINED, QUEUED)
    assert world.case().waiting_for is WaitingFor.CAPACITY
    assert world.control().holders == {}
    asked = len(world.launcher.asked)
    assert asked == len({token for _, token in world.launcher.asked}) <= 8 * 60 / 10
    world.launcher.dry = set()
    world.until(world.case_is(RESOLVED))
    assert len(world.living()) == 1


@pytest.mark.parametrize("failure", [ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT])
@pytest.mark.parametrize("effect", [True, False])
def test_a_launch_of_which_nobody_knows_is_asked_for_again_and_is_one_launch(
    failure: ProviderFailure, effect: bool
) -> None:
    world = faulty()
    world.launcher.fail_next(failure, effect=effect)
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert world.living() == [NEW]
    assert len({token for _, token in world.launcher.asked}) == 1


def test_a_launch_that_ec2_does_not_tell_of_yet_is_not_launched_again() -> None:
    world = faulty()
    world.launcher.fail_next(ProviderFailure.AMBIGUOUS, effect=True)
    world.launcher.hidden_until = world.clock.now() + timedelta(minutes=12)
    world.listen()
    world.minute(12)
    assert len(world.launcher.asked) > 1
    assert len(world.living()) == 2, "the old one and its successor"
    world.until(world.case_is(RESOLVED))
    assert world.living() == [NEW]


def test_what_nobody_could_tell_in_time_is_found_by_the_next_attempt() -> None:
    world = faulty()
    world.launcher.hidden_until = world.clock.now() + timedelta(hours=2)
    world.listen()
    world.until(world.case_is(ESCALATED))
    assert (world.released(), world.living()) == ([], [OLD, NEW])
    world.clock.advance(timedelta(hours=2))
    world.node_orders.replace(world.key(), CaseOrder("arn:aws:iam::111122223333:user/operator", "there is some again"))
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert world.living() == [NEW]


def test_a_machine_that_was_launched_for_a_node_that_a_person_mended_is_ended_with_the_case() -> None:
    world = faulty()
    world.provider.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.listen()
    world.until(world.case_is(ESCALATED))
    assert world.living() == [OLD, NEW]
    world.launch_from_template("p5.4xlarge")
    world.node_orders.give_back(world.key(), CaseOrder("an operator", "mended by hand"))
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert (world.living(), world.launcher.ended) == ([OLD], [NEW])


@pytest.mark.parametrize("call", ["launcher.launch", "launcher.launched"])
def test_a_lost_answer_costs_no_second_machine(call: str) -> None:
    world = faulty()
    world.seam.after = breaking((call, Transient("the answer was lost")))
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert world.living() == [NEW]


def test_a_successor_that_ends_before_it_serves_is_followed_by_another_and_the_old_one_is_kept_so_long() -> None:
    world = faulty()
    world.listen()
    world.until(lambda: NEW in world.fleet.instances)
    world.fleet.terminate(NEW)
    world.minute(2)
    assert world.released() == []
    world.until(world.case_is(RESOLVED))
    (serving,) = world.living()
    assert serving not in {OLD, NEW}


def test_a_successor_that_is_bad_on_arrival_is_replaced_itself() -> None:
    world = faulty()
    world.verifier.results[NEW] = Verification(Verdict.FAILED, ("pcie: fail",), b"{}")
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert world.released() == [OLD, NEW]
    assert len(world.living()) == 1
    assert world.case().resolution is Resolution.REPLACED


def test_a_machine_that_others_take_away_is_followed_by_one_of_ours() -> None:
    world = faulty()
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=20)
    world.listen()
    world.fleet.terminate(OLD)
    world.until(world.case_is(RESOLVED))
    assert (world.released(), len(world.living())) == ([], 1)
    assert world.case().resolution in {Resolution.EXTERNAL, Resolution.REPLACED}


def test_a_successor_that_ends_when_the_old_machine_is_gone_is_followed_by_another_as_soon_as_there_is_room() -> None:
    world = faulty()

    def ends(call: Call) -> None:
        if call.name == "provider.replace":
            world.seam.after = lambda _: None
            world.fleet.terminate(NEW)
            world.launcher.dry = {world.fleet.instance_type}

    world.seam.after = ends
    world.listen()
    world.until(lambda: world.released() == [OLD])
    world.minute(5)
    assert world.living() == []
    world.launcher.dry = set()
    world.until(world.case_is(RESOLVED))
    assert len(world.living()) == 1


def test_a_successor_that_is_on_its_way_is_asked_for_once() -> None:
    world = World(launch_delay=timedelta(minutes=10))
    world.launch_from_template()
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert (len(world.launcher.asked), world.living()) == (1, [NEW])


def test_two_nodes_get_a_machine_each() -> None:
    world = World(nodes=2)
    world.launch_from_template()
    for node in (1, 2):
        world.fault(node)
    world.listen()
    for node in (1, 2):
        world.until(world.case_is(RESOLVED, node))
    sitting = [world.node(node).incarnation.instance_id for node in (1, 2)]  # type: ignore[union-attr]
    assert sorted(sitting) == world.living()
    launched_for = {one.instance_id: one.case for one in world.fleet.instances.values()}
    assert [launched_for[one] for one in sitting] == [world.case(node).id for node in (1, 2)]
