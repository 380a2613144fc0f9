"""One silent node, many silent nodes, and an intake that failed are three different answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from faultbridge.adapters.kubernetes.orchestrator import NoOrchestrator
from faultbridge.decide.fold.expire import end_verified
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, ProviderFailure, RepairAction
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import keys
from faultbridge.model.values import replace
from faultbridge.record.policies import PolicyStore
from faultbridge.record.ports.orchestrator import Orchestrator
from faultbridge.record.ports.presence import CheckResult, InstanceChecks
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.ops.missing_heartbeats import MAX_PROBED
from faultbridge.serve.wiring.services import wire_heartbeat_monitor, wire_registration
from tests.builders import KEY
from tests.ingest.heartbeat_monitor import beat, pass_time, record_canary
from tests.sim.fakes import Call, FakeOrchestrator
from tests.world import GROUP, World

PASSED, FAILED = CheckResult.PASSED, CheckResult.FAILED


def condition(world: World, node: str) -> tuple[str, str]:
    """Return the presence and the message of the missing heartbeat of a node."""
    found = world.node(NodeKey(KEY.cluster, node)).conditions["host.silent@node"]
    return found.attributes["instance"], found.message


def go_silent(world: World, *nodes: str) -> None:
    beat(world, *nodes)
    pass_time(world, 8)


def probes(world: World) -> int:
    return len(world.ports.seam.named("provider.probe"))


def terminate(world: World) -> None:
    for instance in list(world.ports.fleet.instances):
        world.ports.fleet.terminate(instance)


def fail_probes(error: Exception) -> Callable[[World], None]:
    def fail(call: Call) -> None:
        if call.name == "provider.probe":
            raise error

    return lambda world: setattr(world.ports.seam, "before", fail)


@pytest.mark.parametrize(
    ("prepare", "presence", "text"),
    [
        (lambda _: None, "alive", "the agent, the operating system or the network path failed"),
        (terminate, "gone", "The provider has no such instance any more"),
        (fail_probes(Transient("EC2 does not answer")), "unknown", "No heartbeat for 300 s."),
        (fail_probes(Misconfigured("no permission")), "unknown", "No heartbeat for 300 s."),
    ],
    ids=["exists", "gone", "no answer", "no permission"],
)
def test_the_fault_of_one_silent_node_says_whether_its_instance_exists(
    prepare: Callable[[World], None], presence: str, text: str
) -> None:
    world = World(nodes=("a",), mode="observe", repair_owner="observe")
    prepare(world)
    go_silent(world, "a")
    found, message = condition(world, "a")
    assert found == presence
    assert text in message


@pytest.mark.parametrize(
    ("checks", "answer", "text"),
    [
        (InstanceChecks(FAILED, FAILED, FAILED), "host_impaired", "the host, its power or its network"),
        (InstanceChecks(PASSED, FAILED, PASSED), "impaired", "the operating system or its network settings"),
        (InstanceChecks(PASSED, PASSED, FAILED), "unreachable", "Its SSM agent lost its connection"),
        (InstanceChecks(PASSED, PASSED, PASSED), "reachable", "the agent of Faultbridge or its path to the queue"),
        (InstanceChecks(PASSED, PASSED), "alive", "the agent, the operating system or the network path failed"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_a_failed_status_check_or_a_lost_agent_changes_the_answer(
    checks: InstanceChecks, answer: str, text: str
) -> None:
    world = World(nodes=("a",), mode="observe", repair_owner="observe")
    world.ports.providers["ec2-auto-scaling"].known_checks = checks
    go_silent(world, "a")
    found, message = condition(world, "a")
    assert found == answer
    assert text in message
    attributes = world.node(NodeKey(KEY.cluster, "a")).conditions["host.silent@node"].attributes
    own = (attributes["system_status"], attributes["instance_status"], attributes["ssm_agent"])
    assert own == (checks.system, checks.instance, checks.agent)


def test_a_probe_whose_checks_are_refused_reports_no_answer() -> None:
    world = World(nodes=("a",), mode="observe", repair_owner="observe")
    world.ports.seam.before = lambda call: fail_named(call, "provider.checks")
    go_silent(world, "a")
    assert condition(world, "a")[0] == "alive"


def test_a_silent_node_is_reported_although_the_incidents_of_its_cluster_cannot_be_read() -> None:
    world = World(nodes=("a",), mode="observe", repair_owner="observe")
    beat(world, "a")

    def fail(call: Call) -> None:
        if call.name == "table.get" and call.argument == keys.cluster_control(KEY.cluster):
            raise Transient("the table does not answer")

    world.ports.seam.before = fail
    pass_time(world, 8)
    assert (condition(world, "a")[0], probes(world)) == ("unknown", 0)


def test_the_status_checks_of_an_instance_that_is_gone_are_not_read() -> None:
    world = World(nodes=("a",), mode="observe", repair_owner="observe")
    terminate(world)
    go_silent(world, "a")
    assert (probes(world), world.ports.seam.named("provider.checks")) == (1, [])


def fail_named(call: Call, name: str) -> None:
    if call.name == name:
        raise Transient("EC2 does not answer")


def test_the_fault_of_a_silent_node_says_whether_its_orchestrator_reports_it_as_ready() -> None:
    assert [readiness_of_silent(FakeOrchestrator()), readiness_of_silent(NoOrchestrator())] == ["passed", "unknown"]
    lost = FakeOrchestrator()
    lost.not_ready.add("a")
    assert readiness_of_silent(lost) == "failed"


def test_an_orchestrator_that_does_not_answer_is_asked_once_and_changes_nothing() -> None:
    orchestrator = FakeOrchestrator()
    orchestrator.fail_next(ProviderFailure.TIMEOUT)
    assert readiness_of_silent(orchestrator, "a", "b") == "unknown"
    assert len(orchestrator.seam.named("orchestrator.readiness")) == 1


def readiness_of_silent(orchestrator: Orchestrator, *nodes: str) -> str:
    """Return what the faults of silent nodes, by default of one, say about the orchestrator of their cluster."""
    nodes = nodes or ("a",)
    world = World(nodes=nodes, mode="observe", repair_owner="observe")
    world.ports.orchestrators[world.config.orchestrator] = orchestrator
    go_silent(world, *nodes)
    assert {condition(world, node)[0] for node in nodes} == {"alive"}
    (found,) = {
        world.node(NodeKey(KEY.cluster, node)).conditions["host.silent@node"].attributes["orchestrator"]
        for node in nodes
    }
    return found


def test_of_many_silent_nodes_that_are_no_incident_the_first_five_are_probed() -> None:
    nodes = tuple(f"n-{number:02}" for number in range(40))
    world = World(nodes=nodes, mode="observe", repair_owner="observe")
    beat(world, *nodes)
    pass_time(world, 8, *nodes[MAX_PROBED + 1 :])
    answers = [condition(world, node)[0] for node in nodes[: MAX_PROBED + 1]]
    assert answers == ["alive"] * MAX_PROBED + ["unknown"]
    assert probes(world) == MAX_PROBED


def test_the_silent_nodes_of_another_cluster_are_probed_too() -> None:
    nodes = tuple(f"n-{number:02}" for number in range(MAX_PROBED))
    world = World(nodes=nodes, mode="observe", repair_owner="observe")
    wire_registration(world.app).add_cluster(replace(world.config, cluster="train-b", expected=0))
    wire_registration(world.app).add_node("train-b", NewNode("b-0", world.ports.fleet.launch(GROUP), group=GROUP))
    beat(world, *nodes)
    beat(world, "b-0", cluster="train-b")
    pass_time(world, 8)
    assert probes(world) == MAX_PROBED + 1


def test_a_silent_node_that_an_open_incident_covers_is_not_probed() -> None:
    nodes = tuple(f"n-{number:02}" for number in range(10))
    world = World(nodes=nodes, mode="observe", repair_owner="observe")
    beat(world, *nodes)
    pass_time(world, 8, *nodes[:2])
    assert probes(world) == 0
    pass_time(world, 8, nodes[0])
    assert (condition(world, nodes[1])[0], probes(world)) == ("unknown", 0)


def test_many_silent_nodes_that_become_an_incident_are_not_probed() -> None:
    nodes = tuple(f"n-{number}" for number in range(MAX_PROBED + 1))
    world = World(nodes=nodes, mode="observe", repair_owner="observe")
    go_silent(world, *nodes)
    assert ({condition(world, node)[0] for node in nodes}, probes(world)) == ({"unknown"}, 0)


def test_a_node_that_returned_to_service_without_a_heartbeat_is_probed_again() -> None:
    world = World(nodes=("a",), mode="observe", repair_owner="observe")
    go_silent(world, "a")
    assert condition(world, "a")[0] == "alive"
    return_to_service(world, "a")
    terminate(world)
    pass_time(world, 7)
    assert (condition(world, "a")[0], probes(world)) == ("gone", 2)


def test_of_many_nodes_that_are_checked_again_five_are_probed_in_one_sweep() -> None:
    nodes = tuple(f"n-{number:02}" for number in range(40))
    silent, alive = nodes[: MAX_PROBED + 1], nodes[MAX_PROBED + 1 :]
    world = World(nodes=nodes, mode="observe", repair_owner="observe")
    beat(world, *nodes)
    pass_time(world, 8, *alive)
    before = probes(world)
    return_to_service(world, *silent)
    pass_time(world, 7, *alive)
    assert sorted(condition(world, node)[0] for node in silent) == ["alive"] * MAX_PROBED + ["unknown"]
    assert probes(world) - before == MAX_PROBED


def return_to_service(world: World, *nodes: str) -> None:
    """End the conditions of nodes as a passed verification does; their agents send no heartbeat."""

    def returned(state: NodeState, now: datetime) -> Transition:
        return Transition(end_verified(state, RepairAction.REBOOT_NODE, at=now, covers=lambda _: False).state)

    for node in nodes:
        wire_heartbeat_monitor(world.app).append(NodeKey(KEY.cluster, node), returned, actor=Actor.STEP)


def test_no_node_is_probed_while_no_records_arrive() -> None:
    world = World(nodes=("a",))
    record_canary(world)
    beat(world, "a")
    pass_time(world, 30)
    assert probes(world) == 0
    assert "host.silent@node" not in world.node(NodeKey(KEY.cluster, "a")).conditions


def slow_world() -> World:
    """Return a world whose agents send a heartbeat every ten minutes, so that the policy's timeout is 25 minutes."""
    world = World(nodes=("a", "b", "c"))
    document = {"version": "p-slow", "limits": {"heartbeat_timeout": 1500}}
    PolicyStore(world.ports.table, world.ports.clock).put(document)
    beat(world, "a", "b", "c")
    return world


