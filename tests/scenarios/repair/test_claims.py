"""A claim of a listed sender alone never gives up a node: diagnostics or an operator confirm it first."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.policies import default_policy
from faultbridge.model.enums import CaseStatus, NodeStatus, RepairAction, Resolution
from faultbridge.model.fault_enums import Action
from faultbridge.model.faults import NODE_COMPONENT
from faultbridge.model.policy import Match, Rule
from faultbridge.repair.case_orders import OperatorOrder
from tests.builders import DEFAULT_RULE
from tests.races import run_before_write
from tests.scenarios.repair.builders import FAILED, UNANSWERED
from tests.scenarios.threads.relapses import RESET
from tests.scenarios.world import CLUSTER, World, limits
from tests.sim.fakes import Call


def destructive_calls(world: World) -> list[str]:
    names = ("provider.replace", "restarter.restart")
    return [call.name for call in world.seam.calls if call.name in names]


@pytest.mark.parametrize("code", ["xid.79", "xid.48"])
def test_a_claim_that_diagnostics_refute_ends_the_case_without_a_repair(code: str) -> None:
    world = World()
    before = world.instance()
    world.claim_and_react(code=code)
    world.until(world.case_is(CaseStatus.RESOLVED))

    assert (world.case().resolution, world.instance()) == (Resolution.RECOVERED, before)
    assert destructive_calls(world) == []
    assert (world.status(), dict(world.node().conditions)) == (NodeStatus.HEALTHY, {})
    reasons = [body["data"].get("reason") for body in world.bodies()]
    assert "admitted: no proven sender reports the fault; diagnostics have to confirm it" in reasons
    assert "diagnostics did not confirm what no proven sender reported" in reasons


def test_a_claim_that_a_health_snapshot_of_the_node_refutes_needs_no_diagnostics() -> None:
    world = World(rules=(Rule("stays in service", isolate=False),))
    world.pause_repairs(paused=True)
    world.claim_and_react()
    assert world.case().status is CaseStatus.QUEUED
    world.clock.advance(timedelta(seconds=30))
    world.show_healthy()
    world.advance_minutes(5)

    assert (world.case().status, world.case().resolution) == (CaseStatus.RESOLVED, Resolution.RECOVERED)
    assert world.status() is NodeStatus.HEALTHY
    assert "verify begun" not in world.record_history()


def test_an_operator_decides_about_a_claim_that_diagnostics_do_not_cover() -> None:
    world = World()
    world.claim_and_react(code="net.link_absent", action=Action.REPLACE_NODE)
    world.until(world.case_is(CaseStatus.ESCALATED))

    assert destructive_calls(world) == []
    assert "net.link_absent is still reported" in world.case().reason


def test_a_claim_that_diagnostics_confirm_is_repaired_as_the_fault_requires() -> None:
    world = World()
    before = world.instance()
    world.verifier.results[before] = FAILED
    world.claim_and_react()
    world.until(world.case_is(CaseStatus.RESOLVED))

    assert world.case().resolution is Resolution.REPLACED
    assert world.released_instances() == [before]
    steps = world.record_history()
    assert steps.index("verify failed") < steps.index("intent committed")


def test_a_claim_that_diagnostics_confirm_is_queued_for_the_repair_action_that_its_fault_requires() -> None:
    world = World()
    world.verifier.results[world.instance()] = FAILED
    world.claim_and_react()
    world.until(lambda: "verify begun" in world.record_history())
    world.pause_repairs(paused=True)
    world.until(world.case_is(CaseStatus.QUEUED), minutes=60)
    assert world.case().repair_action is RepairAction.REPLACE_NODE


@pytest.mark.parametrize("with_later_claim", [False, True])
def test_a_claim_that_arrives_after_another_was_confirmed_does_not_make_its_repair_stronger(
    *, with_later_claim: bool
) -> None:
    reboot = Rule("reboot", Match(codes=("xid.48",)), action=Action.REBOOT_NODE, release_without_capacity=True)
    world = World(orchestrated=True, rules=(reboot,))
    before = world.instance()
    world.verifier.results[before] = FAILED
    world.claim_and_react(code="xid.48")
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=35)
    world.until(lambda: any(one.confirmed_at for one in world.node().conditions.values()))
    del world.verifier.results[before]
    if with_later_claim:
        world.claim_and_react(code="xid.79")
    world.until(world.case_is(CaseStatus.RESOLVED))

    restarted = [instance for _, instance, _ in world.restarter.restarted]
    assert (restarted, world.released_instances()) == ([before], [])
    assert world.status() is NodeStatus.HEALTHY


def test_a_claim_that_arrives_while_another_is_confirmed_does_not_change_the_rule_of_the_case() -> None:
    reset = Rule("reset", Match(codes=("xid.48",)), action=Action.RESET_GPU, release_without_capacity=True)
    replace_only = Rule("rest", Match(), repair_actions=(RepairAction.VERIFY, RepairAction.REPLACE_NODE))
    world = World(rules=(reset, replace_only))
    world.verifier.results[world.instance()] = FAILED
    world.claim_and_react(code="xid.48")
    world.until(lambda: "verify begun" in world.record_history())
    run_before_write(world.seam, lambda write: "VERIFY_FAILED" in str(write), lambda: world.claim(code="xid.79"))
    world.until(lambda: "verify failed" in world.record_history())
    assert (world.case().rule, world.case().repair_action) == ("reset", RepairAction.RESET_GPU)
    assert {one.code for one in world.node().active()} == {"xid.48", "xid.79"}


def test_a_claim_that_joins_a_queued_case_with_a_confirmed_fault_does_not_make_its_repair_stronger() -> None:
    reset = Rule("reset", Match(codes=("xid.48",)), action=Action.RESET_GPU, release_without_capacity=True)
    world = World(rules=(reset,))
    world.verifier.results[world.instance()] = FAILED
    world.claim_and_react(code="xid.48")
    world.until(lambda: "verify begun" in world.record_history())
    world.pause_repairs(paused=True)
    world.until(world.case_is(CaseStatus.QUEUED), minutes=60)
    assert world.case().repair_action is RepairAction.RESET_GPU
    world.claim(code="xid.79")
    assert world.case().repair_action is RepairAction.RESET_GPU


def test_a_repeated_claim_of_a_confirmed_relapse_does_not_make_its_repair_stronger() -> None:
    world = World(rules=(RESET,))
    world.fault_until_resolved(code="xid.48")
    world.verifier.results[world.instance()] = FAILED
    world.clock.advance(timedelta(minutes=5))
    world.claim_and_react(code="xid.48")
    world.until(lambda: world.record_history().count("verify begun") == 2)
    world.pause_repairs(paused=True)
    world.until(world.case_is(CaseStatus.QUEUED), minutes=60)
    assert world.case().repair_action is RepairAction.RESET_GPU
    world.claim(code="xid.48", source="dcgm-exporter")
    assert world.case().relapse_of is not None
    assert world.case().repair_action is RepairAction.RESET_GPU


def test_a_claim_beside_a_confirmed_one_never_releases_an_instance_that_passed() -> None:
    world = World(rules=(RESET,), limits=limits(claim_ttl=timedelta(days=1)))
    world.verifier.results[world.instance()] = FAILED
    world.claim_and_react(code="xid.48")
    world.until(lambda: bool(world.restarter.restarted))
    del world.verifier.results[world.instance()]
    world.claim(code="net.link_absent", action=Action.REPLACE_NODE)
    world.until(world.case_is(CaseStatus.ESCALATED))

    assert world.released_instances() == []
    assert "net.link_absent is still reported" in world.case().reason


def test_claims_that_go_on_while_diagnostics_run_confirm_nothing() -> None:
    world = World()
    world.claim_and_react()
    for _ in range(60):
        world.advance_minutes()
        world.claim(source="dcgm")
        world.claim_and_react()

    assert destructive_calls(world) == []


def test_claims_about_a_successor_release_it_no_more_than_any_other_instance() -> None:
    world = World()
    before = world.instance()
    world.fault_and_react()
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    world.claim(code="xid.95")
    world.until(world.case_is(CaseStatus.RESOLVED))

    assert world.released_instances() == [before]
    assert world.status() is NodeStatus.HEALTHY


def test_a_claim_after_the_verification_opens_a_case_of_its_own() -> None:
    world = World(orchestrated=True)
    world.claim_and_react()
    first = world.case().id

    def claim_again(call: Call) -> None:
        if call.name == "orchestrator.uncordon" and world.case().id == first:
            world.clock.advance(timedelta(seconds=1))
            world.claim(source="dcgm")

    world.seam.after = claim_again
    world.until(lambda: world.case().id != first)
    world.until(world.case_is(CaseStatus.RESOLVED))

    assert world.case().previous_case == first
    assert destructive_calls(world) == []


@pytest.mark.parametrize("first", ["claim", "proof"])
def test_a_fault_that_the_node_itself_or_ec2_reports_too_is_repaired_without_further_diagnostics(first: str) -> None:
    world = World()
    before = world.instance()
    reports = [world.claim, world.fault]
    for report in reports if first == "claim" else reversed(reports):
        report()
        world.clock.advance(timedelta(milliseconds=1))
    world.until_case(CaseStatus.RESOLVED)

    assert world.released_instances() == [before]
    assert world.record_history().index("intent committed") < world.record_history().index("verify begun")


def test_an_operator_who_approves_the_replacement_confirms_the_claim() -> None:
    asked = Rule("ask", approval=(RepairAction.REPLACE_NODE,), release_without_capacity=True)
    world = World(rules=(asked,))
    before = world.instance()
    world.claim_and_react()
    world.until(lambda: world.case().pending_approval is not None)
    assert destructive_calls(world) == []
    world.orders.approve(world.case().id, OperatorOrder("arn:operator", "seen on the rack"))
    world.until_case(CaseStatus.RESOLVED)

    assert world.released_instances() == [before]


def test_without_a_result_of_the_diagnostics_an_operator_decides() -> None:
    world = World(limits=limits(verify_deadline=timedelta(minutes=30)))
    world.verifier.result = UNANSWERED
    world.claim_and_react()
    world.until(world.case_is(CaseStatus.ESCALATED))

    assert destructive_calls(world) == []


def test_without_a_result_from_a_node_that_is_silent_too_the_repair_goes_on() -> None:
    world = World(limits=limits(verify_deadline=timedelta(minutes=30)))
    before = world.instance()
    world.verifier.results[before] = UNANSWERED
    world.claim()
    world.fault(code="host.silent", component=NODE_COMPONENT, source="heartbeat", action=Action.RUN_DIAGNOSTICS)
    world.until_case(CaseStatus.RESOLVED)

    assert world.released_instances() == [before]


def test_claims_of_several_senders_and_of_a_missing_heartbeat_do_not_confirm_each_other() -> None:
    world = World(limits=limits(verify_deadline=timedelta(minutes=30)))
    world.verifier.result = UNANSWERED
    for source in ("kernel-log", "dcgm", "nvidia-smi-xml"):
        world.claim(source=source)
        world.clock.advance(timedelta(seconds=1))
    world.claim_and_react(code="host.silent", component=NODE_COMPONENT, source="heartbeat", action=Action.REPLACE_NODE)
    world.until(world.case_is(CaseStatus.ESCALATED))
    world.advance_minutes(120)

    assert destructive_calls(world) == []


def test_claims_of_ec2_events_do_not_prove_an_instance_unusable_to_a_drain() -> None:
    world = World(orchestrated=True, rules=(DEFAULT_RULE,))
    world.orchestrator.unreachable_until = world.clock.now() + timedelta(days=1)
    world.claim_and_react(code="cloud.instance_gone", component=NODE_COMPONENT, source="ec2-event", minutes=120)

    assert destructive_calls(world) == []
    assert "drain forced" not in world.record_history()


def verified(world: World, nodes: int) -> int:
    """Return how often the nodes were verified."""
    return sum(world.record_history(node).count("verify passed") for node in range(1, nodes + 1))


def named_sources(world: World) -> list[tuple[str, str]]:
    """Return the entries of the cluster about sources of false claims, each of which is one page."""
    changes = [body["data"] for body in world.bodies(None) if body["data"].get("kind") == "claims"]
    return [(one["to"], one["source"]) for one in changes]


def test_a_false_claim_every_15_minutes_for_a_day_takes_a_node_out_once_and_leaves_notes() -> None:
    world = World(orchestrated=True, catalog=load_catalog())
    world.policy = default_policy()
    out = 0
    for minute in range(24 * 60):
        if minute % 15 == 0:
            world.claim_and_react(code="xid.79", source="prometheus")
        world.advance_minutes()
        status = world.status()
        out += status is None or not status.in_service
    history = world.record_history()

    assert (history.count("drain drained"), history.count("verify passed"), history.count("drain forced")) == (1, 1, 0)
    assert out <= 20
    assert (world.status(), world.released_instances()) == (NodeStatus.HEALTHY, [])
    assert history.count("note information") == 2  # one a day, on two calendar days
    assert named_sources(world) == [("damped", "prometheus")]
    assert len(history) <= 25


def test_a_source_with_two_false_claims_is_named_once_and_then_ignored_in_the_whole_cluster() -> None:
    world = World(nodes=12, orchestrated=True, catalog=load_catalog())
    world.policy = default_policy()
    for minute in range(24 * 60):
        if minute % 15 == 0:
            world.claim_and_react(1 + minute // 15 % 12, code="xid.79", source="prometheus")
        world.advance_minutes()

    assert 2 <= verified(world, 12) <= 4
    # The first false claim names the source; the second one damps it in the whole cluster.
    assert named_sources(world) == [("damped", "prometheus")] * 2
    assert {world.status(node) for node in range(1, 13)} == {NodeStatus.HEALTHY}

    before = verified(world, 12)
    world.claim_and_react(12, code="xid.48", source="prometheus")
    assert dict(world.node(12).conditions) == {}
    world.claim(12, code="xid.48", source="grafana")
    world.fault(11, code="xid.79", source="prometheus")
    assert [len(world.node(node).conditions) for node in (11, 12)] == [1, 1]
    assert verified(world, 12) == before


def test_claims_of_a_damped_source_count_again_after_its_time() -> None:
    world = World(nodes=3)
    for node in (1, 2):
        world.claim_and_react(node, source="prometheus")
        world.until(world.case_is(CaseStatus.RESOLVED, node))
    world.advance_minutes(24 * 60, every=10)
    assert [one for one in world.record_history(None) if one.startswith("claims")] == [
        "claims accepted -> damped",
        "claims damped -> damped",
        "claims damped -> accepted",
    ]
    assert not any(str(row["sk"]).startswith("FALSE#") for row in world.table.query(f"CLUSTER#{CLUSTER}#0").items)
    world.claim(3, source="prometheus")
    assert len(world.node(3).conditions) == 1
