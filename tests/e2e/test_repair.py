"""A fault ends with a verified node or with an escalation, and the right pages are sent."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.model.cases import Case
from faultbridge.model.enums import CaseStatus, NodeStatus, Resolution
from faultbridge.serve.wiring.services import wire_rejects
from tests.e2e.harness.installation import Installation
from tests.e2e.scenarios.failures import DeferredWork
from tests.e2e.scenarios.repairs import RecoveredLink, Repairs
from tests.waiting import eventually

pytestmark = [pytest.mark.embedded, pytest.mark.slow]


def case_of(installation: Installation, scene: Repairs, node: str) -> Case:
    """Return the only case of a node."""
    (case,) = (
        view.case for view in installation.directory.cases(scene.cluster, tuple(CaseStatus)) if view.key.node == node
    )
    return case


def steps(installation: Installation, scene: Repairs, node: str) -> list[dict[str, Any]]:
    """Return the published steps of a node's repair in order."""
    events = [seen[0]["detail"] for seen in installation.events.deliveries(scene.cluster).values()]
    ours = [one for one in events if one["metadata"]["node"] == node and "step" in one["data"]]
    return [one["data"] for one in sorted(ours, key=lambda one: one["metadata"]["sequence"])]


def pages(received: list[dict[str, Any]], case: Case) -> list[tuple[str, str]]:
    """Return the key and the state of each page about a case in arrival order, without repetitions."""
    found = [(page["dedup_key"], page["state"]) for page in received if page["case_id"] == case.id]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("failure", ["killed_step", "provider_fails"])
def test_a_fault_ends_with_a_verified_successor(installation: Installation, repairs: Repairs, failure: str) -> None:
    node = getattr(repairs, failure)
    state, case = installation.states(repairs.cluster)[node], case_of(installation, repairs, node)
    assert (case.status, case.resolution) == (CaseStatus.RESOLVED, Resolution.REPLACED)
    assert (state.status, state.unverified, list(state.active())) == (NodeStatus.HEALTHY, False, [])
    outcomes = [(step["step"], step["outcome"]) for step in steps(installation, repairs, node)]
    assert (
        outcomes.index(("intent", "committed"))
        < outcomes.index(("release_instance", "released"))
        < outcomes.index(("verify", "passed"))
    )


@pytest.mark.parametrize("failure", ["killed_step", "provider_fails", "bad_successor"])
def test_an_instance_is_terminated_once_and_has_one_successor(
    installation: Installation, repairs: Repairs, failure: str
) -> None:
    node = getattr(repairs, failure)
    state, case = installation.states(repairs.cluster)[node], case_of(installation, repairs, node)
    assert case.attempt is not None
    assert case.attempt.intent is not None
    old = case.attempt.intent.instance_id
    assert state.incarnation is not None
    assert state.incarnation.instance_id not in {None, old}
    terminated = [
        call.status
        for call in installation.required_proxy.calls
        if call.operation == "TerminateInstanceInAutoScalingGroup" and call.arguments["InstanceId"] == old
    ]
    assert terminated.count(200) == 1
    intents = [step["attempt"] for step in steps(installation, repairs, node) if step["step"] == "intent"]
    assert len(intents) == len(set(intents))


def test_no_two_nodes_have_the_same_instance(installation: Installation, repairs: Repairs) -> None:
    instances = [
        state.incarnation.instance_id for state in installation.states(repairs.cluster).values() if state.incarnation
    ]
    assert len(set(instances)) == 4


def test_a_fault_that_a_reset_fixes_keeps_the_instance(installation: Installation, repairs: Repairs) -> None:
    node = repairs.fixed_by_reset
    state, case = installation.states(repairs.cluster)[node], case_of(installation, repairs, node)
    assert (case.status, case.resolution) == (CaseStatus.RESOLVED, Resolution.REPAIRED)
    assert (state.status, state.former_instances, list(state.active())) == (NodeStatus.HEALTHY, (), [])
    outcomes = [(step["step"], step["outcome"]) for step in steps(installation, repairs, node)]
    restart = [("intent", "committed"), ("repair_in_place", "begun"), ("repair_in_place", "back")]
    assert [one for one in outcomes if one in restart] == restart


