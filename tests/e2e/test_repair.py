"""A fault, its repair and its pages: a verified node in the node, or a person who is asked."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.domain.cases import Case, Resolution
from faultbridge.domain.edges import CaseStatus, NodeStatus
from tests.e2e.installation import Installation, eventually
from tests.e2e.scenarios import LeftUndone, Recovered, Repairs

pytestmark = [pytest.mark.embedded, pytest.mark.slow]


def case_of(installation: Installation, scene: Repairs, node: str) -> Case:
    """The only case of a node."""
    (case,) = (
        view.case for view in installation.directory.cases(scene.cluster, tuple(CaseStatus)) if view.key.node == node
    )
    return case


def steps(installation: Installation, scene: Repairs, node: str) -> list[dict[str, Any]]:
    """The steps of a node's repair in order, as the bus carried them."""
    events = [seen[0]["detail"] for seen in installation.tap.deliveries(scene.cluster).values()]
    ours = [one for one in events if one["metadata"]["node"] == node and "step" in one["data"]]
    return [one["data"] for one in sorted(ours, key=lambda one: one["metadata"]["sequence"])]


def pages(inbox_pages: list[dict[str, Any]], case: Case) -> list[tuple[str, str]]:
    """Key and state of each page about a case, in the order of arrival, repetitions left out."""
    told = [(page["dedup_key"], page["state"]) for page in inbox_pages if page["case_id"] == case.id]
    return list(dict.fromkeys(told))


@pytest.mark.parametrize("trouble", ["killed_step", "provider_fails"])
def test_a_fault_ends_with_a_verified_successor_in_the_node(
    installation: Installation, repairs: Repairs, trouble: str
) -> None:
    node = getattr(repairs, trouble)
    state, case = installation.states(repairs.cluster)[node], case_of(installation, repairs, node)
    assert (case.status, case.resolution) == (CaseStatus.RESOLVED, Resolution.REPLACED)
    assert (state.status, state.unverified, list(state.active())) == (NodeStatus.HEALTHY, False, [])
    told = [(step["step"], step["outcome"]) for step in steps(installation, repairs, node)]
    assert (
        told.index(("intent", "committed"))
        < told.index(("release_instance", "released"))
        < told.index(("verify", "passed"))
    )


@pytest.mark.parametrize("trouble", ["killed_step", "provider_fails", "bad_successor"])
def test_an_instance_is_given_up_once_and_the_node_gets_one_successor(
    installation: Installation, repairs: Repairs, trouble: str
) -> None:
    node = getattr(repairs, trouble)
    state, case = installation.states(repairs.cluster)[node], case_of(installation, repairs, node)
    assert case.attempt is not None
    assert case.attempt.intent is not None
    old = case.attempt.intent.instance_id
    assert state.incarnation is not None
    assert state.incarnation.instance_id not in {None, old}
    released = [
        call.status
        for call in installation.wire_in_use.calls
        if call.operation == "TerminateInstanceInAutoScalingGroup" and call.arguments["InstanceId"] == old
    ]
    assert released.count(200) == 1
    intents = [step["attempt"] for step in steps(installation, repairs, node) if step["step"] == "intent"]
    assert len(intents) == len(set(intents))


def test_no_two_nodes_have_the_same_instance(installation: Installation, repairs: Repairs) -> None:
    sitting = [
        state.incarnation.instance_id for state in installation.states(repairs.cluster).values() if state.incarnation
    ]
    assert len(set(sitting)) == 4


def test_a_fault_that_a_reset_mends_leaves_the_instance_where_it_is(
    installation: Installation, repairs: Repairs
) -> None:
    node = repairs.needs_reset
    state, case = installation.states(repairs.cluster)[node], case_of(installation, repairs, node)
    assert (case.status, case.resolution) == (CaseStatus.RESOLVED, Resolution.REPAIRED)
    assert (state.status, state.former_instances, list(state.active())) == (NodeStatus.HEALTHY, (), [])
    told = [(step["step"], step["outcome"]) for step in steps(installation, repairs, node)]
    restart = [("intent", "committed"), ("repair_in_place", "begun"), ("repair_in_place", "back")]
    assert [one for one in told if one in restart] == restart


