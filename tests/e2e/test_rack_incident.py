"""Eight nodes that lose their links are one incident in one rack, and eight repairs in eight racks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from faultbridge.model.cases import Case, Phase
from faultbridge.model.enums import NodeStatus, Resolution
from faultbridge.model.policy import Limits
from tests.e2e.harness.installation import Installation
from tests.e2e.scenarios.rack_incident import OWN_FAULT, RACK, EightRacks, RackIncident

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]


def test_one_incident_sends_one_urgent_page_and_holds_every_case(rack_incident: RackIncident) -> None:
    assert rack_incident.statuses_while_open == {"absorbed"}
    assert [page["state"] for page in rack_incident.urgent_while_open] == ["triggered"]
    (page,) = rack_incident.urgent_while_open
    assert page["dedup_key"] == f"{rack_incident.cluster}:incident:{rack_incident.closed['incident_id']}"


def test_no_instance_is_released_while_the_incident_is_open(rack_incident: RackIncident) -> None:
    assert rack_incident.while_open == rack_incident.before


def test_the_incident_is_closed_by_an_operator_over_http(rack_incident: RackIncident) -> None:
    closed = rack_incident.closed
    assert (closed["status"], closed["reason"]) == ("closed", "closed by an operator: the switch was restarted")
    assert closed["operator"]


def test_two_nodes_with_a_fault_of_their_own_are_repaired_and_six_recover(
    installation: Installation, rack_incident: RackIncident
) -> None:
    cluster = rack_incident.cluster
    states = installation.states(cluster)
    assert {states[node].status for node in RACK} == {NodeStatus.HEALTHY}
    replaced = {node for node in RACK if installation.instance_of(cluster, node) != rack_incident.before[node]}
    assert replaced == set(OWN_FAULT)
    resolutions = {node: case.resolution for node in RACK if (case := states[node].case) is not None}
    assert {node for node in RACK if resolutions[node] is Resolution.REPLACED} == set(OWN_FAULT)
    assert {resolutions[node] for node in RACK if node not in OWN_FAULT} == {Resolution.RECOVERED}


@pytest.mark.nightly
def test_the_same_faults_in_eight_racks_are_eight_repairs_within_the_budget(
    installation: Installation, eight_racks: EightRacks
) -> None:
    cluster, before = eight_racks.cluster, eight_racks.before
    states, cases = installation.states(cluster), installation.cases(cluster)
    assert installation.call_api(f"/clusters/{cluster}/incidents?closed=true")["items"] == []
    assert {state.status for state in states.values()} == {NodeStatus.HEALTHY}
    assert [case.resolution for case in cases] == [Resolution.REPLACED] * len(before)
    assert all(installation.instance_of(cluster, node) != before[node] for node in before)
    assert max(at_once(cases)) == Limits().concurrent


def at_once(cases: Sequence[Case]) -> list[int]:
    """Return how many repairs ran when each of them began."""
    ran = [(case.marks[Phase.DRAINING], case.closed_at) for case in cases if case.closed_at is not None]
    return [sum(begun <= start < ended for begun, ended in ran) for start, _ in ran]
