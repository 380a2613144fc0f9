"""A repair that fails in a failure domain of an open incident is not repeated until the incident no longer holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

import pytest

from faultbridge.decode.data import load_catalog
from faultbridge.model.cases import Phase
from faultbridge.model.cluster.config import FailureDomain
from faultbridge.model.cluster.incidents import Hold
from faultbridge.model.cluster.state import Control
from faultbridge.model.enums import (
    CaseStatus,
    DomainKind,
    IncidentStatus,
    NodeStatus,
    ProviderFailure,
    RepairAction,
    Resolution,
    WaitingFor,
)
from faultbridge.model.fault_enums import Action, Family
from faultbridge.model.policy import Match, Rule
from faultbridge.model.storage import keys
from faultbridge.record.ports.compute import Verdict, Verification
from faultbridge.repair.incidents import Correlate
from tests.builders import NOON
from tests.races import run_before_call
from tests.scenarios.incidents.incidents import NETWORK_WAITS, incidents, lose_links, restore_links, world_of
from tests.scenarios.incidents.pages_of_incidents import urgent
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes.instance_commands import PASSED
from tests.sim.fakes.seam import Call

RESET = Rule("reset", Match(codes=("xid.48",)), action=Action.RESET_GPU, release_without_capacity=True)
REBOOT = Rule("reboot", Match(codes=("xid.62",)), action=Action.REBOOT_NODE, release_without_capacity=True)
OTHERS = range(2, 9)
LINK, SOURCE = "net.link_down", "link-state"
UNREACHABLE = Verification(Verdict.FAILED, ("nccl-allreduce: peers unreachable",))


def report(code: str, source: str) -> Callable[[World, Iterable[int]], None]:
    """Return what reports a fault of all nodes of the rack but the first."""

    def act(world: World, nodes: Iterable[int]) -> None:
        for node in nodes:
            world.fault(node, code, source=source, action=None)
        world.process_entries()

    return act


def world_past_the_intent(code: str = "xid.79", **others) -> World:
    """Return a world in which the repair of node 1, for a fault of its own, is past its intent."""
    world = world_of(16, **({"catalog": load_catalog(), "rules": (RESET, NETWORK_WAITS)} | others))
    world.fault_and_react(1, code)
    world.until(lambda: Phase.INTENT in world.case(1).marks)
    return world


def intents(world: World, node: int = 1) -> list[str]:
    """Return the repair actions of the intents of a node, in order."""
    steps = [body["data"] for body in world.bodies(node) if body["metadata"]["event_type"] == "Node Replacement Step"]
    return [step["repair_action"] for step in steps if (step["step"], step["outcome"]) == ("intent", "committed")]


@pytest.mark.parametrize(
    ("code", "first", "fail_others"),
    [
        ("xid.79", "replace_node", lose_links),
        ("xid.48", "reset_gpu", lose_links),
        ("xid.79", "replace_node", report("dcgm.nvswitch_down", "dcgm-health")),
        ("xid.48", "reset_gpu", report("host.silent", "heartbeat")),
    ],
    ids=["own Xid and lost links", "reset and lost links", "NVLink", "dark rack"],
)
def test_a_repair_that_fails_while_its_rack_has_an_incident_is_not_repeated_before_the_incident_ends(
    code: str, first: str, fail_others: Callable[[World, Iterable[int]], None]
) -> None:
    world = world_past_the_intent(code)
    fail_others(world, OTHERS)
    world.verifier.result = UNREACHABLE
    world.advance_minutes(50)
    (incident,) = incidents(world)
    assert incident.status is IncidentStatus.OPEN
    assert intents(world) == [first]
    assert len(world.released_instances()) == (first == "replace_node")
    case = world.case(1)
    assert (case.status, case.waiting_for, case.incident) == (CaseStatus.ABSORBED, WaitingFor.INCIDENT, incident.id)
    assert case.reason.startswith(f"the last attempt failed, and incident {incident.id} explains it")
    assert world.control().holders == {}


def repaired_after_an_incident(code: str = "xid.79") -> World:
    """Return a world whose repair was verified in vain while its rack had lost its links, and again afterwards."""
    world = world_past_the_intent(code)
    lose_links(world, OTHERS)
    world.verifier.result = UNREACHABLE
    world.advance_minutes(60)
    restore_links(world, OTHERS)
    world.verifier.result = PASSED
    world.until(world.case_is(CaseStatus.RESOLVED, 1))
    return world


def test_a_successor_that_failed_in_a_dead_rack_is_only_verified_after_the_incident() -> None:
    world = repaired_after_an_incident()
    assert intents(world) == ["replace_node"]
    assert (world.case(1).resolution, world.status(1)) == (Resolution.REPLACED, NodeStatus.HEALTHY)
    (incident,) = incidents(world)
    assert incident.closed_at is not None
    assert incident.closed_at <= world.clock.now()


def test_a_reset_whose_verification_failed_in_a_dead_rack_is_repeated_and_does_not_become_a_reboot() -> None:
    world = repaired_after_an_incident("xid.48")
    assert set(intents(world)) == {"reset_gpu"}
    assert (world.released_instances(), world.case(1).resolution) == ([], Resolution.REPAIRED)


def test_after_the_maximum_age_a_failed_repair_is_verified_again_and_an_operator_decides_on_another_one() -> None:
    world = world_past_the_intent()
    lose_links(world, OTHERS)
    world.verifier.result = UNREACHABLE
    opened = incidents(world)[0].opened_at
    world.until(lambda: incidents(world)[0].status is IncidentStatus.EXPIRED)
    assert intents(world) == ["replace_node"]
    assert world.clock.now() - opened <= timedelta(hours=2, minutes=2)
    world.until(world.case_is(CaseStatus.ESCALATED, 1))
    case = world.case(1)
    assert (case.repair_action, case.attempts, intents(world)) == (RepairAction.VERIFY, 2, ["replace_node"])
    assert case.reason.endswith(f"incident {incidents(world)[0].id} still affects its failure domain")


@pytest.mark.parametrize("node", [1, 12], ids=["in it", "outside"])
def test_an_old_incident_does_not_stop_the_first_replacement_of_a_node_whose_reset_and_reboot_failed(node: int) -> None:
    world = world_of(16, catalog=load_catalog(), rules=(RESET, NETWORK_WAITS))
    lose_links(world, OTHERS)
    world.until(lambda: incidents(world)[0].status is IncidentStatus.EXPIRED)
    restore_links(world, range(3, 9))
    world.verifier.result = Verification(Verdict.FAILED, ("memory: fail",))
    world.fault_and_react(node, "xid.48")
    world.until(lambda: "replace_node" in intents(world, node))
    assert incidents(world)[0].status is IncidentStatus.EXPIRED


def test_an_expired_incident_frees_a_failed_repair_from_later_ones_of_its_family_and_domain() -> None:
    rack, other, zone = (FailureDomain(DomainKind.RACK, "r-1"), FailureDomain(DomainKind.RACK, "r-2"),
                         FailureDomain(DomainKind.ZONE, "z-1"))  # fmt: skip
    expired = Hold(Family.NETWORK, rack, holding=False)
    later, power = Hold(Family.NETWORK, rack), Hold(Family.POWER, zone)

    def incident_of(**holds: Hold) -> str | None:
        return Control("train-a", holds=holds).incident_of("n-1", (rack, zone), (), repeated_since=NOON)

    assert incident_of(later=later) == "later"
    assert incident_of(expired=expired, later=later) is None
    assert incident_of(expired=expired, power=power) == "power"
    assert incident_of(elsewhere=Hold(Family.NETWORK, other)) is None


def test_a_failure_in_another_rack_is_no_reason_to_wait() -> None:
    world = world_past_the_intent()
    lose_links(world, range(9, 17))
    world.verifier.results["i-00000000000000011"] = UNREACHABLE
    world.until(world.case_is(CaseStatus.RESOLVED, 1))
    assert incidents(world)[0].status is IncidentStatus.OPEN
    assert intents(world) == ["replace_node", "replace_node"]


def test_a_fault_of_its_own_that_was_admitted_before_is_repaired_although_its_rack_has_an_incident() -> None:
    world = world_past_the_intent()
    lose_links(world, OTHERS)
    world.until(world.case_is(CaseStatus.RESOLVED, 1))
    assert (incidents(world)[0].status, intents(world)) == (IncidentStatus.OPEN, ["replace_node"])


def test_a_first_repair_does_not_wait_for_an_incident_whose_fault_its_node_does_not_have() -> None:
    world = world_of(16)
    lose_links(world, OTHERS)
    world.fault_until(CaseStatus.RESOLVED, 1)
    assert (incidents(world)[0].status, intents(world)) == (IncidentStatus.OPEN, ["replace_node"])
    assert world.case(1).attempts == 1


def test_a_repair_that_fails_beside_faults_that_nothing_has_correlated_yet_waits_with_its_repair_action() -> None:
    world = world_past_the_intent("xid.48")
    world.until(lambda: "verify begun" in world.record_history())
    world.verifier.result = UNREACHABLE
    world.clock.advance(world.verifier.duration)
    run_before_call(world.seam, "verifier.status", lambda: [world.fault(node, LINK, source=SOURCE) for node in OTHERS])
    verify(world)
    assert (world.case(1).waiting_for, world.case(1).repair_action) == (WaitingFor.INCIDENT, RepairAction.RESET_GPU)


def test_a_repair_that_an_incident_explains_costs_no_attempt_and_is_not_postponed() -> None:
    world = world_past_the_intent()
    world.until(lambda: verification_runs(world))
    lose_links(world, OTHERS)
    world.verifier.result = UNREACHABLE
    world.clock.advance(world.verifier.duration)
    verify(world)
    case = world.case(1)
    assert (case.status, case.waiting_for) == (CaseStatus.QUEUED, WaitingFor.INCIDENT)
    assert (case.attempts, case.counted_attempts, case.not_before) == (1, 0, None)


def test_a_repair_that_fails_before_its_verification_is_not_verified_because_an_incident_has_ended() -> None:
    world = world_of(16, catalog=load_catalog(), rules=(RESET, NETWORK_WAITS))
    lose_links(world, OTHERS)
    world.advance_minutes(3)
    restore_links(world, OTHERS)
    world.until(lambda: incidents(world)[0].status is IncidentStatus.CLOSED)
    world.restarter.fail_next(ProviderFailure.NOT_FOUND)
    world.fault_and_react(1, "xid.48")
    world.until(lambda: len(intents(world)) > 1)
    assert intents(world)[:2] == ["reset_gpu", "reboot_node"]


def test_a_case_that_failed_because_of_an_incident_sends_no_urgent_page_of_its_own() -> None:
    world = world_past_the_intent()
    lose_links(world, OTHERS)
    world.verifier.result = UNREACHABLE
    world.advance_minutes(100)
    assert [line for line in urgent(world) if "incident" not in line] == []


def test_a_reboot_that_failed_in_a_dead_rack_and_is_verified_afterwards_is_a_repair_and_no_replacement() -> None:
    world = world_past_the_intent("xid.62", rules=(REBOOT, NETWORK_WAITS))
    lose_links(world, OTHERS)
    world.verifier.result = UNREACHABLE
    world.advance_minutes(60)
    restore_links(world, OTHERS)
    world.verifier.result = PASSED
    world.until(world.case_is(CaseStatus.RESOLVED, 1))
    assert (intents(world), world.released_instances()) == (["reboot_node"], [])
    assert (world.case(1).repair_action, world.case(1).resolution) == (RepairAction.VERIFY, Resolution.REPAIRED)


def test_a_failed_repair_is_decided_by_one_read_of_the_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_past_the_intent()
    world.verifier.results["i-00000000000000011"] = UNREACHABLE
    world.until(lambda: verification_runs(world))
    update, reads = Correlate.update_incidents, list[int]()

    def update_before_the_decision(correlate: Correlate, cluster: str) -> None:
        update(correlate, cluster)
        world.seam.calls.clear()
        world.seam.before = count

    def count(call: Call) -> None:
        if call.name == "table.transact":
            reads.append(sum(one.argument == keys.cluster_control(CLUSTER) for one in world.seam.calls))
            world.seam.before = lambda _: None

    monkeypatch.setattr(Correlate, "update_incidents", update_before_the_decision)
    world.until(lambda: bool(reads))
    assert set(reads) == {1}


def verify(world: World) -> None:
    """Call the verification of the node, before anything else happens in the cluster."""
    case = world.case(1)
    world.step_runner.run_step(
        {"v": 1, "cluster": CLUSTER, "node": "node-1", "case": case.id, "attempt": 1, "step": "verify"}
    )


def verification_runs(world: World) -> bool:
    attempt = world.case(1).attempt
    return attempt is not None and attempt.operation is not None