def test_a_report_that_is_too_long_for_ssm_is_read_from_the_bucket(
    installation: Installation, repairs: Repairs
) -> None:
    (passed,) = (
        step
        for step in steps(installation, repairs, repairs.killed_step)
        if (step["step"], step["outcome"]) == ("verify", "passed")
    )
    assert passed["operation"]
    read = [call.arguments["Key"] for call in installation.wire_in_use.calls if call.operation == "GetObject"]
    assert [key for key in read if passed["operation"] in key]


def test_a_successor_that_fails_its_verification_never_serves_and_goes_to_a_person(
    installation: Installation, repairs: Repairs
) -> None:
    node = repairs.bad_successor
    state, case = installation.states(repairs.cluster)[node], case_of(installation, repairs, node)
    assert case.status is CaseStatus.ESCALATED
    assert "VERIFY_FAILED" in case.reason
    assert state.status is NodeStatus.FAILED
    told = [(step["step"], step["outcome"]) for step in steps(installation, repairs, node)]
    assert ("verify", "failed") in told
    assert ("verify", "passed") not in told


def test_who_must_act_is_paged_urgently(installation: Installation, repairs: Repairs) -> None:
    case = case_of(installation, repairs, repairs.bad_successor)
    stopped = (f"{case.id}:escalated", "triggered")
    eventually(lambda: stopped in pages(installation.urgent.pages(repairs.cluster), case), 30)
    assert set(pages(installation.urgent.pages(repairs.cluster), case)) == {stopped}, (
        "one key, its failed node included"
    )
    (page, *_) = (page for page in installation.urgent.pages(repairs.cluster) if page["dedup_key"] == stopped[0])
    assert page["place"]["node"] == repairs.bad_successor
    assert page["subject"].startswith("[urgent]")


@pytest.mark.parametrize("trouble", ["killed_step", "provider_fails"])
def test_who_may_read_it_later_hears_of_the_beginning_and_of_the_end(
    installation: Installation, repairs: Repairs, trouble: str
) -> None:
    case = case_of(installation, repairs, getattr(repairs, trouble))
    key = f"{case.id}:opened"
    wanted = [(key, "triggered"), (key, "resolved")]
    eventually(lambda: pages(installation.notice.pages(repairs.cluster), case) == wanted, 30)
    assert pages(installation.urgent.pages(repairs.cluster), case) == []


def test_a_trouble_that_a_later_look_does_not_find_is_over(installation: Installation, recovered: Recovered) -> None:
    told = [
        event["metadata"]["event_type"]
        for event in installation.entries(recovered.cluster).values()
        if event["metadata"]["node"] == recovered.node and event["metadata"]["causation_id"]
    ]
    assert told.count("Node Fault Detected") == told.count("Node Fault Cleared") == 1
    assert list(installation.states(recovered.cluster)[recovered.node].active()) == []
    assert installation.cases(recovered.cluster) == []


def test_the_sweep_puts_on_the_bus_what_publish_could_not(installation: Installation, left_undone: LeftUndone) -> None:
    entries = installation.entries(left_undone.cluster)
    assert set(installation.tap.deliveries(left_undone.cluster)) == set(entries)
    assert installation.wire_in_use.made("sweep", "events:PutEvents")


def test_the_sweep_tries_a_record_again_whose_node_is_known_by_now(
    installation: Installation, left_undone: LeftUndone
) -> None:
    assert installation.wire_in_use.made("sweep", "sqs:SendMessageBatch")
    assert list(installation.application.rejects.list(left_undone.cluster)) == []
    told = [
        event["metadata"]["event_type"]
        for event in installation.entries(left_undone.cluster).values()
        if event["metadata"]["node"] == left_undone.late_node
    ]
    assert {"Node Status Change"} < set(told)