def is_silent(world: World, node: str) -> bool:
    return "host.silent@node" in world.node(NodeKey(KEY.cluster, node)).conditions


def instance_of(world: World, node: str) -> str:
    found = world.node(NodeKey(KEY.cluster, node)).incarnation
    assert found is not None
    return str(found.instance_id)


def test_a_node_whose_status_check_fails_is_silent_within_seven_minutes_although_heartbeats_are_rare() -> None:
    world = slow_world()
    world.ports.providers["ec2-auto-scaling"].impaired_instances = {instance_of(world, "a")}
    pass_time(world, 4, "c")
    assert not is_silent(world, "a")
    pass_time(world, 3, "c")
    assert (is_silent(world, "a"), is_silent(world, "b")) == (True, False)
    beat(world, "a")
    pass_time(world, 1, "c")
    assert not is_silent(world, "a")


def test_without_a_failed_status_check_the_timeout_of_the_policy_applies() -> None:
    world = slow_world()
    pass_time(world, 29, "c")
    assert not is_silent(world, "a")
    pass_time(world, 2, "c")
    assert is_silent(world, "a")


def test_status_checks_are_read_only_where_heartbeats_are_rare_and_their_refusal_changes_nothing() -> None:
    usual = World()
    beat(usual)
    pass_time(usual, 3)
    assert usual.ports.seam.named("provider.impaired") == []

    def refuse(call: Call) -> None:
        if call.name == "provider.impaired":
            raise Misconfigured("no permission")

    world = slow_world()
    world.ports.seam.before = refuse
    pass_time(world, 31, "c")
    assert is_silent(world, "a")
