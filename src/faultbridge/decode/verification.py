"""Reads the results of the tests that a deep verification runs on an instance."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec import Struct

from faultbridge.decode.data import FOLDER, gpus_by_instance_type, packaged_json
from faultbridge.model.errors import Rejected
from faultbridge.model.values import replace

_TESTS = "verification/deep_tests.json"


class DeepTest(Struct, frozen=True):
    """One test of a deep verification: its name, lowest level, time limit in seconds, and shell script.

    The test runs at its level and at all higher levels. If its tools are not installed on an instance, the test is not
    verified, and the verification does not pass. A test between two instances is an exception: below the level
    `optional_below`, the verification can pass without it.
    """

    name: str
    level: int
    seconds: int
    script: str
    optional_below: int = 0


class Expected(Struct, frozen=True):
    """What a healthy instance of a type reaches: number of EFA devices, minimum NCCL bus bandwidth.

    The bandwidth is that of an all-reduce, in GB/s. `nccl_gigabytes_per_second` is measured over the GPUs of one
    instance, `nccl_pair_gigabytes_per_second` over the GPUs of two instances.
    """

    nccl_gigabytes_per_second: float
    nccl_pair_gigabytes_per_second: float
    efa_devices: int


@cache
def deep_tests() -> tuple[DeepTest, ...]:
    """Return the tests of a single instance, in the order in which they run."""
    return _tests("tests")


@cache
def peer_tests() -> tuple[DeepTest, ...]:
    """Return the tests between two instances; both instances run the same script."""
    return _tests("peer_tests")


@cache
def expected_by_instance_type() -> Mapping[str, Expected]:
    """Return the expected values of an instance, by EC2 instance type (without HyperPod's prefix `ml.`)."""
    return {name: Expected(**row) for name, row in packaged_json(_TESTS)["instance_types"].items()}


def _tests(name: str) -> tuple[DeepTest, ...]:
    rows: list[dict[str, Any]] = packaged_json(_TESTS)[name]
    return tuple(DeepTest(**{**row, "script": (FOLDER / "verification" / row["script"]).read_text()}) for row in rows)


# Reads the output of all-reduce tests: bus bandwidth, number of wrong values, number of GPUs.
#
# Grammar of nccl-tests: comment lines with one line per rank, one row per message size, and `Out of bounds values`. A
# row ends with time, algorithm bandwidth, bus bandwidth and wrong values, first out of place and then in place. Grammar
# of the test over two instances: one JSON object per message size; `steps` is the number of message sizes, and `step`
# counts from 1 to this number. Units: GB/s. Errors: `Rejected` without a complete result. Source: nccl-tests 2.0 to
# 2.17, `nccl_peer_pair.sh`.

_RANK = re.compile(r"^#\s{1,8}Rank\s{1,8}\d{1,6} ", re.MULTILINE)
_ROW = re.compile(r"^\s{0,32}\d{1,15}\s{1,32}\d{1,15}\s{1,32}[a-z]\w{1,15}\s.{20,200}$", re.MULTILINE)
_BOUNDS = re.compile(r"^# Out of bounds values : (\d{1,18}) (OK|FAILED)$", re.MULTILINE)
_AVERAGE = re.compile(r"^# Avg bus bandwidth {1,8}: \d", re.MULTILINE)
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,6})?")
_WRONG = re.compile(r"\d{1,18}|\d(?:\.\d{1,6})?e[+-]\d{2}")
_COLUMNS = 8
_STEP = re.compile(r'^ {0,8}\{ {0,8}"step"', re.MULTILINE)
_PAIR = re.compile(
    r'^\{"step": (\d{1,2}), "steps": (\d{1,2}), "bytes": \d{1,15}, "ranks": (\d{1,5}), '
    r'"gigabytes_per_second": (\d{1,6}\.\d{1,2}), "wrong": (\d{1,15}), "efa": (\d{1,5}), '
    r'"network": "([\w /.-]{0,64})"\}$',
    re.ASCII | re.MULTILINE,
)


class AllReduce(Struct, frozen=True):
    """A complete result of an all-reduce test: the number of GPUs, and the best bus bandwidth in GB/s.

    In the test over two instances, `over_efa` is how many GPUs used EFA, and `network` what the last one used.
    """

    gpus: int
    gigabytes_per_second: float
    wrong: int
    over_efa: int = 0
    network: str = ""


