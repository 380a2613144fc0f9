"""Verification by `dcgmi diag`, run on the instance through SSM; the report's own results decide, not the exit code."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from faultbridge.adapters import ssm_commands
from faultbridge.adapters.aws_errors import code_of, translated
from faultbridge.adapters.clients import Clients
from faultbridge.adapters.ssm_commands import OUTPUT_CHARACTERS, RUNNING, UNFINISHED
from faultbridge.domain.faults import Component, ComponentType
from faultbridge.errors import Rejected, Transient
from faultbridge.ports import ObjectStore, Verdict, Verification

OUTPUT_PATH = "awsrunShellScript/0.awsrunShellScript/stdout"
DEPLOYMENT_LEVEL = 1
DEPLOYMENT = frozenset({"deployment", "software"})

STATUSES: Mapping[str, Verdict] = {
    **dict.fromkeys(RUNNING, Verdict.PENDING),
    "Cancelled": Verdict.UNKNOWN,
    "TimedOut": Verdict.UNKNOWN,
}


class DiagTest(Protocol):
    """One test of a report on one or more devices: `outcome` is `pass`, `fail`, `warn` or `skip`.

    `hardware` is False for a failure of the configuration, such as persistence mode being off.
    """

    @property
    def test(self) -> str:
        """Return the name of the test."""
        ...

    @property
    def components(self) -> tuple[Hashable, ...]:
        """Return the devices that were tested."""
        ...

    @property
    def category(self) -> str:
        """Return the report's group of tests: `Deployment`, `Hardware`, ..."""
        ...

    @property
    def outcome(self) -> str:
        """Return how the test came out, in lower case."""
        ...

    @property
    def hardware(self) -> bool:
        """Tell whether a failure speaks of the hardware."""
        ...

    @property
    def line(self) -> str:
        """Return one line for people: the test, the entity and the reason."""
        ...


@dataclass(frozen=True, slots=True)
class Output:
    """Where SSM keeps the whole output: a bucket, a key prefix, and what reads the bucket."""

    bucket: str
    prefix: str
    objects: ObjectStore


class SsmDcgmVerifier:
    """A Verifier that runs `dcgmi diag -r LEVEL -j` on the instance; `read_report` raises Rejected for no report."""

    def __init__(
        self,
        clients: Clients,
        *,
        level: int,
        timeout_seconds: int,
        read_report: Callable[[bytes], Sequence[DiagTest]],
        output: Output | None = None,
    ) -> None:
        self._clients = clients
        self._level = level
        self._timeout_seconds = timeout_seconds
        self._read_report = read_report
        self._output = output

    def begin(self, instance_id: str, token: str, level: int | None = None) -> str:
        """Send the command, or find the one that was sent with this token; its id is the operation.

        An instance whose agent has not reported yet is Transient.
        """
        with translated(f"verifying {instance_id}"):
            sent = ssm_commands.find(self._clients.ssm, instance_id, token)
            return sent or self._send(instance_id, token, level or self._level)

    def look(self, instance_id: str, operation: str, level: int | None = None) -> Verification:
        """Read how the command stands; what cannot be read, or proves nothing, is `unknown`."""
        with translated(f"reading the verification of {instance_id}"):
            answer = ssm_commands.invocation(self._clients.ssm, instance_id, operation)
        if answer is None:
            return Verification(Verdict.UNKNOWN, ("the command is not known",))
        details = ssm_commands.details_of(answer)
        # A failed command may have a good report, but not when it never ran to its end.
        verdict = Verdict.UNKNOWN if details in UNFINISHED else STATUSES.get(answer["Status"])
        if verdict is Verdict.PENDING:
            return Verification(verdict)
        if verdict is not None:
            return Verification(verdict, (f"the command ended as {details or answer['Status']}",))
        return self._judge(level or self._level, self._report(answer, instance_id, operation))

    def _send(self, instance_id: str, token: str, level: int) -> str:
        output: dict[str, str] = {}
        if self._output is not None:
            output = {"OutputS3BucketName": self._output.bucket, "OutputS3KeyPrefix": self._output.prefix}
        script = (f"dcgmi diag -r {level} -j",)
        seconds = self._timeout_seconds
        try:
            return ssm_commands.send(self._clients.ssm, instance_id, token, script, seconds=seconds, output=output)
        except ClientError as error:
            if code_of(error) == "InvalidInstanceId":
                raise Transient(f"the agent on {instance_id} does not answer SSM yet") from error
            raise

    def _report(self, answer: Mapping[str, Any], instance_id: str, operation: str) -> bytes:
        """Return the whole output: from the bucket where SSM cut it, when there is a bucket."""
        text = str(answer.get("StandardOutputContent", ""))
        if self._output is None or len(text) < OUTPUT_CHARACTERS:
            return text.encode()
        key = output_key(str(answer.get("StandardOutputUrl", "")), self._output, instance_id, operation)
        return self._output.objects.get(key) or text.encode()

    def _judge(self, level: int, report: bytes) -> Verification:
        try:
            tests = self._read_report(report)
        except Rejected as error:
            return Verification(Verdict.UNKNOWN, (f"no report: {error}",), report)
        return Verification(verdict_of(tests, level), findings_of(tests), report, gpus_of(tests))


def verdict_of(tests: Sequence[DiagTest], level: int) -> Verdict:
    """Judge a report: any hardware failure fails; every device that was to be tested must have passed a test.

    The deployment checks (libraries, permissions, modes) prove no hardware, except that level 1 has no others.
    """
    if any(test.outcome == "fail" and test.hardware for test in tests):
        return Verdict.FAILED
    proving = [test for test in tests if level <= DEPLOYMENT_LEVEL or not _of_deployment(test)]
    named = {component for test in proving for component in test.components}
    passed = {component for test in proving if test.outcome == "pass" for component in test.components}
    return Verdict.PASSED if named and named <= passed else Verdict.UNKNOWN


def gpus_of(tests: Sequence[DiagTest]) -> int:
    """Count the GPUs that a report names."""
    named = {one for test in tests for one in test.components if isinstance(one, Component)}
    return sum(one.type is ComponentType.GPU for one in named)


def _of_deployment(test: DiagTest) -> bool:
    return not DEPLOYMENT.isdisjoint({test.category.lower(), test.test.lower()})


def findings_of(tests: Sequence[DiagTest]) -> tuple[str, ...]:
    """Return one line a test that failed or warned, in the report's order."""
    return tuple(test.line for test in tests if test.outcome in {"fail", "warn"})


def output_key(url: str, output: Output, instance_id: str, operation: str) -> str:
    """Return the key of the output: out of the URL that SSM tells, else where SSM puts it by its documentation."""
    path = urlsplit(url).path.lstrip("/").removeprefix(f"{output.bucket}/")
    return path or f"{output.prefix}/{operation}/{instance_id}/{OUTPUT_PATH}"
