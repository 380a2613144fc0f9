"""Verification by DCGM diagnostics over SSM: what each end of a command and each report comes to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faultbridge.adapters.verifiers.ssm_dcgm import OUTPUT_CHARACTERS, Output, SsmDcgmVerifier
from faultbridge.decoders.dcgm_diag import read_report
from faultbridge.errors import Misconfigured, Transient
from faultbridge.ports import Verdict, Verification
from faultbridge.simulation.fakes import FakeObjects
from tests.adapters.stubs import stubbed

INSTANCE = "i-0123456789abcdef0"
COMMAND = "01234567-89ab-cdef-0123-456789abcdef"


def ran(
    name: str, status: str, *, category: str = "Hardware", gpu: int = 0, **warning: Any
) -> tuple[str, dict[str, Any]]:
    result: dict[str, Any] = {"entity_group": "GPU", "entity_id": gpu, "status": status}
    if warning:
        result["warnings"] = [warning]
    return category, {"name": name, "results": [result]}


def report(*tests: tuple[str, dict[str, Any]]) -> str:
    categories = [{"category": category, "tests": [each]} for category, each in tests]
    return json.dumps({"DCGM Diagnostic": {"test_categories": categories}})


SOFTWARE = ran("software", "Pass", category="Deployment")
PERSISTENCE = ran(
    "software", "Fail", category="Deployment",
    warning="Persistence mode for GPU 0 is disabled.", error_id=29, error_category=8, error_severity=5,
)  # fmt: skip
MEMORY = ran("memory", "Pass")
BAD_MEMORY = ran("memory", "Fail", warning="GPU 0 has bad memory", error_id=51, error_category=4, error_severity=2)
SKIPPED = ran("memory", "Skip")


def look(
    output: str,
    *,
    status: str = "Success",
    details: str = "Success",
    level: int = 3,
    kept: Output | None = None,
    url: str = "",
) -> Verification:
    answer = {
        "CommandId": COMMAND, "InstanceId": INSTANCE, "Status": status, "StatusDetails": details,
        "StandardOutputContent": output, "StandardOutputUrl": url,
    }  # fmt: skip
    with stubbed("ssm") as (clients, stub):
        stub.add_response("get_command_invocation", answer, {"CommandId": COMMAND, "InstanceId": INSTANCE})
        verifier = SsmDcgmVerifier(clients, level=level, timeout_seconds=60, read_report=read_report, output=kept)
        return verifier.look(INSTANCE, COMMAND)


class TestJudging:
    def test_hardware_tests_that_passed_are_a_pass(self) -> None:
        assert look(report(SOFTWARE, MEMORY)).verdict is Verdict.PASSED

    def test_the_gpus_that_the_report_names_are_counted(self) -> None:
        seven = [ran("memory", "Pass", gpu=number) for number in range(7)]
        assert look(report(SOFTWARE, *seven)).gpus == 7

    def test_one_hardware_failure_fails_and_says_why(self) -> None:
        found = look(report(SOFTWARE, MEMORY, BAD_MEMORY), status="Failed", details="Failed")
        assert found.verdict is Verdict.FAILED
        assert [("memory" in line, "bad memory" in line) for line in found.findings] == [(True, True)]

    def test_a_setting_that_is_wrong_is_no_hardware_failure(self) -> None:
        found = look(report(PERSISTENCE, MEMORY), status="Failed", details="Failed")
        assert found.verdict is Verdict.PASSED
        assert len(found.findings) == 1

    @pytest.mark.parametrize("tests", [(SKIPPED,), (SOFTWARE, SKIPPED), (PERSISTENCE, SKIPPED), (SOFTWARE,), ()])
    def test_what_tested_no_hardware_proves_nothing(self, tests: tuple[Any, ...]) -> None:
        assert look(report(*tests)).verdict is Verdict.UNKNOWN

    def test_level_one_tests_the_deployment_only_and_may_pass_by_it(self) -> None:
        assert look(report(SOFTWARE), level=1).verdict is Verdict.PASSED
        assert look(report(PERSISTENCE), level=1).verdict is Verdict.UNKNOWN

    def test_a_device_on_which_everything_was_skipped_is_not_proven_by_its_neighbours(self) -> None:
        assert look(report(MEMORY, ran("memory", "Skip", gpu=7))).verdict is Verdict.UNKNOWN
        proven = report(MEMORY, ran("memory", "Skip", gpu=7), ran("pcie", "Pass", gpu=7))
        assert look(proven).verdict is Verdict.PASSED

    def test_an_odd_exit_code_counts_for_nothing_beside_a_report(self) -> None:
        assert look(report(SOFTWARE, MEMORY), status="Failed", details="Failed").verdict is Verdict.PASSED

    @pytest.mark.parametrize("text", ["", "dcgmi: command not found", '{"DCGM Diagnostic": {"test_ca'])
    def test_no_report_is_unknown_and_not_failed(self, text: str) -> None:
        found = look(text, status="Failed", details="Failed")
        assert found.verdict is Verdict.UNKNOWN
        assert found.report == text.encode()

    def test_a_banner_before_the_report_is_passed_over(self) -> None:
        assert look("Successfully ran diagnostic.\n" + report(MEMORY)).verdict is Verdict.PASSED


class TestCommandsThatDidNotEnd:
    @pytest.mark.parametrize("status", ["Pending", "InProgress", "Delayed", "Cancelling"])
    def test_a_command_on_its_way_is_pending(self, status: str) -> None:
        assert look("", status=status, details=status) == Verification(Verdict.PENDING)

    @pytest.mark.parametrize(
        ("status", "details"),
        [
            ("TimedOut", "Delivery Timed Out"),
            ("TimedOut", "Execution Timed Out"),
            ("Failed", "Undeliverable"),
            ("Failed", "Terminated"),
            ("Cancelled", "Cancelled"),
        ],
    )
    def test_a_command_that_never_came_to_its_end_is_unknown(self, status: str, details: str) -> None:
        found = look(report(BAD_MEMORY), status=status, details=details)
        assert found.verdict is Verdict.UNKNOWN
        assert found.findings

    def test_a_command_that_nobody_knows_is_unknown(self) -> None:
        with stubbed("ssm") as (clients, stub):
            stub.add_client_error("get_command_invocation", "InvocationDoesNotExist")
            verifier = SsmDcgmVerifier(clients, level=3, timeout_seconds=60, read_report=read_report)
            assert verifier.look(INSTANCE, COMMAND).verdict is Verdict.UNKNOWN


class TestLongOutput:
    @pytest.fixture
    def whole(self) -> str:
        return report(SOFTWARE, *[MEMORY] * 400)

    @pytest.mark.parametrize(
        "url",
        [
            f"https://s3.us-east-1.amazonaws.com/bucket/verify/{COMMAND}/{INSTANCE}/awsrunShellScript/"
            "0.awsrunShellScript/stdout",
            "",
        ],
    )
    def test_output_that_was_cut_is_read_from_the_bucket(self, whole: str, url: str) -> None:
        objects = FakeObjects()
        key = f"verify/{COMMAND}/{INSTANCE}/awsrunShellScript/0.awsrunShellScript/stdout"
        objects.put(key, whole.encode())
        found = look(whole[:OUTPUT_CHARACTERS], kept=Output("bucket", "verify", objects), url=url)
        assert found.verdict is Verdict.PASSED
        assert found.report == whole.encode()

    def test_output_that_was_cut_and_kept_nowhere_is_unknown(self, whole: str) -> None:
        assert look(whole[:OUTPUT_CHARACTERS]).verdict is Verdict.UNKNOWN
        assert look(whole[:OUTPUT_CHARACTERS], kept=Output("b", "p", FakeObjects())).verdict is Verdict.UNKNOWN

    def test_short_output_needs_no_bucket(self) -> None:
        objects = FakeObjects()
        assert look(report(MEMORY), kept=Output("bucket", "verify", objects)).verdict is Verdict.PASSED
        assert objects.seam.calls == []


class TestBeginning:
    def begin(self, answer: str | dict[str, Any], kept: Output | None = None) -> str:
        expected: dict[str, Any] = {
            "InstanceIds": [INSTANCE],
            "DocumentName": "AWS-RunShellScript",
            "Comment": "token",
            "TimeoutSeconds": 600,
            "Parameters": {"commands": ["dcgmi diag -r 3 -j"], "executionTimeout": ["5400"]},
        }
        if kept:
            expected |= {"OutputS3BucketName": kept.bucket, "OutputS3KeyPrefix": kept.prefix}
        with stubbed("ssm") as (clients, stub):
            stub.add_response("list_commands", {"Commands": [{"CommandId": COMMAND[::-1], "Comment": "other"}]})
            if isinstance(answer, str):
                stub.add_client_error("send_command", answer)
            else:
                stub.add_response("send_command", answer, expected)
            verifier = SsmDcgmVerifier(clients, level=3, timeout_seconds=5400, read_report=read_report, output=kept)
            return verifier.begin(INSTANCE, "token")

    def test_the_diagnostics_run_at_the_level_within_the_time_that_was_set(self) -> None:
        assert self.begin({"Command": {"CommandId": COMMAND}}) == COMMAND

    def test_the_whole_output_is_kept_where_there_is_a_bucket(self) -> None:
        kept = Output("bucket", "verify", FakeObjects())
        assert self.begin({"Command": {"CommandId": COMMAND}}, kept) == COMMAND

    def test_an_agent_that_is_not_up_yet_may_come_up(self) -> None:
        with pytest.raises(Transient, match="SSM"):
            self.begin("InvalidInstanceId")

    def test_a_missing_right_needs_a_person(self) -> None:
        with pytest.raises(Misconfigured):
            self.begin("AccessDeniedException")


REAL = {
    "dcgm-diag-v4__gb10-level2-plugins-allowed-real.json": Verdict.PASSED,
    "dcgm-diag-v4__gb10-level2-plugins-gated-real.json": Verdict.UNKNOWN,
    "dcgm-diag-v4__gb10-level2-partial-skip-real.json": Verdict.UNKNOWN,
    "dcgm-diag-v3__nvvs-ecc-disabled-skip-4gpu.json": Verdict.FAILED,
    "dcgm-diag-v3__gcm-dcgmi-exit205-but-pass.json": Verdict.UNKNOWN,
}


@pytest.mark.parametrize("name", sorted(REAL))
def test_real_reports_come_to_what_they_prove(shared: Path, name: str) -> None:
    assert look((shared / "samples" / name).read_text(), status="Failed", details="Failed").verdict is REAL[name]