def read_all_reduce(text: str) -> AllReduce:
    """Return the result of nccl-tests, with the best bus bandwidth of all message sizes.

    For each message size, the lower of its out-of-place and in-place bandwidths counts. Raises `Rejected` for an
    incomplete result.
    """
    bounds, ranks = _BOUNDS.findall(text), len(_RANK.findall(text))
    if len(bounds) != 1 or not _AVERAGE.search(text) or not ranks:
        raise Rejected("incomplete", "nccl-tests printed no complete result")
    rows = [_row(found[0]) for found in _ROW.finditer(text)]
    if not rows:
        raise Rejected("incomplete", "nccl-tests printed no message size")
    count, outcome = bounds[0]
    wrong = int(count) + sum(errors for _, errors in rows)
    return AllReduce(ranks, max(speed for speed, _ in rows), wrong or int(outcome != "OK"))


def read_pair_all_reduce(text: str) -> AllReduce:
    """Return the result of the test over two instances."""
    rows = _PAIR.findall(text)
    steps = [str(number + 1) for number in range(len(rows))]
    complete = rows and [row[0] for row in rows] == steps and {row[1] for row in rows} == {steps[-1]}
    if not complete or len(_STEP.findall(text)) != len(rows) or len({row[2] for row in rows}) != 1:
        raise Rejected("incomplete", "the all-reduce printed no complete result")
    speed, wrong = max(float(row[3]) for row in rows), sum(int(row[4]) for row in rows)
    return AllReduce(int(rows[0][2]), speed, wrong, min(int(row[5]) for row in rows), rows[-1][6])


def _row(line: str) -> tuple[float, int]:
    """Return the lower of the two bus bandwidths of a row, and how many of its two value checks failed."""
    cells = line.split()[-_COLUMNS:]
    speeds, wrong = [cells[2], cells[6]], [cells[3], cells[7]]
    if not all(map(_NUMBER.fullmatch, speeds)) or not all(map(_WRONG.fullmatch, wrong)):
        raise Rejected("bad_value", f"nccl-tests printed a value that cannot be used: {line.strip()[:120]}")
    return min(map(float, speeds)), sum(float(one) > 0 for one in wrong)


TIMED_OUT = frozenset({124, 137})
"""The exit statuses of `timeout`: the command was ended, or had to be killed."""

NOT_STARTED = 127
"""The exit status of a tool that is not installed, or that lacks a shared library."""

_BEGIN = re.compile(rb"^#faultbridge begin ([a-z-]{1,40})$", re.MULTILINE)


class Section(Struct, frozen=True):
    """The output of one test, and its exit status. The status is None if the output ends within the test."""

    text: str
    status: int | None

    @property
    def last_line(self) -> str:
        """Return the last line that is not empty, cut to 160 characters, or an empty text if there is none."""
        return next((line.strip()[:160] for line in reversed(self.text.splitlines()) if line.strip()), "")


def script_of(tests: Sequence[DeepTest]) -> tuple[str, ...]:
    """Return the lines of a shell script that runs each test within its time limit and marks its output."""
    lines: list[str] = []
    for test in tests:
        lines += [
            f"echo; echo '#faultbridge begin {test.name}'",
            f"timeout -k 10 {test.seconds} sh -c {shlex.quote(test.script)} 2>&1; status=$?",
            f"echo; echo '#faultbridge end {test.name}' $status",
        ]
    return tuple(lines)


def split(output: bytes) -> tuple[bytes, Mapping[str, Section]]:
    """Return the output before the first test, and a mapping from each test to its section."""
    parts = _BEGIN.split(output)
    sections: dict[str, Section] = {}
    names = [name.decode() for name in parts[1::2]]
    for name, body in zip(names, parts[2::2], strict=True):
        text, end, rest = body.decode(errors="replace").partition(f"\n#faultbridge end {name} ")
        status = re.match(r"\d{1,3}$", rest.partition("\n")[0])
        sections[name] = Section(text, int(status[0]) if end and status else None)
    return parts[0], {name: one for name, one in sections.items() if names.count(name) == 1}


# Reads the output of the EFA tests: whether each device returned all messages, and how fast.
#
# Grammar: `domain: NAME`, a row of `fi_pingpong`, and `exit: STATUS` for each device; `#` starts a comment. In a row,
# `=N` means that as many messages were acknowledged as were sent. Units: MB/s. Errors: `Rejected` without a complete
# result for each device. Source: libfabric 1.17.

