"""Inputs other than the queue: CloudWatch Logs, webhooks, the API, the archive."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from faultbridge.model.enums import CaseStatus
from faultbridge.model.storage import keys
from faultbridge.record.archive.seal import sealed_head
from tests.e2e.harness.installation import Installation
from tests.e2e.scenarios.inputs import OtherInputs

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]


def test_a_log_event_of_cloudwatch_is_assigned_to_the_node_of_its_instance(other_inputs: OtherInputs) -> None:
    assert other_inputs.codes == ["xid.48"]


def test_an_alert_that_a_sender_with_a_token_posts_has_an_outcome(
    installation: Installation, other_inputs: OtherInputs
) -> None:
    since = datetime.now(UTC) - timedelta(hours=1)
    installation.wait_for_outcomes([other_inputs.posted], since)
    assert set(installation.outcomes(since)[other_inputs.posted]) == {"recorded"}


def test_an_approved_repair_completes_and_the_approval_is_recorded(
    installation: Installation, other_inputs: OtherInputs
) -> None:
    assert other_inputs.answers["approve"]["answer"] == "approved"
    notes = [
        event["data"]
        for event in installation.entries(other_inputs.cluster).values()
        if event["metadata"]["event_type"] == "Node Note Recorded" and event["metadata"]["case_id"] == other_inputs.case
    ]
    assert [note["kind"] for note in notes if "approved" in note["text"]] == ["approval"]
    (case,) = (case for case in installation.cases(other_inputs.cluster) if case.id == other_inputs.case)
    assert case.status is CaseStatus.RESOLVED
    assert not installation.states(other_inputs.cluster)["node-000"].unverified


def test_a_denied_repair_is_escalated(installation: Installation, other_inputs: OtherInputs) -> None:
    assert other_inputs.answers["deny"]["answer"] == "denied"
    (case,) = (case for case in installation.cases(other_inputs.cluster) if case.id == other_inputs.denied)
    assert case.status is CaseStatus.ESCALATED


def test_the_api_returns_pages_by_token(other_inputs: OtherInputs) -> None:
    assert len(other_inputs.answers["next page"]["items"]) == 1
    assert other_inputs.cluster in {one["cluster"] for one in other_inputs.answers["/clusters"]["items"]}


def test_the_console_shows_the_fleet_and_a_case_that_waits_for_an_approval(other_inputs: OtherInputs) -> None:
    fleet, case = other_inputs.pages.values()
    assert other_inputs.cluster in fleet
    assert "Why is this not repaired yet?" in case
    assert f"faultbridge case approve {other_inputs.case}" in re.sub(r"<[^>]+>", "", case)


def test_every_cluster_is_anchored_once_an_hour_and_its_day_is_sealed(
    installation: Installation, other_inputs: OtherInputs
) -> None:
    assert [run["failures"] for run in other_inputs.archived] == [[], [], []]
    # A scheduled run may have written the anchor first, so the test reads the entries instead of the answer.
    data = [event["data"] for event in installation.entries(other_inputs.cluster).values()]
    anchors = [one["facts"]["anchor"] for one in data if one.get("kind") == "anchor"]
    assert anchors
    assert len(anchors) == len(set(anchors))
    assert sealed_head(installation.application.ports.table, keys.cluster_partition(other_inputs.cluster)) is not None