def test_a_report_that_is_too_long_for_ssm_is_read_from_the_bucket(
    installation: Installation, repairs: Repairs
) -> None:
    (passed,) = (
        step
        for step in steps(installation, repairs, repairs.killed_step)
        if (step["step"], step["outcome"]) == ("verify", "passed")
    )
    assert passed["operation"]
    read = [call.arguments["Key"] for call in installation.required_proxy.calls if call.operation == "GetObject"]
    assert [key for key in read if passed["operation"] in key]


def test_a_case_whose_successors_fail_verification_is_escalated(installation: Installation, repairs: Repairs) -> None:
    node = repairs.bad_successor
    state, case = installation.states(repairs.cluster)[node], case_of(installation, repairs, node)
    assert case.status is CaseStatus.ESCALATED
    assert "VERIFY_FAILED" in case.reason
    assert state.status is NodeStatus.FAILED
    outcomes = [(step["step"], step["outcome"]) for step in steps(installation, repairs, node)]
    assert ("verify", "failed") in outcomes
    assert ("verify", "passed") not in outcomes


def test_an_escalation_triggers_an_urgent_page(installation: Installation, repairs: Repairs) -> None:
    case = case_of(installation, repairs, repairs.bad_successor)
    wanted = (f"{case.id}:escalated", "triggered")
    eventually(lambda: wanted in pages(installation.urgent.pages(repairs.cluster), case), 30)
    assert set(pages(installation.urgent.pages(repairs.cluster), case)) == {wanted}, "one key, its failed node included"
    (page, *_) = (page for page in installation.urgent.pages(repairs.cluster) if page["dedup_key"] == wanted[0])
    assert page["location"]["node"] == repairs.bad_successor
    assert page["subject"].startswith("[urgent]")


@pytest.mark.parametrize("failure", ["killed_step", "provider_fails"])
def test_a_repair_sends_notices_of_its_start_and_its_end(
    installation: Installation, repairs: Repairs, failure: str
) -> None:
    case = case_of(installation, repairs, getattr(repairs, failure))
    key = f"{case.id}:opened"
    wanted = [(key, "triggered"), (key, "resolved")]
    eventually(lambda: pages(installation.notice.pages(repairs.cluster), case) == wanted, 30)
    assert pages(installation.urgent.pages(repairs.cluster), case) == []


def test_a_fault_that_a_later_snapshot_lacks_is_cleared(
    installation: Installation, recovered_link: RecoveredLink
) -> None:
    types = [
        event["metadata"]["event_type"]
        for event in installation.entries(recovered_link.cluster).values()
        if event["metadata"]["node"] == recovered_link.node and event["metadata"]["causation_id"]
    ]
    assert types.count("Node Fault Detected") == types.count("Node Fault Cleared") == 1
    assert list(installation.states(recovered_link.cluster)[recovered_link.node].active()) == []
    assert installation.cases(recovered_link.cluster) == []


def test_the_sweep_publishes_events_that_publish_failed_to_put(
    installation: Installation, deferred_work: DeferredWork
) -> None:
    entries = installation.entries(deferred_work.cluster)
    assert set(installation.events.deliveries(deferred_work.cluster)) == set(entries)
    assert installation.required_proxy.count("sweep", "events:PutEvents")


def test_the_sweep_retries_a_record_whose_node_was_registered_later(
    installation: Installation, deferred_work: DeferredWork
) -> None:
    assert installation.required_proxy.count("sweep", "sqs:SendMessageBatch")
    assert list(wire_rejects(installation.application).list(deferred_work.cluster)) == []
    types = [
        event["metadata"]["event_type"]
        for event in installation.entries(deferred_work.cluster).values()
        if event["metadata"]["node"] == deferred_work.late_node
    ]
    assert {"Node Status Change"} < set(types)
