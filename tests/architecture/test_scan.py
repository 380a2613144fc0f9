"""Findings of the scanner are compared with the waivers: each accepted finding has a reason, no waiver is left over."""

from __future__ import annotations

import json

from infra.scan import WAIVERS, Finding, Waiver, read_findings, read_waivers, violations

LOGGING = Finding("CKV_AWS_18", "RawBucket", "Ensure the S3 bucket has access logging enabled")
VERSIONS = Finding("CKV_AWS_21", "RawBucket", "Ensure the S3 bucket has versioning enabled")
WAIVED = Waiver("CKV_AWS_18", ("*Bucket",), "nobody reads the logs")


def test_a_finding_without_a_waiver_is_a_violation() -> None:
    assert violations([LOGGING, VERSIONS], [WAIVED]) == [
        "CKV_AWS_21 RawBucket: Ensure the S3 bucket has versioning enabled"
    ]


def test_a_waiver_covers_only_the_resources_that_it_names() -> None:
    topic = LOGGING._replace(resource="UrgentTopic")
    assert [line.split(":")[0] for line in violations([LOGGING, topic], [WAIVED])] == ["CKV_AWS_18 UrgentTopic"]


def test_a_waiver_that_no_finding_needs_is_a_violation() -> None:
    assert violations([], [WAIVED]) == ["CKV_AWS_18: no finding needs this waiver; remove it from waivers.yaml"]


def test_findings_are_read_from_the_report_by_logical_id() -> None:
    failed = {"check_id": LOGGING.check, "resource": "AWS::S3::Bucket.RawBucket", "check_name": LOGGING.name}
    assert read_findings(json.dumps({"results": {"failed_checks": [failed]}})) == (LOGGING,)


def test_each_waiver_names_its_check_its_resources_and_a_reason() -> None:
    for waiver in read_waivers(WAIVERS.read_text(encoding="utf-8")):
        assert waiver.check.startswith("CKV")
        assert waiver.resources
        assert len(waiver.reason.split()) > 5, waiver
