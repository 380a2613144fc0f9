"""Verification by DCGM diagnostics over SSM: the verdict for each command status and report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from faultbridge.adapters.ec2.dcgm_verifier import OUTPUT_CHARACTERS, OutputBucket, SsmDcgmVerifier
from faultbridge.adapters.ec2.instances import InstanceHardware, hardware_of
from faultbridge.decode.dcgm.diag import read_report
from faultbridge.decode.verification import IDLE, MARKER, GpuProcesses
from faultbridge.model.errors import Misconfigured, Transient, Unverifiable
from faultbridge.record.ports.compute import Verdict, Verification
from tests.adapters.stubs import failing, stubbed
from tests.sim.fakes import FakeObjects

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


def verdict(
    output: str,
    *,
    status: str = "Success",
    details: str = "Success",
    level: int = 3,
    kept: OutputBucket | None = None,
    url: str = "",
) -> Verification:
    answer = {
        "CommandId": COMMAND, "InstanceId": INSTANCE, "Status": status, "StatusDetails": details,
        "StandardOutputContent": output, "StandardOutputUrl": url,
    }  # fmt: skip
    with stubbed("ssm") as (clients, stub):
        stub.add_response("get_command_invocation", answer, {"CommandId": COMMAND, "InstanceId": INSTANCE})
        verifier = SsmDcgmVerifier(clients, level=level, timeout_seconds=60, read_report=read_report, output=kept)
        return verifier.status(INSTANCE, COMMAND)


class TestVerdict:
    def test_passed_hardware_tests_give_passed(self) -> None:
        assert verdict(report(SOFTWARE, MEMORY)).verdict is Verdict.PASSED

    def test_the_gpus_in_the_report_are_counted(self) -> None:
        seven = [ran("memory", "Pass", gpu=number) for number in range(7)]
        assert verdict(report(SOFTWARE, *seven)).gpus == 7

    def test_one_hardware_failure_gives_failed_with_its_reason(self) -> None:
        found = verdict(report(SOFTWARE, MEMORY, BAD_MEMORY), status="Failed", details="Failed")
        assert found.verdict is Verdict.FAILED
        assert [("memory" in line, "bad memory" in line) for line in found.findings] == [(True, True)]

    def test_a_wrong_setting_is_not_a_hardware_failure(self) -> None:
        found = verdict(report(PERSISTENCE, MEMORY), status="Failed", details="Failed")
        assert found.verdict is Verdict.PASSED
        assert len(found.findings) == 1

    @pytest.mark.parametrize("tests", [(SKIPPED,), (SOFTWARE, SKIPPED), (PERSISTENCE, SKIPPED), (SOFTWARE,), ()])
    def test_a_report_without_hardware_tests_is_unknown(self, tests: tuple[Any, ...]) -> None:
        assert verdict(report(*tests)).verdict is Verdict.UNKNOWN

    def test_level_one_can_pass_with_deployment_checks_only(self) -> None:
        assert verdict(report(SOFTWARE), level=1).verdict is Verdict.PASSED
        assert verdict(report(PERSISTENCE), level=1).verdict is Verdict.UNKNOWN

    def test_a_device_with_only_skipped_tests_prevents_passed(self) -> None:
        assert verdict(report(MEMORY, ran("memory", "Skip", gpu=7))).verdict is Verdict.UNKNOWN
        proven = report(MEMORY, ran("memory", "Skip", gpu=7), ran("pcie", "Pass", gpu=7))
        assert verdict(proven).verdict is Verdict.PASSED

    def test_a_report_overrides_the_exit_code(self) -> None:
        assert verdict(report(SOFTWARE, MEMORY), status="Failed", details="Failed").verdict is Verdict.PASSED

    @pytest.mark.parametrize("text", ["", "dcgmi: command not found", '{"DCGM Diagnostic": {"test_ca'])
    def test_a_missing_report_is_unknown_and_not_failed(self, text: str) -> None:
        found = verdict(text, status="Failed", details="Failed")
        assert found.verdict is Verdict.UNKNOWN
        assert found.report == text.encode()

    def test_text_before_the_report_is_skipped(self) -> None:
        assert verdict("Successfully ran diagnostic.\n" + report(MEMORY)).verdict is Verdict.PASSED


class TestOccupied:
    def test_processes_on_the_gpus_are_no_result_of_the_hardware(self) -> None:
        found = verdict(f"{MARKER}\n4711, python3\n{report(BAD_MEMORY)}")
        assert (found.verdict, found.findings) == (Verdict.OCCUPIED, ("process 4711 uses a GPU: python3",))

    def test_a_marker_after_the_start_of_a_report_is_not_occupied(self) -> None:
        assert verdict(f"{report(MEMORY)}\n{MARKER}\n4711, python3\n").verdict is Verdict.PASSED

    @pytest.mark.parametrize("prove_idle", [False, True])
    def test_the_check_comes_before_the_diagnostics_and_knows_whether_the_idle_node_has_to_be_proven(
        self, prove_idle: bool
    ) -> None:
        sent: dict[str, Any] = {}
        processes = GpuProcesses({"dcgm-exporter"})
        with stubbed("ssm") as (clients, stub), stubbed("ssm_no_retry") as (_, sending):
            stub.add_response("list_commands", {"Commands": []})
            sending.add_response("send_command", {"Command": {"CommandId": COMMAND}})
            clients.ssm_no_retry.meta.events.register_first(
                "provide-client-params.ssm.SendCommand", lambda params, **_: sent.update(params["Parameters"])
            )
            verifier = SsmDcgmVerifier(
                clients, level=3, timeout_seconds=60, read_report=read_report, processes=processes
            )
            verifier.start(INSTANCE, "token", prove_idle=prove_idle)
        assert sent["commands"] == [*processes.script(prove_idle=prove_idle), "dcgmi diag -r 3 -j"]


class TestProcesses:
    """A look at the processes alone, in a command of its own."""

    def look(self, output: str | None = None, *, sent: dict[str, Any] | None = None, error: str = "") -> Verification:
        """Look for the first time, or (with `output`) after the command ended with this output."""
        listed = [] if output is None else [{"CommandId": COMMAND, "Comment": "c-1-2 processes"}]
        with stubbed("ssm") as (clients, stub), stubbed("ssm_no_retry") as (_, sending):
            stub.add_response("list_commands", {"Commands": listed})
            if error:
                sending.add_client_error("send_command", error)
            elif output is None:
                sending.add_response("send_command", {"Command": {"CommandId": COMMAND}})
                clients.ssm_no_retry.meta.events.register_first(
                    "provide-client-params.ssm.SendCommand", lambda params, **_: (sent or {}).update(params)
                )
            else:
                answer = {"Status": "Success", "StatusDetails": "Success", "StandardOutputContent": output}
                stub.add_response("get_command_invocation", answer)
            verifier = SsmDcgmVerifier(clients, level=3, timeout_seconds=60, read_report=read_report)
            return verifier.processes(INSTANCE, "c-1-2")

    def test_the_first_look_sends_a_command_that_runs_no_diagnostics(self) -> None:
        sent: dict[str, Any] = {"empty": False}
        assert self.look(sent=sent).verdict is Verdict.PENDING
        assert sent["Comment"] == "c-1-2 processes"
        script = "\n".join(sent["Parameters"]["commands"])
        assert "--query-compute-apps" in script
        assert "dcgmi" not in script

    @pytest.mark.parametrize(
        ("output", "found"),
        [
            (f"{IDLE}\n", Verdict.PASSED),
            (f"{MARKER}\n4711, python3\n", Verdict.OCCUPIED),
            (f"{MARKER}\nNVML: Driver/library version mismatch\n", Verdict.OCCUPIED),
            (f"{MARKER}\n\n", Verdict.OCCUPIED),
            ("", Verdict.UNKNOWN),
            (f"4711, python3\n{IDLE}\n", Verdict.UNKNOWN),
        ],
    )
    def test_only_a_complete_look_without_a_process_shows_an_idle_instance(self, output: str, found: Verdict) -> None:
        assert self.look(output).verdict is found

    def test_an_instance_whose_agent_ssm_does_not_know_does_not_answer(self) -> None:
        assert self.look(error="InvalidInstanceId").verdict is Verdict.UNKNOWN

    def test_a_refused_command_is_an_error_and_not_an_idle_instance(self) -> None:
        with pytest.raises(Misconfigured):
            self.look(error="AccessDeniedException")


class TestUnfinishedCommands:
    @pytest.mark.parametrize("status", ["Pending", "InProgress", "Delayed", "Cancelling"])
    def test_a_running_command_is_pending(self, status: str) -> None:
        assert verdict("", status=status, details=status) == Verification(Verdict.PENDING)

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
    def test_a_command_that_did_not_run_to_completion_is_unknown(self, status: str, details: str) -> None:
        found = verdict(report(BAD_MEMORY), status=status, details=details)
        assert found.verdict is Verdict.UNKNOWN
        assert found.findings

    def test_a_command_that_ssm_does_not_list_is_unknown(self) -> None:
        with stubbed("ssm") as (clients, stub):
            stub.add_client_error("get_command_invocation", "InvocationDoesNotExist")
            verifier = SsmDcgmVerifier(clients, level=3, timeout_seconds=60, read_report=read_report)
            assert verifier.status(INSTANCE, COMMAND).verdict is Verdict.UNKNOWN


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
    def test_truncated_output_is_read_from_the_bucket(self, whole: str, url: str) -> None:
        objects = FakeObjects()
        key = f"verify/{COMMAND}/{INSTANCE}/awsrunShellScript/0.awsrunShellScript/stdout"
        objects.put(key, whole.encode())
        found = verdict(whole[:OUTPUT_CHARACTERS], kept=OutputBucket("bucket", "verify", objects), url=url)
        assert found.verdict is Verdict.PASSED
        assert found.report == whole.encode()

    def test_truncated_output_without_a_stored_copy_is_unknown(self, whole: str) -> None:
        assert verdict(whole[:OUTPUT_CHARACTERS]).verdict is Verdict.UNKNOWN
        assert verdict(whole[:OUTPUT_CHARACTERS], kept=OutputBucket("b", "p", FakeObjects())).verdict is Verdict.UNKNOWN

    def test_short_output_needs_no_bucket(self) -> None:
        objects = FakeObjects()
        assert verdict(report(MEMORY), kept=OutputBucket("bucket", "verify", objects)).verdict is Verdict.PASSED
        assert objects.seam.calls == []


class TestStart:
    def start(self, answer: str | dict[str, Any], kept: OutputBucket | None = None) -> str:
        expected: dict[str, Any] = {
            "InstanceIds": [INSTANCE],
            "DocumentName": "AWS-RunShellScript",
            "Comment": "token",
            "TimeoutSeconds": 600,
            "Parameters": {"commands": [*GpuProcesses().script(), "dcgmi diag -r 3 -j"], "executionTimeout": ["5400"]},
        }
        if kept:
            expected |= {"OutputS3BucketName": kept.bucket, "OutputS3KeyPrefix": kept.prefix}
        with stubbed("ssm") as (clients, stub), stubbed("ssm_no_retry") as (_, sending):
            stub.add_response("list_commands", {"Commands": [{"CommandId": COMMAND[::-1], "Comment": "other"}]})
            if isinstance(answer, str):
                sending.add_client_error("send_command", answer)
            else:
                sending.add_response("send_command", answer, expected)
            verifier = SsmDcgmVerifier(clients, level=3, timeout_seconds=5400, read_report=read_report, output=kept)
            return verifier.start(INSTANCE, "token")

    def test_diagnostics_run_at_the_configured_level_and_time_limit(self) -> None:
        assert self.start({"Command": {"CommandId": COMMAND}}) == COMMAND

    def test_the_output_is_stored_when_a_bucket_is_configured(self) -> None:
        kept = OutputBucket("bucket", "verify", FakeObjects())
        assert self.start({"Command": {"CommandId": COMMAND}}, kept) == COMMAND

    def test_an_ssm_agent_that_is_not_registered_yet_is_transient(self) -> None:
        with pytest.raises(Transient, match="SSM"):
            self.start("InvalidInstanceId")

    def test_an_instance_that_ssm_does_not_list_yet_is_verified_once_it_registers(self) -> None:
        with stubbed("ssm") as (clients, stub), stubbed("ssm_no_retry") as (_, sending):
            stub.add_client_error("list_commands", "InvalidInstanceId")
            sending.add_response("send_command", {"Command": {"CommandId": COMMAND}})
            verifier = SsmDcgmVerifier(clients, level=3, timeout_seconds=5400, read_report=read_report)
            assert verifier.start(INSTANCE, "token") == COMMAND

    def test_a_missing_permission_is_misconfigured(self) -> None:
        with pytest.raises(Misconfigured):
            self.start("AccessDeniedException")

    def test_a_command_whose_response_is_lost_is_not_sent_again_by_the_client(self) -> None:
        requests: list[Any] = []
        lost = ReadTimeoutError(endpoint_url="https://ssm")
        with stubbed("ssm") as (_, stub), failing("ssm_no_retry", lost, requests) as clients:
            stub.add_response("list_commands", {"Commands": []})
            verifier = SsmDcgmVerifier(clients, level=3, timeout_seconds=5400, read_report=read_report)
            with pytest.raises(Transient):
                verifier.start(INSTANCE, "token")
        assert len(requests) == 1


REAL = {
    "dcgm-diag-v4__gb10-level2-plugins-allowed-real.json": Verdict.PASSED,
    "dcgm-diag-v4__gb10-level2-plugins-gated-real.json": Verdict.UNKNOWN,
    "dcgm-diag-v4__gb10-level2-partial-skip-real.json": Verdict.UNKNOWN,
    "dcgm-diag-v3__nvvs-ecc-disabled-skip-4gpu.json": Verdict.FAILED,
    "dcgm-diag-v3__gcm-dcgmi-exit205-but-pass.json": Verdict.UNKNOWN,
}


@pytest.mark.parametrize("name", sorted(REAL))
def test_real_reports_have_the_expected_verdict(shared: Path, name: str) -> None:
    assert verdict((shared / "samples" / name).read_text(), status="Failed", details="Failed").verdict is REAL[name]


@dataclass(frozen=True)
class FurtherResult:
    passed: bool | None
    line: str


@dataclass(frozen=True)
class FurtherTests:
    """Further tests from level 4 on, with these results for an instance type."""

    results: tuple[FurtherResult, ...]
    instance_type: str | None = "p5.48xlarge"
    efa_interfaces: int | None = 2

    def script(self, level: int) -> Sequence[str]:
        return ("further",) if level >= 4 else ()

    def seconds(self, level: int) -> int:
        return 900 if level >= 4 else 0

    def refusal(self, instance_type: str) -> str:
        return "" if instance_type == self.instance_type else f"no thresholds for {instance_type}"

    def read(
        self, output: bytes, level: int, instance_type: str | None, efa_interfaces: int | None
    ) -> tuple[bytes, Sequence[FurtherResult]]:
        assert (level, instance_type, efa_interfaces) == (4, self.instance_type, self.efa_interfaces)
        return output.partition(b"#")[0], self.results


GOOD, BAD = FurtherResult(True, "nccl passed: 470 GB/s"), FurtherResult(False, "efa failed: 31 of 32")
MISSING = FurtherResult(None, "efa not verified: its tool is not installed")


INTERFACES = [{"InterfaceType": kind} for kind in ("interface", "efa", "efa-only")]


def described(instance_type: str | None) -> dict[str, Any]:
    """Return the answer of EC2; None is an instance that it does not list."""
    instance = {"InstanceId": INSTANCE, "InstanceType": instance_type, "NetworkInterfaces": INTERFACES}
    return {"Reservations": [{"Instances": [instance] if instance_type else []}]}


def deep_verdict(output: str, further: FurtherTests, level: int = 4) -> Verification:
    answer = {
        "CommandId": COMMAND, "InstanceId": INSTANCE, "Status": "Success", "StatusDetails": "Success",
        "StandardOutputContent": output, "StandardOutputUrl": "",
    }  # fmt: skip
    with stubbed("ssm") as (clients, ssm), stubbed("ec2") as (typed, ec2):
        clients.ec2 = typed.ec2
        ssm.add_response("get_command_invocation", answer)
        if level >= 4:
            ec2.add_response("describe_instances", described(further.instance_type))
        verifier = SsmDcgmVerifier(clients, level=3, timeout_seconds=60, read_report=read_report, deep=further)
        return verifier.status(INSTANCE, COMMAND, level)


@pytest.mark.parametrize(
    ("output", "results", "expected", "findings"),
    [
        (report(MEMORY), (GOOD, GOOD), Verdict.PASSED, (GOOD.line, GOOD.line)),
        (report(MEMORY), (GOOD, BAD), Verdict.FAILED, (BAD.line,)),
        (report(MEMORY), (GOOD, MISSING), Verdict.UNKNOWN, (MISSING.line,)),
        (report(MEMORY), (BAD, MISSING), Verdict.FAILED, (BAD.line, MISSING.line)),
        (report(SKIPPED), (GOOD, GOOD), Verdict.UNKNOWN, ()),
    ],
)
def test_an_instance_passes_only_if_each_further_test_passed(
    output: str, results: tuple[FurtherResult, ...], expected: Verdict, findings: tuple[str, ...]
) -> None:
    found = deep_verdict(f"{output}# further", FurtherTests(results))
    assert (found.verdict, found.findings) == (expected, findings)


def test_bad_memory_fails_whatever_the_further_tests_show() -> None:
    assert deep_verdict(f"{report(BAD_MEMORY)}# further", FurtherTests((GOOD,))).verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("results", "expected", "lines"),
    [((GOOD, BAD), Verdict.FAILED, (BAD.line,)), ((GOOD, MISSING), Verdict.UNKNOWN, (MISSING.line,))],
)
def test_without_a_report_a_failure_of_a_further_test_still_counts(
    results: tuple[FurtherResult, ...], expected: Verdict, lines: tuple[str, ...]
) -> None:
    found = deep_verdict("dcgmi: not found# further", FurtherTests(results))
    assert (found.verdict, found.findings[1:]) == (expected, lines)
    assert found.findings[0].startswith("no report: ")


def test_without_a_report_the_further_tests_verify_nothing() -> None:
    assert deep_verdict("dcgmi: not found# further", FurtherTests((GOOD,))).verdict is Verdict.UNKNOWN


def test_an_instance_that_ec2_does_not_list_has_no_type() -> None:
    further = FurtherTests((MISSING,), None, None)
    assert deep_verdict(f"{report(MEMORY)}#", further).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("code", ["InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"])
def test_an_instance_id_that_ec2_refuses_has_no_type_and_no_interfaces(code: str) -> None:
    with stubbed("ec2") as (clients, ec2):
        ec2.add_client_error("describe_instances", code)
        assert hardware_of(clients, INSTANCE) == InstanceHardware(None, None)


def test_without_a_list_of_interfaces_their_number_is_unknown() -> None:
    with stubbed("ec2") as (clients, ec2):
        instance = {"InstanceId": INSTANCE, "InstanceType": "p5.48xlarge"}
        ec2.add_response("describe_instances", {"Reservations": [{"Instances": [instance]}]})
        assert hardware_of(clients, INSTANCE) == InstanceHardware("p5.48xlarge", None)


def test_an_instance_that_may_not_be_read_is_misconfigured() -> None:
    with stubbed("ec2") as (clients, ec2):
        ec2.add_client_error("describe_instances", "UnauthorizedOperation")
        with pytest.raises(Misconfigured):
            hardware_of(clients, INSTANCE)


def start_deep(instance_type: str | None, *, sends: bool, level: int = 4) -> str:
    with stubbed("ssm") as (clients, ssm), stubbed("ssm_no_retry") as (_, sending), stubbed("ec2") as (typed, ec2):
        clients.ec2 = typed.ec2
        ssm.add_response("list_commands", {"Commands": []})
        if level >= 4:
            ec2.add_response("describe_instances", described(instance_type))
        if sends:
            sending.add_response("send_command", {"Command": {"CommandId": COMMAND}})
        verifier = SsmDcgmVerifier(
            clients, level=3, timeout_seconds=60, read_report=read_report, deep=FurtherTests((GOOD,))
        )
        return verifier.start(INSTANCE, "token", level)


def test_a_type_without_thresholds_is_refused_before_the_diagnostics_run() -> None:
    with pytest.raises(Unverifiable, match=f"{INSTANCE} cannot be verified at level 4: no thresholds for g5.48xlarge"):
        start_deep("g5.48xlarge", sends=False)


@pytest.mark.parametrize(("instance_type", "level"), [("p5.48xlarge", 4), (None, 4), ("g5.48xlarge", 3)])
def test_a_listed_or_unknown_type_and_a_lower_level_are_not_refused(instance_type: str | None, level: int) -> None:
    assert start_deep(instance_type, sends=True, level=level) == COMMAND


def test_below_their_level_the_further_tests_neither_run_nor_count() -> None:
    assert deep_verdict(report(MEMORY), FurtherTests((BAD,)), level=3).verdict is Verdict.PASSED


@pytest.mark.parametrize(("level", "lines", "seconds"), [(3, 4, "60"), (4, 5, "960")])
def test_the_further_tests_are_part_of_the_command_and_of_its_time(level: int, lines: int, seconds: str) -> None:
    sent: dict[str, Any] = {}
    with stubbed("ssm") as (clients, stub), stubbed("ssm_no_retry") as (_, sending), stubbed("ec2") as (typed, ec2):
        clients.ec2 = typed.ec2
        if level >= 4:
            ec2.add_response("describe_instances", described("p5.48xlarge"))
        stub.add_response("list_commands", {"Commands": []})
        sending.add_response("send_command", {"Command": {"CommandId": COMMAND}})
        clients.ssm_no_retry.meta.events.register_first(
            "provide-client-params.ssm.SendCommand", lambda params, **_: sent.update(params["Parameters"])
        )
        verifier = SsmDcgmVerifier(
            clients, level=3, timeout_seconds=60, read_report=read_report, deep=FurtherTests((GOOD,))
        )
        assert verifier.start(INSTANCE, "token", level) == COMMAND
    assert (len(sent["commands"]), sent["executionTimeout"]) == (lines, [seconds])
