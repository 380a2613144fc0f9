"""Judges the tests of a deep verification by what the instance type must show.

A test that did not run to its end, or whose output cannot be read, is not verified: it neither passed nor failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from faultbridge.data import gpus_by_instance_type
from faultbridge.data.deep_tests import DeepTest, Expected, deep_tests, expected_by_instance_type
from faultbridge.decoders.verification.fabric_tests import read_loopback
from faultbridge.decoders.verification.nccl_tests import read_all_reduce
from faultbridge.decoders.verification.sections import NOT_INSTALLED, TIMED_OUT, Section, script_of, split
from faultbridge.errors import Rejected


@dataclass(frozen=True, slots=True)
class DeepResult:
    """The result of one test: passed (True), failed (False) or not verified (None), and one line for people."""

    passed: bool | None
    line: str


class DeepChecks:
    """The tests that run after DCGM's own, each at its lowest level and above, and the decoder of their output."""

    def script(self, level: int) -> tuple[str, ...]:
        """Return the lines of the script for a level; none below the lowest level of the tests."""
        return script_of(_tests_at(level))

    def seconds(self, level: int) -> int:
        """Return the time limit of all tests of a level together."""
        return sum(test.seconds for test in _tests_at(level))

    def read(self, output: bytes, level: int, instance_type: str | None) -> tuple[bytes, Sequence[DeepResult]]:
        """Return the output that precedes the tests, and the result of each test of the level."""
        before, sections = split(output)
        expected = expected_by_instance_type().get((instance_type or "").removeprefix("ml."))
        return before, [_judge(test, sections.get(test.name), expected, instance_type) for test in _tests_at(level)]


def _tests_at(level: int) -> tuple[DeepTest, ...]:
    return tuple(test for test in deep_tests() if test.level <= level)


def _judge(test: DeepTest, section: Section | None, expected: Expected | None, instance_type: str | None) -> DeepResult:
    if expected is None or instance_type is None:
        return _unverified(test.name, f"no thresholds for instance type {instance_type or 'unknown'}")
    if section is None or section.status is None:
        return _unverified(test.name, "the output ends before the test")
    if section.status in _REASONS:
        return _unverified(test.name, _REASONS[section.status].format(seconds=test.seconds))
    try:
        return _JUDGES[test.name](section, expected, instance_type.removeprefix("ml."))
    except Rejected as error:
        return _unverified(test.name, f"{error.detail} (exit status {section.status})")


def _judge_nccl(section: Section, expected: Expected, instance_type: str) -> DeepResult:
    found, gpus = read_all_reduce(section.text), gpus_by_instance_type().get(instance_type)
    name, least = "nccl-all-reduce", expected.nccl_gigabytes_per_second
    if found.wrong:
        return DeepResult(False, f"{name} failed: the GPUs computed wrong values")
    if section.status != 0:
        return _unverified(name, f"exit status {section.status}")
    if found.gpus != gpus:
        return DeepResult(False, f"{name} failed: {found.gpus} of {gpus} GPUs took part")
    measured = f"{found.gigabytes_per_second:.1f} GB/s bus bandwidth; at least {least:g} expected"
    passed = found.gigabytes_per_second >= least
    return DeepResult(passed, f"{name} {'passed' if passed else 'failed'}: {measured}")


def _judge_efa(section: Section, expected: Expected, _instance_type: str) -> DeepResult:
    name, found = "efa-loopback", read_loopback(section.text)
    if section.status != 0:
        return _unverified(name, f"exit status {section.status}")
    working = [one.megabytes_per_second for one in found if one.megabytes_per_second is not None]
    broken = [f"{one.domain}: {one.reason}" for one in found if one.megabytes_per_second is None]
    if not working:
        # One cause for all devices is rather a setting, such as a security group, than the hardware.
        return _unverified(name, broken[0] if broken else "libfabric lists no EFA device")
    if broken or len(working) < expected.efa_devices:
        text = f"{len(working)} of {expected.efa_devices} EFA devices work"
        return DeepResult(False, f"{name} failed: {'; '.join((text, *broken))}"[:500])
    return DeepResult(True, f"{name} passed: {len(working)} EFA devices; the slowest has {min(working):.0f} MB/s")


def _unverified(name: str, reason: str) -> DeepResult:
    return DeepResult(None, f"{name} not verified: {reason}")


_REASONS: Mapping[int, str] = {
    TIMED_OUT: "not complete after {seconds} seconds",
    NOT_INSTALLED: "its tool is not installed",
    137: "not complete after {seconds} seconds",
}
_JUDGES: Mapping[str, Callable[[Section, Expected, str], DeepResult]] = {
    "nccl-all-reduce": _judge_nccl,
    "efa-loopback": _judge_efa,
}