_DOMAIN = re.compile(r"^domain: (\S{1,64})$", re.MULTILINE)
_EXIT = re.compile(r"^exit: (\d{1,3})$", re.MULTILINE)
_FABRIC_TESTS_ROW = re.compile(
    r"^\d{1,9}[kmg]? {1,16}(\d{1,9}) {1,16}(=?\d{1,9}) {1,16}\S{1,16} {1,16}\S{1,16}s {1,16}"
    r"(\d{1,9}\.\d{1,6}) .{1,64}$",
    re.MULTILINE,
)


class Loopback(Struct, frozen=True):
    """The result of one EFA device: its bandwidth in MB/s, or None and the reason why it has none."""

    domain: str
    megabytes_per_second: float | None
    reason: str = ""
    complete: bool = True


def read_loopback(text: str) -> tuple[Loopback, ...]:
    """Return the result of each EFA device, in the order of the output."""
    parts = _DOMAIN.split(text)
    names = parts[1::2]
    if len(set(names)) != len(names):
        raise Rejected("repeated", "a device was tested twice")
    return tuple(_result(name, body) for name, body in zip(names, parts[2::2], strict=True))


def _result(domain: str, body: str) -> Loopback:
    statuses, rows = _EXIT.findall(body), _FABRIC_TESTS_ROW.findall(body)
    if len(statuses) != 1:
        raise Rejected("incomplete", f"the test of {domain} did not end")
    if statuses[0] != "0":
        lines = (line.strip() for line in body.splitlines())
        said = next((line for line in lines if line and not line.startswith(("bytes", "#", "exit: "))), "")
        complete = int(statuses[0]) not in TIMED_OUT
        reason = f"exit status {statuses[0]}" if complete else "not complete in time"
        return Loopback(domain, None, f"{reason}: {said[:120]}".removesuffix(": "), complete)
    if len(rows) != 1 or rows[0][1] != f"={rows[0][0]}":
        return Loopback(domain, None, "not every message came back")
    return Loopback(domain, float(rows[0][2]))


# Decides whether the tests of a deep verification passed, by the thresholds of the instance type.
#
# A test that did not complete, or whose output cannot be read, is not verified: it neither passed nor failed.


class DeepResult(Struct, frozen=True):
    """The result of one test: passed (True), failed (False) or not verified (None)."""

    passed: bool | None
    line: str


class Instance(Struct, frozen=True):
    """The tested instance: its type without the prefix `ml.`, and the expected results of that type."""

    type: str
    expected: Expected
    efa_interfaces: int | None


class DeepChecks:
    """Defines the tests that run after the DCGM diagnostics, and reads their output."""

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
        """Return the output before the first test, and the result of each test of the level."""
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


# Finds the processes that use the GPUs of an instance, so that no diagnostics start beside running work.
#
# The names of processes are text that a user of the instance chooses. They are escaped and cut before they are shown.

MARKER, IDLE = "#faultbridge occupied", "#faultbridge idle"
MAX_LINES, MAX_NAME, MAX_SHOWN = 20, 100, 5
LIST = "timeout -k 5 20 nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader"
UNKNOWN = "the processes that use the GPUs cannot be listed"
DRIVER = "/sys/module/nvidia"
"""The folder of the driver's kernel module, while it is loaded."""

_PROCESS = re.compile(r"(\d{1,10}), *(.*)")


class GpuProcesses(Struct, frozen=True):
    """Compute processes on the GPUs of an instance; those whose file has a name in `ignored` are no work."""

    ignored: Collection[str] = ()

    def script(self, *, prove_idle: bool = False) -> tuple[str, ...]:
        """Return the lines of a shell script that end it, with `MARKER`, if a process uses a GPU.

        With `prove_idle`, the script also ends if the processes cannot be listed. Otherwise it then continues.
        """
        names = "|".join(re.escape(name) for name in sorted(self.ignored))
        ours = shlex.quote(rf"^([0-9]+, *(.*/)?({names}))?$" if names else "^$")
        unlisted = '[ -z "$listed" ]' if prove_idle else "false"
        return (
            f"apps=$({LIST} 2>&1) && listed=1 || listed=",
            f"busy=$(printf '%s\\n' \"$apps\" | LC_ALL=C grep -aE '{'' if prove_idle else '^[0-9]+,'}'"
            f" | LC_ALL=C grep -avE {ours} | head -n {MAX_LINES} | LC_ALL=C cut -c1-200)",
            f"if [ -n \"$busy\" ] || {unlisted}; then printf '%s\\n' '{MARKER}' \"$busy\"; exit 0; fi",
        )

    def script_alone(self) -> tuple[str, ...]:
        """Return the script of a command that only looks for processes; its output is `IDLE` if there are none.

        Without the driver's kernel module, no process can use a GPU.
        """
        idle = f"echo '{IDLE}'"
        return (f"[ -d {DRIVER} ] || {{ {idle}; exit 0; }}", *self.script(prove_idle=True), idle)


