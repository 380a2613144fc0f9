"""What peers' users reported about repairs: each scenario is named after what must happen, with the thread."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.decode.data.policies import default_policy
from faultbridge.model.cluster.state import BreakerLimit, BreakerState
from faultbridge.model.enums import CaseStatus, NodeStatus, ProviderFailure, RepairAction, Resolution, WaitingFor
from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import Match, Rule
from tests.builders import OTHER_GPU
from tests.scenarios.incidents.incidents import incidents, lose_links, world_of
from tests.scenarios.world import World

RESOLVED = CaseStatus.RESOLVED
WAIT = timedelta(minutes=10)
WAIT_SECONDS = int(WAIT.total_seconds())
RESET_AFTER_WAIT = Rule("reset", Match(codes=("xid.48",)), action=Action.RESET_GPU, wait_seconds=WAIT_SECONDS)
REPLACE_AFTER_WAIT = Rule("replace", Match(codes=("xid.79",)), wait_seconds=WAIT_SECONDS, release_without_capacity=True)
FIRST = "i-00000000000000001"


def packaged_breakers(nodes: int, **others: object) -> World:
    """Return a cluster with the breakers of the packaged policy."""
    return World(nodes=nodes, breakers=default_policy().breakers, **others)  # type: ignore[arg-type]


def position(world: World, line: str) -> int:
    """Return the position of an entry in the node's timeline."""
    return world.record_history().index(line)


def test_a_later_fault_raises_the_repair_and_does_not_restart_the_clock_of_the_case() -> None:
    """kubernetes-sigs/karpenter#2833, aws/eks-node-monitoring-agent#39."""
    world = World(rules=(RESET_AFTER_WAIT, REPLACE_AFTER_WAIT))
    world.fault_and_react(code="xid.48")
    opened = world.case()
    for _ in range(9):
        world.advance_minutes()
        world.fault_and_react(code="xid.79", component=OTHER_GPU)
    raised = world.case()
    assert (raised.id, raised.opened_at, raised.status) == (opened.id, opened.opened_at, CaseStatus.OPEN)
    assert (opened.repair_action, raised.repair_action) == (RepairAction.RESET_GPU, RepairAction.REPLACE_NODE)
    world.advance_minutes(2)
    assert world.released_instances() == [FIRST]


def test_instances_of_nodes_that_a_wrong_check_marks_are_kept_while_the_breaker_is_open() -> None:
    """kubernetes-sigs/karpenter#2811."""
    world = packaged_breakers(10)
    for node in range(1, 11):
        world.fault(node, code="xid.79")
    world.process_entries(minutes=9)
    assert {world.case(node).waiting_for for node in range(1, 11)} == {WaitingFor.BREAKER}
    for node in range(1, 11):
        world.clear(node)
    world.process_entries()
    world.until(lambda: {world.status(node) for node in range(1, 11)} == {NodeStatus.HEALTHY})
    assert {breaker.state for breaker in world.control().breakers.values()} == {BreakerState.CLOSED}
    assert (world.released_instances(), len(world.live_instances())) == ([], 10)


@pytest.mark.parametrize("nodes", [1, 2, 3, 4])
def test_a_breaker_never_blocks_the_repair_of_one_node_in_a_small_cluster(nodes: int) -> None:
    """kubernetes-sigs/karpenter#2134, kubernetes-sigs/karpenter#2321."""
    world = packaged_breakers(nodes, domain=lambda _: "rack-1")
    world.fault_until_resolved(code="xid.79")
    assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.REPLACED)
    assert world.control().breakers == {}


def test_a_breaker_that_one_node_opens_delays_its_repair_only_for_the_quiet_period() -> None:
    """kubernetes-sigs/karpenter#2134, kubernetes-sigs/karpenter#2321."""
    world = World(nodes=3, breakers=(BreakerLimit(nodes=1, percent=20),))
    world.fault_until_resolved(code="xid.79")
    assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.REPLACED)


FAILURES = [ProviderFailure.TIMEOUT, ProviderFailure.PROVIDER_ERROR, ProviderFailure.PERMISSION_DENIED]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failed_look_up_of_running_jobs_does_not_count_as_drained(failure: ProviderFailure) -> None:
    """SlinkyProject/slurm-operator#79."""
    world = World(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(days=1)
    world.fault_and_react(code="xid.79")
    assert world.status() is NodeStatus.DRAINING
    world.orchestrator.fail_next(*[failure] * 500)
    world.advance_minutes(60)
    assert (world.released_instances(), "intent committed" in world.record_history()) == ([], False)


def test_a_node_is_proven_drained_before_the_intent_to_replace_it_is_recorded() -> None:
    """nebius/soperator#2635."""
    world = World(orchestrated=True)
    job_end = world.clock.now() + timedelta(minutes=20)
    world.orchestrator.busy_until["node-1"] = job_end
    world.fault_and_react()
    world.until(lambda: world.clock.now() >= job_end - timedelta(minutes=1))
    assert (world.status(), world.released_instances()) == (NodeStatus.DRAINING, [])
    world.until(world.case_is(RESOLVED))
    assert position(world, "drain drained") < position(world, "intent committed")
    assert position(world, "intent committed") < position(world, "release_instance released")


def test_isolation_and_fault_end_with_the_replaced_instance_after_diagnostics() -> None:
    """nebius/soperator#1316, nebius/soperator#1317."""
    world = World(orchestrated=True)
    world.fault_and_react()
    world.until(lambda: "verify begun" in world.record_history())
    assert world.orchestrator.cordoned == {"node-1"}
    world.until(world.case_is(RESOLVED))
    assert (world.orchestrator.cordoned, world.node().conditions) == (set(), {})
    assert world.instance() != FIRST
    assert position(world, "verify passed") < position(world, "return_to_service returned")


def test_half_a_rack_with_the_same_fault_is_one_incident_of_the_rack_and_holds_every_repair_of_it() -> None:
    """NVIDIA/NVSentinel#367."""
    world = world_of(16)
    half = range(1, 5)
    lose_links(world, half)
    world.advance_minutes(30)
    (incident,) = incidents(world)
    assert (incident.domain.text, incident.nodes) == ("rack rack-1", tuple(f"node-{number}" for number in half))
    assert ({world.case(node).status for node in half}, world.released_instances()) == ({CaseStatus.ABSORBED}, [])
