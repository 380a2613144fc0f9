"""Decides whether the tests of a deep verification passed, by the thresholds of the instance type.

A test that did not complete, or whose output cannot be read, is not verified: it neither passed nor failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from faultbridge.data import gpus_by_instance_type
from faultbridge.data.deep_tests import DeepTest, Expected, deep_tests, expected_by_instance_type
from faultbridge.dataclass import dataclass
from faultbridge.decoders.verification.fabric_tests import read_loopback
from faultbridge.decoders.verification.nccl_tests import AllReduce, read_all_reduce, read_pair_all_reduce
from faultbridge.decoders.verification.sections import NOT_STARTED, TIMED_OUT, Section, script_of, split
from faultbridge.errors import Rejected


@dataclass(frozen=True, slots=True)
class DeepResult:
    """The result of one test: passed (True), failed (False) or not verified (None).

    `line` explains the result to operators in one line.
    """

    passed: bool | None
    line: str


@dataclass(frozen=True, slots=True)
class Instance:
    """The tested instance: its type without the prefix `ml.`, and the expected results of that type.

    `efa_interfaces` is the number of attached EFA interfaces, or None if it is unknown.
    """

    type: str
    expected: Expected
    efa_interfaces: int | None


class DeepChecks:
    """Defines the tests that run after the DCGM diagnostics, and reads their output.

    Each test runs at its lowest verification level and at all higher levels.
    """

    def script(self, level: int) -> tuple[str, ...]:
        """Return the lines of the script that runs the tests of a level. It is empty if the level has no test."""
        return script_of(_tests_at(level))

    def seconds(self, level: int) -> int:
        """Return the time limit in seconds of all tests of a level together."""
        return sum(test.seconds for test in _tests_at(level))

    def refusal(self, instance_type: str) -> str:
        """Return why an instance of this type cannot pass the tests, or an empty text if it can."""
        if _listed(instance_type) is not None:
            return ""
        known = ", ".join(expected_by_instance_type())
        return f"ssm-deep has no thresholds for instance type {instance_type}; known: {known}; else use ssm-dcgm"

    def read(
        self, output: bytes, level: int, instance_type: str | None, efa_interfaces: int | None = None
    ) -> tuple[bytes, Sequence[DeepResult]]:
        """Return the output before the first test, and the result of each test of the level.

        `efa_interfaces` is the number of EFA interfaces attached to the instance, or None if it is unknown.
        """
        before, sections = split(output)
        tests = _tests_at(level)
        instance = instance_of(instance_type, efa_interfaces)
        if isinstance(instance, str):
            return before, [unverified(test.name, instance) for test in tests]
        return before, [judge(test, sections.get(test.name), instance) for test in tests]


def _tests_at(level: int) -> tuple[DeepTest, ...]:
    return tuple(test for test in deep_tests() if test.level <= level)


def _listed(instance_type: str | None) -> Expected | None:
    return expected_by_instance_type().get((instance_type or "").removeprefix("ml."))


def instance_of(instance_type: str | None, efa_interfaces: int | None) -> Instance | str:
    """Return the tested instance, or the reason why its results cannot be compared with thresholds."""
    expected = _listed(instance_type)
    if expected is None or instance_type is None:
        return f"no thresholds for instance type {instance_type}" if instance_type else "instance type unknown"
    return Instance(instance_type.removeprefix("ml."), expected, efa_interfaces)


def judge(test: DeepTest, section: Section | None, instance: Instance) -> DeepResult:
    """Return the result of a test. `section` is its output, or None if the output lacks the test."""
    if section is None or section.status is None:
        return unverified(test.name, "the output ends before the test")
    if section.status in TIMED_OUT:
        return unverified(test.name, f"not complete after {test.seconds} seconds")
    if section.status == NOT_STARTED:
        return unverified(test.name, f"its tool did not start: {section.last_line or 'it printed nothing'}")
    try:
        return _JUDGES[test.name](test.name, section, instance)
    except Rejected as error:
        return unverified(test.name, f"{error.detail} (exit status {section.status})")


def _judge_nccl(name: str, section: Section, instance: Instance) -> DeepResult:
    found, gpus = read_all_reduce(section.text), gpus_by_instance_type()[instance.type]
    if section.status != 0 and not found.wrong:
        return unverified(name, f"exit status {section.status}")
    return _judge_all_reduce(name, found, gpus, instance.expected.nccl_gigabytes_per_second)


def _judge_nccl_pair(name: str, section: Section, instance: Instance) -> DeepResult:
    if section.status != 0:
        return unverified(name, f"exit status {section.status}: {section.last_line}".removesuffix(": "))
    found, gpus = read_pair_all_reduce(section.text), 2 * gpus_by_instance_type()[instance.type]
    if found.over_efa != found.gpus and not found.wrong:
        used = found.network or "unknown"
        return unverified(
            name, f"{found.over_efa} of {found.gpus} GPUs used EFA; the network of one of them was {used}"
        )
    attached, full = instance.efa_interfaces, instance.expected.efa_devices
    # The expected bandwidth is lower if fewer interfaces are attached than the type can have.
    share = 1.0 if attached is None else min(attached / full, 1.0)
    result = _judge_all_reduce(name, found, gpus, instance.expected.nccl_pair_gigabytes_per_second * share)
    if result.passed is False and attached is None and found.gpus == gpus and not found.wrong:
        slow = f"{found.gigabytes_per_second:.1f} GB/s bus bandwidth"
        return unverified(name, f"{slow}; the number of attached EFA interfaces is unknown")
    return result


def _judge_all_reduce(name: str, found: AllReduce, gpus: int, least: float) -> DeepResult:
    if found.wrong:
        return DeepResult(False, f"{name} failed: the GPUs computed wrong values")
    if found.gpus != gpus:
        return DeepResult(False, f"{name} failed: {found.gpus} of {gpus} GPUs took part")
    measured = f"{found.gigabytes_per_second:.1f} GB/s bus bandwidth; at least {least:g} expected"
    passed = found.gigabytes_per_second >= least
    return DeepResult(passed, f"{name} {'passed' if passed else 'failed'}: {measured}")


def _judge_efa(name: str, section: Section, instance: Instance) -> DeepResult:
    found = read_loopback(section.text)
    if section.status != 0:
        return unverified(name, f"exit status {section.status}")
    working = [one.megabytes_per_second for one in found if one.megabytes_per_second is not None]
    without = [one for one in found if one.megabytes_per_second is None]
    reasons = [f"{one.domain}: {one.reason}" for one in without]
    if not working:
        # One cause for all devices is rather a setting, such as a security group, than the hardware.
        none = f"libfabric lists no EFA device: {section.last_line}".removesuffix(": ")
        return unverified(name, reasons[0] if reasons else none)
    attached, full = instance.efa_interfaces, instance.expected.efa_devices
    text = "; ".join((f"{len(working)} of {full if attached is None else attached} EFA devices work", *reasons))[:480]
    if any(one.complete for one in without) or (attached is not None and len(found) < attached):
        return DeepResult(False, f"{name} failed: {text}")
    if without:
        return unverified(name, text)
    if attached is None and len(working) < full:
        return unverified(name, f"{text}; the number of attached EFA interfaces is unknown")
    fewer = f"; the instance type has {full}" if len(working) < full else ""
    speed = f"the slowest has {min(working):.0f} MB/s"
    return DeepResult(True, f"{name} passed: {len(working)} EFA devices; {speed}{fewer}")


def unverified(name: str, reason: str) -> DeepResult:
    """Return the result of a test that neither passed nor failed, with the reason."""
    return DeepResult(None, f"{name} not verified: {reason}")


_JUDGES: Mapping[str, Callable[[str, Section, Instance], DeepResult]] = {
    "nccl-all-reduce": _judge_nccl,
    "efa-loopback": _judge_efa,
    "efa-peer-pair": _judge_efa,
    "nccl-peer-pair": _judge_nccl_pair,
}