NONE_IGNORED = GpuProcesses()


def occupants(output: bytes) -> tuple[str, ...] | None:
    """Return what uses the GPUs, one line of text for each process; None if the script did not end for it."""
    first, *lines = output.decode("ascii", "backslashreplace").splitlines() or [""]
    if first != MARKER:
        return None
    found = [match for line in lines if (match := _PROCESS.fullmatch(line))]
    if not found:
        return (": ".join((UNKNOWN, *map(_printable, lines[:1]))).removesuffix(": "),)
    shown = tuple(f"process {one[1]} uses a GPU: {_printable(one[2])}" for one in found[:MAX_SHOWN])
    return (*shown, f"{len(found) - MAX_SHOWN} more processes") if len(found) > MAX_SHOWN else shown


def _printable(name: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in name)[:MAX_NAME]


# Decides from the tests between an instance and its peers whether the instance is faulty.
#
# An instance is faulty if the tests failed with at least two peers and passed with none.

FAILURES = 2
"""Number of peers with which the tests must fail before the instance counts as faulty."""


class PeerDecision(Struct, frozen=True):
    """The decision from the tests with all peers so far: passed, failed or undecided (None)."""

    passed: bool | None
    lines: tuple[str, ...]
    failures: int = 0


class PeerChecks:
    """Defines the tests that run between two instances, and reads their output.

    The tests run on neither instance while a process uses its GPUs, except those that `processes` ignores.
    """

    def __init__(self, processes: GpuProcesses = NONE_IGNORED) -> None:
        self._processes = processes

    def script(self, server: str) -> tuple[str, ...]:
        """Return the script that both instances run."""
        tests = script_of([replace(test, script=f"server={server}\n{test.script}") for test in peer_tests()])
        return (*self._processes.script(), *tests)

    @property
    def seconds(self) -> int:
        """Return the time limit in seconds of all tests together."""
        return sum(test.seconds for test in peer_tests())

    def read(self, output: bytes, level: int, instance_type: str | None, efa_interfaces: int | None) -> DeepResult:
        """Return one result for all tests, from the output of the instance that acted as the client.

        - If a test failed, the result is failed.
        - If all tests passed, the result is passed.
        - Otherwise, the result is not verified.

        A test that is optional at this level is left out if its tools are not installed.
        """
        if occupied := occupants(output):
            return self.unanswered("; ".join(occupied))
        sections, instance = split(output)[1], instance_of(instance_type, efa_interfaces)
        if isinstance(instance, str):
            return self.unanswered(instance)
        results = {test: judge(test, sections.get(test.name), instance) for test in peer_tests()}
        not_started = {name for name, section in sections.items() if section.status == NOT_STARTED}
        optional = {test for test in results if level < test.optional_below and test.name in not_started}
        needed = [one.passed for test, one in results.items() if test not in optional]
        passed = False if False in needed else all(needed) or None
        return DeepResult(passed, "; ".join(one.line for one in results.values() if passed or not one.passed))

    def unanswered(self, reason: str) -> DeepResult:
        """Return the result `not verified` for all tests between two instances, with the reason."""
        return unverified(" and ".join(test.name for test in peer_tests()), reason)

    def decide(self, results: Sequence[tuple[str, bool | None, str]]) -> PeerDecision:
        """Return the decision about the instance from its results with peers.

        Each result has the id of the peer, whether the tests passed, and a line for operators.

        - If the tests passed with one peer, the instance works. Each peer with which they failed is suspected.
        - If they passed with no peer and failed with two or more, the instance is faulty.
        - Otherwise the instance is undecided, and needs a test with another peer.
        """
        passed = any(one for _, one, _ in results)
        failures = sum(one is False for _, one, _ in results)
        doubt = " (this peer is suspected: another one passed)"
        lines = tuple(f"with {peer}: {line}{doubt if passed and one is False else ''}" for peer, one, line in results)
        return PeerDecision(True if passed else None if failures < FAILURES else False, lines, failures)
