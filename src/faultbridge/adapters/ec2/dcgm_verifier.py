"""Verify an instance through SSM, by the reports of `dcgmi diag` and of further tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError
from msgspec import Struct

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import code_of, translated
from faultbridge.adapters.ec2 import commands
from faultbridge.adapters.ec2.commands import OUTPUT_CHARACTERS, RUNNING, UNFINISHED
from faultbridge.adapters.ec2.instances import hardware_of
from faultbridge.decode.dcgm.diag import TestResult
from faultbridge.decode.verification import IDLE, NONE_IGNORED, DeepChecks, DeepResult, GpuProcesses, occupants
from faultbridge.model.errors import Rejected, Transient, Unverifiable
from faultbridge.model.fault_enums import ComponentType
from faultbridge.record.ports.compute import Verdict, Verification
from faultbridge.record.ports.objects import ObjectStore

OUTPUT_PATH = "awsrunShellScript/0.awsrunShellScript/stdout"
LOOK_SECONDS = 120
"""How long the command that only lists processes may take until it starts, and until it ends."""

DEPLOYMENT_LEVEL = 1
DCGM_LEVELS = 4
DEPLOYMENT = frozenset({"deployment", "software"})

STATUSES: Mapping[str, Verdict] = {
    **dict.fromkeys(RUNNING, Verdict.PENDING),
    "Cancelled": Verdict.UNKNOWN,
    "TimedOut": Verdict.UNKNOWN,
}


class OutputBucket(Struct, frozen=True):
    """The S3 bucket and key prefix under which SSM stores complete outputs, and the store that reads them."""

    bucket: str
    prefix: str
    objects: ObjectStore


class SsmDcgmVerifier:
    """A Verifier that runs `dcgmi diag -r LEVEL -j` on the instance through SSM.

    Above level 4, the DCGM diagnostics run at level 4. `read_report` parses the DCGM report and raises Rejected if the
    output contains no report. `deep` adds further tests after the diagnostics. `processes` checks first that no other
    process uses the GPUs.
    """

    def __init__(
        self,
        clients: Clients,
        *,
        level: int,
        timeout_seconds: int,
        read_report: Callable[[bytes], Sequence[TestResult]],
        output: OutputBucket | None = None,
        deep: DeepChecks | None = None,
        processes: GpuProcesses = NONE_IGNORED,
    ) -> None:
        self._clients, self._level, self._timeout_seconds = clients, level, timeout_seconds
        self._read_report, self._deep = read_report, deep
        self._output, self._processes = output, processes

    def start(self, instance_id: str, token: str, level: int | None = None, *, prove_idle: bool = False) -> str:
        """Send the verification command once per token; returns the command id.

        Raises Transient if the SSM agent does not respond yet, and Unverifiable if an instance of this type can never
        pass.
        """
        with translated(f"verifying {instance_id}"):
            sent = commands.find(self._clients.ssm, instance_id, token)
            if sent is None:
                self._refuse(instance_id, level or self._level)
            return sent or self._send(instance_id, token, level or self._level, prove_idle=prove_idle)

    def status(self, instance_id: str, operation: str, level: int | None = None) -> Verification:
        """Return the status of the SSM command `operation`; without a conclusive report UNKNOWN, or FAILED."""
        found = self._output_of(instance_id, operation)
        return found if isinstance(found, Verification) else self._judge(level or self._level, found, instance_id)

    def processes(self, instance_id: str, token: str) -> Verification:
        """Return whether a process uses the GPUs, by one command for each token."""
        token = f"{token} processes"
        with translated(f"listing the processes on {instance_id}"):
            sent = commands.find(self._clients.ssm, instance_id, token)
            if sent is None:
                script, ssm = self._processes.script_alone(), self._clients.ssm_no_retry
                try:
                    commands.send(ssm, instance_id, token, script, seconds=LOOK_SECONDS, delivery_seconds=LOOK_SECONDS)
                except ClientError as error:
                    if code_of(error) != "InvalidInstanceId":
                        raise
                    return Verification(Verdict.UNKNOWN, (f"the SSM agent on {instance_id} does not respond",))
                return Verification(Verdict.PENDING)
        found = self._output_of(instance_id, sent)
        if isinstance(found, Verification):
            return found
        idle = found.strip() == IDLE.encode()
        return Verification(Verdict.PASSED) if idle else Verification(Verdict.UNKNOWN, ("the command has no result",))

    def _output_of(self, instance_id: str, operation: str) -> bytes | Verification:
        """Return the output of a command that found no process, or the verdict of one without such an output."""
        with translated(f"reading the verification of {instance_id}"):
            answer = commands.invocation(self._clients.ssm, instance_id, operation)
        if answer is None:
            return Verification(Verdict.UNKNOWN, ("SSM does not list the command",))
        details = commands.details_of(answer)
        # A failed command may have a usable report, unless it did not run to completion.
        verdict = Verdict.UNKNOWN if details in UNFINISHED else STATUSES.get(answer["Status"])
        if verdict is Verdict.PENDING:
            return Verification(verdict)
        if verdict is not None:
            return Verification(verdict, (f"the command ended as {details or answer['Status']}",))
        report = self._report(answer, instance_id, operation)
        if found := occupants(report):
            return Verification(Verdict.OCCUPIED, found, report)
        return report

    def _refuse(self, instance_id: str, level: int) -> None:
        if self._deep is None or not self._deep.script(level):
            return
        instance_type = hardware_of(self._clients, instance_id).instance_type
        refusal = self._deep.refusal(instance_type) if instance_type else ""
        if refusal:
            raise Unverifiable(f"{instance_id} cannot be verified at level {level}: {refusal}")

    def _send(self, instance_id: str, token: str, level: int, *, prove_idle: bool) -> str:
        output: dict[str, str] = {}
        if self._output is not None:
            output = {"OutputS3BucketName": self._output.bucket, "OutputS3KeyPrefix": self._output.prefix}
        ssm, further = self._clients.ssm_no_retry, self._deep.script(level) if self._deep else ()
        check = self._processes.script(prove_idle=prove_idle)
        script = (*check, f"dcgmi diag -r {min(level, DCGM_LEVELS)} -j", *further)
        seconds = self._timeout_seconds + (self._deep.seconds(level) if self._deep else 0)
        try:
            return commands.send(ssm, instance_id, token, script, seconds=seconds, output=output)
        except ClientError as error:
            if code_of(error) == "InvalidInstanceId":
                raise Transient(f"the SSM agent on {instance_id} does not respond yet") from error
            raise

    def _report(self, answer: Mapping[str, Any], instance_id: str, operation: str) -> bytes:
        text = str(answer.get("StandardOutputContent", ""))
        if self._output is None or len(text) < OUTPUT_CHARACTERS:
            return text.encode()
        path = urlsplit(str(answer.get("StandardOutputUrl", ""))).path.lstrip("/")
        key = path.removeprefix(f"{self._output.bucket}/")
        key = key or f"{self._output.prefix}/{operation}/{instance_id}/{OUTPUT_PATH}"  # SSM gave no URL
        return self._output.objects.get(key) or text.encode()

    def _judge(self, level: int, report: bytes, instance_id: str) -> Verification:
        diagnostics, results = report, list[DeepResult]()
        if self._deep is not None and self._deep.script(level):
            found = hardware_of(self._clients, instance_id)
            diagnostics, read = self._deep.read(report, level, found.instance_type, found.efa_interfaces)
            results = list(read)
        try:
            tests = self._read_report(diagnostics)
        except Rejected as error:
            verdict, missed = worst_of(Verdict.UNKNOWN, results), [one.line for one in results if not one.passed]
            return Verification(verdict, (f"no report: {error}", *missed), report)
        verdict = worst_of(verdict_of(tests, level), results)
        lines = [one.line for one in results if verdict is Verdict.PASSED or not one.passed]
        found_by_dcgm = (test.line for test in tests if test.outcome in {"fail", "warn"})
        return Verification(verdict, (*found_by_dcgm, *lines), report, gpus_of(tests), level)


def verdict_of(tests: Sequence[TestResult], level: int) -> Verdict:
    """Return the verdict for the tests of a DCGM report.

    A hardware failure means FAILED. PASSED requires at least one device, and that every device passed a test. Any other
    report is UNKNOWN. Above level 1, deployment checks (libraries, permissions, modes) do not count for PASSED, because
    they show nothing about the hardware. Level 1 has only deployment checks.
    """
    if any(test.outcome == "fail" and test.hardware for test in tests):
        return Verdict.FAILED
    counted = [test for test in tests if level <= DEPLOYMENT_LEVEL or not _is_deployment_check(test)]
    devices = {component for test in counted for component in test.components}
    passed = {component for test in counted if test.outcome == "pass" for component in test.components}
    return Verdict.PASSED if devices and devices <= passed else Verdict.UNKNOWN


def worst_of(verdict: Verdict, results: Sequence[DeepResult]) -> Verdict:
    """Return the worst of `verdict` and the further tests' results: FAILED, then UNKNOWN, then PASSED."""
    if verdict is Verdict.FAILED or any(one.passed is False for one in results):
        return Verdict.FAILED
    return verdict if all(one.passed for one in results) else Verdict.UNKNOWN


def gpus_of(tests: Sequence[TestResult]) -> int:
    """Return the number of different GPUs in the tests of a report."""
    return sum(one.type is ComponentType.GPU for one in {one for test in tests for one in test.components})


def _is_deployment_check(test: TestResult) -> bool:
    return not DEPLOYMENT.isdisjoint({test.category.lower(), test.test.lower()})
