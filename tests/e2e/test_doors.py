"""What comes in beside the queue, and who asks: CloudWatch Logs, the API, the archive."""

from __future__ import annotations

import pytest

from faultbridge.archive.retention import sealed_up_to
from faultbridge.domain.edges import CaseStatus
from faultbridge.storage import keys
from tests.e2e.installation import Installation
from tests.e2e.scenarios import Doors

pytestmark = [pytest.mark.embedded, pytest.mark.slow]


def test_a_log_that_cloudwatch_hands_over_finds_its_node_by_the_instance(doors: Doors) -> None:
    assert doors.codes == ["xid.48"]


def test_a_repair_that_begins_by_approval_waits_for_a_person_and_the_answer_is_on_the_record(
    installation: Installation, doors: Doors
) -> None:
    assert doors.answers["approve"]["answer"] == "approved"
    notes = [
        event["data"]
        for event in installation.entries(doors.cluster).values()
        if event["metadata"]["event_type"] == "Node Note Recorded" and event["metadata"]["case_id"] == doors.case
    ]
    assert [note["kind"] for note in notes if "approved" in note["text"]] == ["approval"]
    (case,) = (case for case in installation.cases(doors.cluster) if case.id == doors.case)
    assert case.status is CaseStatus.RESOLVED
    assert not installation.states(doors.cluster)["node-000"].unverified


def test_a_repair_that_a_person_denied_is_the_persons(installation: Installation, doors: Doors) -> None:
    assert doors.answers["deny"]["answer"] == "denied"
    (case,) = (case for case in installation.cases(doors.cluster) if case.id == doors.denied)
    assert case.status is CaseStatus.ESCALATED


def test_the_api_turns_pages_that_nobody_else_can_ask_for(doors: Doors) -> None:
    assert len(doors.answers["next page"]["items"]) == 1
    assert doors.cluster in {one["cluster"] for one in doors.answers["/clusters"]["items"]}


def test_every_cluster_is_anchored_once_an_hour_and_its_day_is_sealed(installation: Installation, doors: Doors) -> None:
    assert [kept["failures"] for kept in doors.kept] == [[], [], []]
    # The schedule may have been there first, so the record is asked and not the answer.
    data = [event["data"] for event in installation.entries(doors.cluster).values()]
    anchors = [one["facts"]["anchor"] for one in data if one.get("kind") == "anchor"]
    assert anchors
    assert len(anchors) == len(set(anchors))
    assert sealed_up_to(installation.application.ports.table, keys.cluster_partition(doors.cluster)) is not None
