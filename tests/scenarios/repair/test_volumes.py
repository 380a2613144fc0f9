"""Volumes that the policy names: detached before the intent, attached before the node returns to service."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.cluster.config import CapacitySource
from faultbridge.model.cluster.state import SpareStatus
from faultbridge.model.enums import CaseStatus, NodeStatus, ProviderFailure, WaitingFor
from faultbridge.model.errors import Transient
from faultbridge.model.values import replace
from faultbridge.record.ports.orchestrator import ATTACHED, Attachment, Volume
from faultbridge.repair.attempt.step_context import StepRequest
from faultbridge.repair.registry.registration import Registration
from faultbridge.repair.spares.pool import SparePool
from tests.races import run_before_write
from tests.scenarios.provider.external_termination import busy_world
from tests.scenarios.repair.volumes import ESCALATED, NEW, OLD, ORDER, steps, world_with_volumes
from tests.scenarios.world import CLUSTER, GROUP, World
from tests.sim.fakes import raise_once
from tests.sim.fakes.seam import Call


def place_of(world: World, volume: str) -> str | None:
    world.volumes.settle()
    found = world.volumes.volumes[volume]
    return "deleted" if found.deleted_with else found.instance_id


def outcomes(world: World) -> list[str]:
    return [f"{one['step']} {one['outcome']}" for one in steps(world)]


MOVED = ["detach_volumes begun", "detach_volumes detached", "attach_volumes attached"]


def test_a_volume_moves_to_the_successor_before_the_node_serves() -> None:
    world, (volume,) = world_with_volumes()
    world.fault_until_resolved()
    assert place_of(world, volume) == NEW
    assert outcomes(world) == MOVED
    history = world.record_history()
    assert history.index("detach_volumes detached") < history.index("intent committed")
    assert history.index("verify passed") < history.index("attach_volumes attached")
    attached = steps(world)[-1]
    assert (attached["old_instance"], attached["new_instance"]) == (OLD, NEW)
    assert attached["facts"]["volumes"] == [{"volume": volume, "zone": "us-east-1a", "device": "/dev/sdf", "from": OLD}]
    assert world.volumes.volumes[volume].device == "/dev/sdf"
    assert world.node().moving_volumes == ()


def test_a_node_does_not_serve_while_a_volume_is_still_being_attached() -> None:
    world, (volume,) = world_with_volumes()
    world.volumes.delay = timedelta(minutes=3)
    world.fault_and_react()
    world.until(lambda: world.volumes.volumes[volume].state == "attaching")
    world.until(lambda: world.volumes.volumes[volume].state != "attaching" or world.status() is NodeStatus.HEALTHY)
    assert world.volumes.volumes[volume].state == "attached"
    world.until(world.case_is(CaseStatus.RESOLVED))


def test_a_volume_that_the_policy_does_not_name_is_not_touched() -> None:
    world, (data, scratch) = world_with_volumes("data", "scratch")
    world.fault_until_resolved()
    assert (place_of(world, data), place_of(world, scratch)) == (NEW, "deleted")


def test_without_the_policy_field_no_call_about_volumes_is_made() -> None:
    world, _ = world_with_volumes(moved=())
    world.fault_until_resolved()
    assert [call.name for call in world.seam.calls if call.port.startswith("volume")] == []
    assert outcomes(world) == []


def test_a_volume_that_does_not_detach_stops_the_attempt_before_the_intent() -> None:
    world, (free, stuck) = world_with_volumes("data", "data")
    world.volumes.stuck.add(stuck)
    world.fault_until(ESCALATED)
    assert world.case().reason == f"VOLUMES: {stuck} is not detached from {OLD} yet"
    assert "intent committed" not in world.record_history()
    assert world.released_instances() == []
    assert place_of(world, stuck) == OLD
    assert [one.volume_id for one in world.node().moving_volumes] == [free, stuck]


def unanswered(*names: str) -> Callable[[Call], None]:
    """No answer to any call with one of these names."""

    def hook(call: Call) -> None:
        if call.name in names:
            raise Transient("no answer")

    return hook


def when_detaching(world: World, volume: str, change: str, value: object) -> None:
    """Fault the node, and change a volume once its repair has recorded it and before its detachment has begun."""
    world.volumes.fail_next(ProviderFailure.THROTTLED)
    world.fault_and_react()
    world.until(lambda: bool(world.node().moving_volumes))
    assert world.volumes.detached == []
    setattr(world.volumes.volumes[volume], change, value)


def test_a_volume_that_loses_its_tag_before_it_is_detached_keeps_its_instance() -> None:
    world, (volume,) = world_with_volumes()
    when_detaching(world, volume, "tagged", value=False)
    world.until(world.case_is(ESCALATED))
    assert world.case().reason == f"VOLUMES: {volume} lost the tag faultbridge:volume while it was attached to {OLD}"
    assert "intent committed" not in world.record_history()
    assert world.released_instances() == []
    assert place_of(world, volume) == OLD
    world.volumes.volumes[volume].tagged = True
    world.node_orders.replace(world.key(), ORDER)
    world.until_case(CaseStatus.RESOLVED)
    assert place_of(world, volume) == NEW


def test_a_volume_that_is_deleted_before_the_intent_escalates_once_and_the_node_can_be_replaced() -> None:
    world, (volume,) = world_with_volumes()
    when_detaching(world, volume, "deleted_with", "another tool")
    world.until(world.case_is(ESCALATED))
    assert world.case().reason == f"VOLUMES: {volume} does not exist any more"
    assert (world.released_instances(), world.node().moving_volumes) == ([], ())
    world.node_orders.replace(world.key(), ORDER)
    world.until_case(CaseStatus.RESOLVED)
    assert world.released_instances() == [OLD]


def test_a_volume_that_loses_its_tag_before_it_is_attached_escalates_once() -> None:
    world, (volume,) = world_with_volumes()
    world.fault_and_react()
    world.until(lambda: "intent committed" in world.record_history())
    world.volumes.volumes[volume].tagged = False
    world.until(world.case_is(ESCALATED))
    assert f"{volume} does not exist any more, or lost the tag" in str(world.case().reason)
    world.node_orders.return_node(world.key(), ORDER)
    world.until_case(CaseStatus.RESOLVED)
    assert place_of(world, volume) is None


def test_a_repair_that_waits_for_something_else_is_not_escalated_for_its_volumes() -> None:
    world, _ = world_with_volumes("scratch")
    world.seam.before = unanswered("provider.capacity")
    world.fault_and_react()
    world.until(lambda: world.case().waiting_for is WaitingFor.WAIT)
    assert world.case().status is CaseStatus.QUEUED
    world.seam.before = unanswered()
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert world.released_instances() == [OLD]


def test_volumes_that_cannot_be_read_at_the_deadline_escalate_the_case() -> None:
    world, (volume,) = world_with_volumes()
    world.volumes.stuck.add(volume)
    world.fault_and_react()
    world.until(lambda: bool(world.volumes.detached))
    world.seam.before = unanswered("volumes.read")
    world.until(world.case_is(ESCALATED))
    assert world.case().reason == "VOLUMES: no answer"
    assert world.released_instances() == []


def test_volumes_of_a_stopped_attempt_are_attached_to_the_old_instance_again() -> None:
    world, (free, stuck) = world_with_volumes("data", "data")
    world.volumes.stuck.add(stuck)
    world.fault_until(ESCALATED)
    world.volumes.stuck.clear()
    world.node_orders.return_node(world.key(), ORDER)
    world.until_case(CaseStatus.RESOLVED)
    assert (place_of(world, free), place_of(world, stuck)) == (OLD, OLD)
    assert world.node().moving_volumes == ()
    assert world.released_instances() == []


def test_a_refused_detach_escalates_the_case_with_the_reason() -> None:
    world, (volume,) = world_with_volumes()
    world.volumes.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.fault_until(ESCALATED)
    assert f"{volume} cannot be detached from {OLD}" in str(world.case().reason)
    assert place_of(world, volume) == OLD
    assert world.released_instances() == []


@pytest.mark.parametrize("name", ["volumes.detach", "volumes.attach", "volumes.read", "volumes.attached"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_call_moves_the_volume_once(name: str, when: str) -> None:
    world, (volume,) = world_with_volumes()
    setattr(world.seam, when, raise_once((name, Transient("no answer"))))
    world.fault_until_resolved()
    assert place_of(world, volume) == NEW
    assert outcomes(world) == MOVED
    assert [(one, instance) for one, instance, _ in world.volumes.detached] == [(volume, OLD)]
    assert [(one, instance) for one, instance, _ in world.volumes.given] == [(volume, NEW)]


def test_a_crash_between_detach_and_attach_forgets_no_volume() -> None:
    world, (volume,) = world_with_volumes()
    world.fault_and_react()
    world.until(lambda: bool(world.volumes.detached))
    assert [one.volume_id for one in world.node().moving_volumes] == [volume]
    world.workflow.abort(f"{world.case().id}-1")
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert place_of(world, volume) == NEW
    assert world.node().moving_volumes == ()


@pytest.mark.parametrize("outcome", ["begun", "detached"])
def test_a_successor_that_is_replaced_after_it_got_the_volume_records_that_the_volume_leaves_it(outcome: str) -> None:
    world, (volume,) = world_with_volumes()
    world.fault_and_react()
    world.until(lambda: bool(world.volumes.detached))
    world.volumes.fail_next(ProviderFailure.PERMISSION_DENIED, effect=True)
    world.until(world.case_is(ESCALATED))
    assert place_of(world, volume) == NEW
    world.node_orders.replace(world.key(), ORDER)
    world.until_case(CaseStatus.RESOLVED)
    recorded = [one["facts"]["volumes"] for one in steps(world) if one["outcome"] == outcome]
    assert [[one["from"] for one in volumes] for volumes in recorded] == [[OLD], [NEW]]
    assert [instance for _, instance, _ in world.volumes.detached] == [OLD, NEW]
    assert world.node().moving_volumes == ()


def test_the_case_canceled_after_the_detach_keeps_the_instance_and_its_volume() -> None:
    world, (volume,) = world_with_volumes()
    world.fault_and_react()
    world.until(lambda: bool(world.volumes.detached))
    world.orders.cancel(world.case().id, ORDER)
    world.until_case(CaseStatus.RESOLVED)
    assert place_of(world, volume) == OLD
    assert world.released_instances() == []


def test_a_group_that_may_launch_in_another_zone_is_refused_before_anything_is_detached() -> None:
    world, (volume,) = world_with_volumes()
    world.volumes.group_zones = frozenset({"us-east-1a", "us-east-1b"})
    world.fault_until(ESCALATED)
    assert f"{volume} is in us-east-1a, but gpu-workers may launch a successor in us-east-1b" in str(
        world.case().reason
    )
    assert (world.volumes.detached, world.released_instances()) == ([], [])


def test_a_group_that_may_launch_in_another_zone_since_the_volume_was_detached_keeps_its_instance() -> None:
    world, (volume,) = world_with_volumes()
    world.volumes.delay = timedelta(minutes=5)
    world.fault_and_react()
    world.until(lambda: bool(world.volumes.detached))
    world.volumes.group_zones = frozenset({"us-east-1a", "us-east-1b"})
    world.until(world.case_is(ESCALATED))
    assert f"{volume} is in us-east-1a, but gpu-workers may launch" in str(world.case().reason)
    assert world.released_instances() == []


def test_a_volume_that_loses_its_tag_while_it_is_being_attached_is_not_lost() -> None:
    world, (volume,) = world_with_volumes()
    world.volumes.delay = timedelta(minutes=3)
    world.fault_and_react()
    world.until(lambda: world.volumes.volumes[volume].state == "attaching")
    world.volumes.volumes[volume].tagged = False
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert place_of(world, volume) == NEW


@pytest.mark.parametrize(
    ("step", "outcome"),
    [
        ("release_instance", "detach_volumes begun"),
        ("release_instance", "detach_volumes detached"),
        ("return_to_service", "attach_volumes attached"),
    ],
)
def test_two_calls_of_a_step_that_find_the_same_volumes_record_them_once(step: str, outcome: str) -> None:
    world, (volume,) = world_with_volumes()
    recorded: list[int] = []

    def second_call() -> None:
        world.clock.advance(timedelta(seconds=1))
        world.step_runner.run(StepRequest(step, world.key(), world.case().id, 1), None)
        recorded.append(world.record_history().count(outcome))

    name, _, result = outcome.partition(" ")
    run_before_write(
        world.seam, lambda write: all(text in repr(write) for text in (volume, name, f'"{result}"')), second_call
    )
    world.fault_until_resolved()
    assert (recorded, world.record_history().count(outcome)) == ([1], 1)


def test_the_zones_of_a_group_are_read_as_often_for_two_volumes_as_for_one() -> None:
    def reads(*names: str) -> int:
        world, _ = world_with_volumes(*names)
        world.fault_until_resolved()
        return [call.name for call in world.seam.calls].count("volumes.successor_zones")

    assert 0 < reads("data", "data") == reads("data")


def test_a_successor_launched_in_another_zone_leaves_the_old_instance_running() -> None:
    world, (volume,) = world_with_volumes()
    world.launch_from_template()
    world.volumes.zones[NEW] = "us-east-1b"
    world.fault_until(ESCALATED)
    assert f"{volume} is in us-east-1a, but {NEW} is in us-east-1b" in str(world.case().reason)
    assert world.fleet.is_alive(OLD)
    assert place_of(world, volume) is None
    assert world.status() is NodeStatus.FAILED
    world.node_orders.return_node(world.key(), ORDER)
    world.until_case(CaseStatus.RESOLVED)
    assert place_of(world, volume) == OLD


def test_a_successor_that_turns_out_to_be_in_another_zone_does_not_serve() -> None:
    world, (volume,) = world_with_volumes()
    world.volumes.zones[NEW] = "us-east-1b"
    world.fault_until(ESCALATED)
    assert f"{volume} is in us-east-1a, but {NEW} is in us-east-1b" in str(world.case().reason)
    assert place_of(world, volume) is None
    assert world.status() is NodeStatus.VALIDATING
    assert [one.volume_id for one in world.node().moving_volumes] == [volume]


def world_with_a_volume_that_another_instance_holds() -> tuple[World, str, str]:
    """Return a world after the intent, its volume, and the instance that it was attached to meanwhile."""
    world, (volume,) = world_with_volumes()
    other = world.fleet.launch("others")
    world.fault_and_react()
    world.until(lambda: "intent committed" in world.record_history())
    world.volumes.settle()
    world.volumes.volumes[volume].instance_id = other
    return world, volume, other


def test_a_volume_that_another_instance_holds_is_never_taken_from_it() -> None:
    world, volume, other = world_with_a_volume_that_another_instance_holds()
    world.until(world.case_is(ESCALATED))
    assert place_of(world, volume) == other
    assert f"{volume} is attached to {other}" in str(world.case().reason)
    assert (world.volumes.given, world.volumes.stolen) == ([], [])


def test_a_volume_that_another_instance_holds_for_a_while_is_attached_once_it_is_free() -> None:
    world, volume, _ = world_with_a_volume_that_another_instance_holds()
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    world.advance_minutes(40)
    assert world.case().status is CaseStatus.IN_PROGRESS
    world.volumes.volumes[volume].instance_id = None
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert place_of(world, volume) == world.instance()


def test_a_shared_volume_is_attached_beside_another_instance() -> None:
    world, (volume,) = world_with_volumes()
    other = Attachment(world.fleet.launch("others"), ATTACHED)
    read = world.volumes.read

    def read_shared(volume_ids: Iterable[str]) -> tuple[Volume, ...]:
        return tuple(replace(one, attachments=(other, *one.attachments), shared=True) for one in read(volume_ids))

    world.volumes.read = read_shared  # type: ignore[method-assign]
    world.fault_until_resolved()
    assert (place_of(world, volume), outcomes(world)) == (successor(world), MOVED)


def test_the_repair_waits_until_the_storage_driver_has_detached_its_volumes() -> None:
    world, _ = world_with_volumes()
    world.volume_attachments.held[OLD] = ("pvc-1",)
    world.fault_and_react(minutes=15)
    assert (world.volumes.detached, world.released_instances()) == ([], [])
    world.volume_attachments.held.clear()
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert world.released_instances() == [OLD]


def test_a_storage_driver_that_keeps_a_volume_escalates_the_case() -> None:
    world, _ = world_with_volumes()
    world.volume_attachments.held[OLD] = ("pvc-1",)
    world.fault_and_react()
    world.until(world.case_is(ESCALATED), minutes=int(timedelta(hours=2).total_seconds() // 60))
    assert world.case().reason == "VOLUMES: the storage driver has not detached pvc-1"
    assert world.released_instances() == []


def test_with_a_policy_value_that_no_volume_has_the_repair_only_waits_for_the_storage_driver() -> None:
    world, (volume,) = world_with_volumes("scratch", moved=("persistent",))
    world.volume_attachments.held[OLD] = ("pvc-1",)
    world.fault_and_react(minutes=15)
    assert world.released_instances() == []
    world.volume_attachments.held.clear()
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert (world.released_instances(), outcomes(world), place_of(world, volume)) == ([OLD], [], "deleted")


@pytest.mark.parametrize(
    ("volumes", "text"),
    [
        ((), ""),
        (
            ("data", "logs"),
            "; its volumes with the tag faultbridge:volume (data, logs) were not recorded: attach those that remain",
        ),
    ],
)
def test_an_instance_that_another_tool_terminates_leaves_its_volumes_behind_and_the_timeline_says_so(
    volumes: tuple[str, ...], text: str
) -> None:
    world = busy_world()
    world.policy = replace(world.policy, volumes=volumes)
    world.volumes.add(OLD)
    world.fault_and_react(code="xid.79", minutes=3)
    world.fleet.terminate(OLD)
    world.until(world.case_is(CaseStatus.RESOLVED))
    (gone,) = [body["data"]["reason"] for body in world.bodies() if body["data"].get("outcome") == "gone"]
    assert gone == f"external: another controller terminated {OLD}{text}"


def test_volumes_that_were_recorded_before_another_tool_terminated_the_instance_reach_the_successor() -> None:
    world, (volume,) = world_with_volumes("data")
    world.volumes.stuck.add(volume)
    world.fault_and_react()
    world.until(lambda: bool(world.node().moving_volumes))
    found = world.volumes.volumes[volume]
    found.instance_id = found.until = None  # EC2 keeps a volume without DeleteOnTermination
    world.fleet.terminate(OLD)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert world.released_instances() == []
    assert place_of(world, volume) == successor(world) != OLD
    (gone,) = [body["data"]["reason"] for body in world.bodies() if body["data"].get("outcome") == "gone"]
    assert gone == f"external: another controller terminated {OLD}"


def test_a_deleted_volume_escalates_once_and_an_operator_can_return_the_node() -> None:
    world, (volume,) = world_with_volumes()
    world.fault_and_react()
    world.until(lambda: "intent committed" in world.record_history())
    world.volumes.volumes[volume].deleted_with = "another tool"
    world.until(world.case_is(ESCALATED))
    assert f"{volume} does not exist any more" in str(world.case().reason)
    world.node_orders.return_node(world.key(), ORDER)
    world.until_case(CaseStatus.RESOLVED)
    assert world.status() is NodeStatus.HEALTHY


SPARE_SOURCES = (CapacitySource.SPARE_POOL, CapacitySource.ON_DEMAND)


def world_with_spares(number: int) -> tuple[World, list[str]]:
    """A node with one volume, launched from a template, and verified spares; all are in one zone."""
    world, _ = world_with_volumes()
    world.launch_from_template()
    world.policy = replace(world.policy, capacity=SPARE_SOURCES)
    changes = {"spares": number, "spare_group": GROUP}
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, changes)
    pool = SparePool(world.table, world.clock)

    def ready() -> list[str]:
        return [str(one.instance_id) for one in pool.spares(CLUSTER) if one.status is SpareStatus.READY]

    world.until(lambda: len(ready()) == number, minutes=60)
    return world, ready()


def intent_facts(world: World) -> dict[str, Any]:
    found: dict[str, Any] = next(one["data"] for one in world.bodies() if one["data"].get("step") == "intent")["facts"]
    return found


def successor(world: World) -> str | None:
    incarnation = world.node().incarnation
    return incarnation.instance_id if incarnation else None


def test_a_spare_in_the_zone_of_the_volumes_is_taken_before_one_in_another_zone() -> None:
    world, (first, second) = world_with_spares(2)
    world.volumes.zones[first] = "us-east-1b"
    world.fault_until_resolved()
    assert successor(world) == second
    assert place_of(world, next(iter(world.volumes.volumes))) == second


def test_with_spares_only_in_another_zone_the_next_source_is_asked() -> None:
    world, (spare,) = world_with_spares(1)
    world.volumes.zones[spare] = "us-east-1b"
    world.fault_until_resolved()
    assert successor(world) != spare
    answers = intent_facts(world)["capacity_sources"]
    assert [(one["source"], one["decision"]) for one in answers] == [("spare_pool", "none_free"), ("on_demand", "used")]
    assert answers[0]["reason"].endswith("is free in us-east-1a")
    assert world.fleet.is_alive(spare)


def test_a_spare_whose_zone_is_not_known_is_taken() -> None:
    world, (spare,) = world_with_spares(1)
    world.volumes.zone_of = lambda _instance: None  # type: ignore[method-assign]
    world.fault_until_resolved()
    assert successor(world) == spare


def test_a_spare_that_an_earlier_attempt_took_in_another_zone_is_given_back() -> None:
    world, (spare,) = world_with_spares(1)
    pool = SparePool(world.table, world.clock)
    world.fault_and_react()
    world.until(lambda: world.case().status is CaseStatus.IN_PROGRESS)
    held = next(iter(pool.spares(CLUSTER)))
    pool.change(held, status=SpareStatus.TAKEN, case=world.case().id)
    world.volumes.zones[spare] = "us-east-1b"
    world.until(lambda: successor(world) not in {OLD, None})
    assert successor(world) != spare
    assert [one.status for one in pool.spares(CLUSTER)] == [SpareStatus.READY]


def test_without_volumes_to_move_the_zone_of_a_spare_is_not_read() -> None:
    world, (spare,) = world_with_spares(1)
    world.policy = replace(world.policy, volumes=())
    world.volumes.zones[spare] = "us-east-1b"
    world.fault_until_resolved()
    assert successor(world) == spare
    assert world.seam.named("volumes.zone_of") == []


def test_a_provider_that_moves_no_volumes_leaves_the_case_to_an_operator_at_once() -> None:
    world, (volume,) = world_with_volumes()
    world.step_runner.tools.volumes.clear()  # type: ignore[attr-defined] # a dictionary here
    world.fault_until(ESCALATED)
    assert world.case().attempts == 1
    assert "provider 'ec2-auto-scaling' cannot move any; remove `volumes` from the policy" in str(world.case().reason)
    assert (world.released_instances(), place_of(world, volume)) == ([], OLD)


def test_the_zone_of_the_successor_is_read_as_often_for_three_volumes_as_for_one() -> None:
    def reads(volumes: int) -> int:
        world, _ = world_with_volumes(*["data"] * volumes)
        world.fault_until_resolved()
        return len(world.seam.named("volumes.zone_of"))

    assert reads(3) == reads(1) == 1


def test_a_volume_that_loses_its_tag_only_while_it_is_being_detached_reaches_the_successor() -> None:
    world, (volume,) = world_with_volumes()
    world.volumes.delay = timedelta(minutes=5)
    world.fault_and_react()
    world.until(lambda: bool(world.volumes.detached))
    world.volumes.volumes[volume].tagged = False
    world.advance_minutes(2)
    world.volumes.volumes[volume].tagged = True
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert place_of(world, volume) == NEW


def test_a_node_whose_volume_cannot_be_detached_is_failed() -> None:
    world, _ = world_with_volumes()
    world.volumes.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.fault_until(ESCALATED)
    assert world.status() is NodeStatus.FAILED


def test_an_attachment_that_is_refused_until_the_deadline_is_escalated_with_the_reason_of_the_refusal() -> None:
    world, (volume,) = world_with_volumes()
    world.fault_and_react()
    world.until(lambda: bool(world.volumes.detached))
    for _ in range(100):
        world.volumes.fail_next(ProviderFailure.CONFLICT)
    world.until(world.case_is(ESCALATED))
    assert (world.case().reason, place_of(world, volume)) == ("VOLUMES: scripted", None)


def test_volumes_of_the_storage_driver_escalate_no_waiting_repair_if_the_policy_moves_no_volumes() -> None:
    world, _ = world_with_volumes(moved=())
    world.volume_attachments.held[OLD] = ("pvc-1",)
    world.seam.before = unanswered("provider.capacity")
    world.fault_and_react()
    world.until(lambda: world.case().waiting_for is WaitingFor.WAIT, minutes=60)
    assert world.case().status is CaseStatus.QUEUED


def test_the_zones_of_a_group_are_not_read_if_no_volume_of_the_instance_moves() -> None:
    world, _ = world_with_volumes("scratch")
    world.fault_until_resolved()
    assert world.seam.named("volumes.successor_zones") == []


def instances(world: World) -> list[tuple[str, Any, Any]]:
    """Return outcome, old instance and new instance of each entry about volumes."""
    return [(one["outcome"], one.get("old_instance"), one.get("new_instance")) for one in steps(world)]


def test_the_detachment_is_recorded_with_the_instance_that_the_volumes_leave() -> None:
    world, _ = world_with_volumes("data", "data")
    world.fault_until_resolved()
    assert instances(world) == [("begun", OLD, None), ("detached", OLD, None), ("attached", OLD, NEW)]


def test_a_refused_detachment_is_recorded_with_the_instance_that_keeps_the_volume() -> None:
    world, (volume,) = world_with_volumes()
    world.volumes.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.fault_until(ESCALATED)
    assert instances(world) == [("begun", OLD, None), ("refused", OLD, None)]
    refused = steps(world)[-1]
    assert refused["failure"] == "PROVIDER_ERROR"
    assert [one["volume"] for one in refused["facts"]["volumes"]] == [volume]


def test_a_refused_attachment_is_recorded_with_the_instance_that_lacks_the_volume() -> None:
    world, (volume,) = world_with_volumes()
    world.fault_and_react()
    world.until(lambda: bool(world.volumes.detached))
    world.volumes.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.until(world.case_is(ESCALATED))
    assert instances(world)[2:] == [("failed", None, NEW)]
    assert [one.volume_id for one in world.node().moving_volumes] == [volume]
    world.node_orders.return_node(world.key(), ORDER)
    world.until_case(CaseStatus.RESOLVED)
    assert instances(world)[3:] == [("attached", OLD, NEW)]
