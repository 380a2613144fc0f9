"""The tests of a deep verification: their scripts with tools that print real formats, their results, and the verdict.

The tools are fakes. None of the scripts has run on a GPU or an EFA device.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decode.data import gpus_by_instance_type
from faultbridge.decode.verification import (
    DeepChecks,
    DeepResult,
    Loopback,
    deep_tests,
    expected_by_instance_type,
    read_all_reduce,
    read_loopback,
    script_of,
    split,
)
from faultbridge.model.values import replace
from tests.decoders.deep_checks import DOMAINS, HEADING, ROW, TYPE, loopback

NEEDED = ("sh", "timeout", "sed", "sort", "grep", "head", "tail", "ls", "cat")


def nccl(speed: float = 235.42, *, gpus: int = 8, wrong: int = 0, in_place: float | None = None) -> str:
    """The output of nccl-tests 2.13 with `all_reduce_perf -b 4G -e 8G -f 2 -g 8`."""
    second = speed if in_place is None else in_place
    ranks = "".join(
        f"#  Rank {rank:2} Group  0 Pid  18123 on ip-10-0-0-7 device {rank:2} [0x{16 + rank:x}] NVIDIA A100-SXM4-40GB\n"
        for rank in range(gpus)
    )
    outcome = "FAILED" if wrong else "OK"
    last = f"63876  134.48  {speed:.2f}      {wrong}    63871  134.49  {second:.2f}      0"
    return f"""# nThread 1 nGpus {gpus} minBytes 4294967296 maxBytes 8589934592 step: 2(factor) warmup iters: 5
#
# Using devices
{ranks}#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
  4294967296    1073741824     float     sum      -1    35127  122.27  213.97      0    35098  122.37  214.15      0
  8589934592    2147483648     float     sum      -1    {last}
# Out of bounds values : {wrong} {outcome}
# Avg bus bandwidth    : 224.753
#

"""


def output(nccl_text: str = "", efa_text: str = "", statuses: tuple[int, int] = (0, 0)) -> bytes:
    texts = {"nccl-all-reduce": nccl_text or nccl(), "efa-loopback": efa_text or loopback()}
    marked = [
        f"\n#faultbridge begin {name}\n{text}\n#faultbridge end {name} {status}\n"
        for (name, text), status in zip(texts.items(), statuses, strict=True)
    ]
    return b'{"DCGM Diagnostic": {}}' + "".join(marked).encode()


def results(
    found: bytes, instance_type: str | None = TYPE, efa_interfaces: int | None = len(DOMAINS)
) -> list[DeepResult]:
    return list(DeepChecks().read(found, 4, instance_type, efa_interfaces)[1])


def test_a_good_instance_passes_each_test_with_its_figures() -> None:
    assert results(output()) == [
        DeepResult(True, "nccl-all-reduce passed: 235.4 GB/s bus bandwidth; at least 180 expected"),
        DeepResult(True, "efa-loopback passed: 4 EFA devices; the slowest has 6102 MB/s"),
    ]
    assert DeepChecks().read(output(), 4, TYPE)[0].strip() == b'{"DCGM Diagnostic": {}}'
    assert all(one.passed for one in results(output(), f"ml.{TYPE}"))


def test_below_level_4_no_test_runs() -> None:
    assert DeepChecks().script(3) == ()
    assert DeepChecks().seconds(3) == 0
    assert DeepChecks().read(b"report", 3, TYPE) == (b"report", [])


@pytest.mark.parametrize("text", [nccl(wrong=3), nccl(gpus=7), nccl(99.0).replace("213.97", "101.5")])
def test_wrong_values_missing_gpus_and_low_bandwidth_fail(text: str) -> None:
    assert results(output(nccl_text=text))[0].passed is False


def test_wrong_values_fail_although_the_tool_exits_with_an_error() -> None:
    assert results(output(nccl_text=nccl(wrong=3), statuses=(1, 0)))[0].passed is False


def test_the_slower_of_out_of_place_and_in_place_counts() -> None:
    assert read_all_reduce(nccl(240.0, in_place=90.0)).gigabytes_per_second == pytest.approx(213.97)


UNUSABLE = {
    "nothing": " ",
    "cut off": nccl()[: nccl().index("# Out of")],
    "cut off before the average": nccl()[: nccl().index("# Avg")],
    "no row": "".join(line for line in nccl().splitlines(keepends=True) if not line.startswith("  ")),
    "not a number": nccl().replace("235.42", "   nan"),
    "infinite": nccl().replace("235.42", "   inf"),
    "negative": nccl().replace("235.42", "-235.4"),
    "not checked": nccl().replace("      0\n", "    N/A\n"),
    "twice": nccl() + nccl(),
    "no ranks": nccl(gpus=0),
    "an error": "test NCCL failure common.cu:958 'unhandled cuda error (run with NCCL_DEBUG=INFO for details)'\n",
}


@pytest.mark.parametrize("text", UNUSABLE.values(), ids=UNUSABLE.keys())
@pytest.mark.parametrize("status", [0, 2])
def test_a_result_that_cannot_be_used_is_not_verified(text: str, status: int) -> None:
    found = results(output(nccl_text=text, statuses=(status, 0)))[0]
    assert found.passed is None
    assert found.line.startswith("nccl-all-reduce not verified: ")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (124, "not complete after"),
        (137, "not complete after"),
        (127, "its tool did not start"),
        (3, "exit status 3"),
    ],
)
def test_a_test_that_did_not_end_well_is_not_verified_whatever_it_printed(status: int, reason: str) -> None:
    for found in results(output(statuses=(status, status))):
        assert found.passed is None
        assert reason in found.line


@pytest.mark.parametrize("instance_type", ["g5.48xlarge", "", None])
def test_an_instance_type_without_thresholds_is_not_verified(instance_type: str | None) -> None:
    assert [one.passed for one in results(output(), instance_type)] == [None, None]


def test_a_truncated_output_verifies_nothing_that_it_lacks() -> None:
    whole = output()
    for end in range(len(whole)):
        found = results(whole[:end])
        assert found[1].passed is None or end >= len(whole) - 2
        assert found[0].passed is not False


def test_a_repeated_section_verifies_nothing() -> None:
    assert results(output() + output())[0].passed is None


EFA = {
    "one device fails": (loopback(DOMAINS[:3]) + f"domain: {DOMAINS[3]}\nfi_endpoint: -12\nexit: 1\n", False),
    "one device is missing": (loopback(DOMAINS[:3]), False),
    "messages are lost": (loopback(DOMAINS[:3]) + loopback(DOMAINS[3:], ROW.replace("=100", "97")), False),
    "no device": (" ", None),
    "all fail": (loopback(row="fi_connect: Connection refused\n", status=111), None),
    "one device takes too long": (loopback(DOMAINS[:3]) + loopback(DOMAINS[3:], status=124), None),
    "one device is killed": (loopback(DOMAINS[:3]) + loopback(DOMAINS[3:], status=137), None),
    "one device fails and one takes too long": (
        loopback(DOMAINS[:2]) + loopback(DOMAINS[2:3], status=1) + loopback(DOMAINS[3:], status=124),
        False,
    ),
    "cut off": (loopback()[: -len("exit: 0\n")], None),
    "no row": (loopback(row=""), None),
    "a device twice": (loopback(DOMAINS[:2] * 2), None),
}


@pytest.mark.parametrize(("text", "passed"), EFA.values(), ids=EFA.keys())
def test_a_failure_of_one_device_fails_and_one_of_all_is_not_verified(text: str, passed: bool | None) -> None:
    assert results(output(efa_text=text))[1].passed is passed


@pytest.mark.parametrize(
    ("listed", "attached", "passed"),
    [(2, 2, True), (1, 2, False), (4, 4, True), (3, 4, False), (4, None, True), (2, None, None), (1, 0, True)],
)
def test_an_instance_needs_as_many_devices_as_it_has_interfaces(
    listed: int, attached: int | None, passed: bool | None
) -> None:
    found = results(output(efa_text=loopback(DOMAINS[:listed])), efa_interfaces=attached)[1]
    assert found.passed is passed


def test_an_instance_with_fewer_interfaces_than_its_type_has_passes_with_both_numbers() -> None:
    found = results(output(efa_text=loopback(DOMAINS[:2])), efa_interfaces=2)[1]
    text = "efa-loopback passed: 2 EFA devices; the slowest has 6102 MB/s; the instance type has 4"
    assert found == DeepResult(True, text)


def test_a_missing_device_is_stated_with_the_attached_interfaces() -> None:
    found = results(output(efa_text=loopback(DOMAINS[:2])), efa_interfaces=3)[1]
    assert found == DeepResult(False, "efa-loopback failed: 2 of 3 EFA devices work")


@pytest.mark.parametrize(("instance_type", "refused"), [(TYPE, False), (f"ml.{TYPE}", False), ("g5.48xlarge", True)])
def test_only_a_type_without_thresholds_is_refused(instance_type: str, refused: bool) -> None:
    reason = DeepChecks().refusal(instance_type)
    assert bool(reason) is refused
    assert (instance_type in reason) is refused


def test_an_unknown_type_is_stated_as_unknown() -> None:
    assert results(output(), None)[0].line == "nccl-all-reduce not verified: instance type unknown"


def test_each_device_has_its_bandwidth_or_its_reason() -> None:
    text = loopback(DOMAINS[:1]) + f"domain: {DOMAINS[1]}\nfi_endpoint: -12\nexit: 1\n"
    assert read_loopback(text) == (
        Loopback(DOMAINS[0], 6102.44),
        Loopback(DOMAINS[1], None, "exit status 1: fi_endpoint: -12"),
    )


def test_a_device_that_printed_nothing_has_its_status_only() -> None:
    text = f"domain: {DOMAINS[0]}\nexit: 1\ndomain: {DOMAINS[1]}\n# retried after exit status 124\n\nexit: 124\n"
    assert read_loopback(text) == (
        Loopback(DOMAINS[0], None, "exit status 1"),
        Loopback(DOMAINS[1], None, "not complete in time", complete=False),
    )


@pytest.mark.parametrize(("text", "end"), [(" ", ""), ("fi_getinfo: -61 (No data available)\n", ": fi_getinfo: -61")])
def test_without_a_device_the_error_of_libfabric_is_stated(text: str, end: str) -> None:
    line = results(output(efa_text=text))[1].line
    assert line.removesuffix(" (No data available)") == f"efa-loopback not verified: libfabric lists no EFA device{end}"


@given(st.binary(max_size=300))
def test_noise_is_not_verified(noise: bytes) -> None:
    found = results(
        output(nccl_text=f" {noise.decode(errors='replace')}", efa_text=f" {noise.decode(errors='replace')}")
    )
    assert [one.passed for one in found] == [None, None]


def test_the_data_is_complete() -> None:
    assert {test.name for test in deep_tests()} == {"nccl-all-reduce", "efa-loopback"}
    for name, expected in expected_by_instance_type().items():
        assert gpus_by_instance_type()[name] > 1
        assert expected.nccl_gigabytes_per_second > 0
        assert expected.efa_devices > 0


@dataclass
class Instance:
    """An instance whose tools are fakes on the path; it has no other ones."""

    tools: Path

    def install(self, name: str, script: str) -> None:
        tool = self.tools / name
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)

    def verify(self, seconds: int = 20) -> list[DeepResult]:
        lines = script_of([replace(test, seconds=seconds) for test in deep_tests()])
        text = "\n".join(("echo '{\"DCGM Diagnostic\": {}}'", *lines))
        ran = subprocess.run(("/bin/sh", "-c", text), env={"PATH": str(self.tools)}, capture_output=True, check=False)
        assert ran.stderr == b""
        return results(ran.stdout)


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    for name in NEEDED:
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    made = Instance(tmp_path)
    made.install("sleep", "exit 0")
    made.install("nvidia-smi", 'for n in 0 1 2 3 4 5 6 7; do echo "GPU $n: NVIDIA A100-SXM4-40GB (UUID: GPU-$n)"; done')
    made.install("all_reduce_perf", f"""case "$*" in *"-g 8 "*) cat <<'END'\n{nccl()}END\n;; *) exit 9;; esac""")
    domains = "\n".join(
        f"provider: efa\n    fabric: efa\n    domain: {name}\n    version: 119.0\n    type: FI_EP_RDM"
        for name in DOMAINS
    )
    made.install("fi_info", f"cat <<'END'\n{domains}\n{domains}\nEND")
    made.install("fi_pingpong", f"cat <<'END'\n{HEADING}{ROW}END")
    return made


class TestScripts:
    def test_a_good_instance_passes(self, instance: Instance) -> None:
        assert [one.passed for one in instance.verify()] == [True, True]

    @pytest.mark.parametrize("tool", ["all_reduce_perf", "fi_info", "fi_pingpong"])
    def test_a_missing_tool_is_not_verified(self, instance: Instance, tool: str) -> None:
        (instance.tools / tool).unlink()
        missing = instance.verify()[0 if tool == "all_reduce_perf" else 1]
        assert missing.passed is None
        assert "its tool did not start: " in missing.line
        assert missing.line.endswith("not installed")

    def test_a_tool_without_a_library_is_not_verified_with_the_name_of_the_library(self, instance: Instance) -> None:
        error = "error while loading shared libraries: libmpi.so.40: cannot open shared object file"
        instance.install("all_reduce_perf", f'echo "all_reduce_perf: {error}" >&2; exit 127')
        assert instance.verify()[0].line.endswith(f"its tool did not start: all_reduce_perf: {error}")

    def test_a_test_that_hangs_is_ended_and_not_verified(self, instance: Instance) -> None:
        instance.install("all_reduce_perf", "while :; do :; done")
        found = instance.verify(seconds=1)
        assert found[0] == DeepResult(None, "nccl-all-reduce not verified: not complete after 300 seconds")
        assert found[1].passed

    def test_a_gpu_that_fell_off_the_bus_fails_the_test(self, instance: Instance) -> None:
        instance.install("nvidia-smi", 'for n in 0 1 2 3 4 5 6; do echo "GPU $n: NVIDIA A100-SXM4-40GB"; done')
        instance.install("all_reduce_perf", f"cat <<'END'\n{nccl(gpus=7)}END")
        assert instance.verify()[0].passed is False

    def test_a_device_without_loopback_fails_the_test(self, instance: Instance) -> None:
        answer = f"cat <<'END'\n{HEADING}{ROW}END"
        broken = f'case "$*" in *{DOMAINS[2]}*127.0.0.1) echo "fi_endpoint: -12"; exit 1;; esac\n{answer}'
        instance.install("fi_pingpong", broken)
        found = instance.verify()[1]
        assert found.passed is False
        assert f"{DOMAINS[2]}: exit status 1: fi_endpoint: -12" in found.line

    @pytest.mark.parametrize(("failures", "passed"), [(1, True), (2, False)])
    def test_a_device_is_tried_once_more(self, instance: Instance, failures: int, passed: bool) -> None:
        refused = f"""case "$*" in *{DOMAINS[2]}*127.0.0.1)
  echo x >> {instance.tools}/tried
  [ "$(grep -c x {instance.tools}/tried)" -gt {failures} ] || {{ echo "fi_connect: Connection refused"; exit 111; }};;
esac
cat <<'END'
{HEADING}{ROW}END"""
        instance.install("fi_pingpong", refused)
        assert instance.verify()[1].passed is passed

    def test_a_device_that_takes_too_long_twice_is_not_verified(self, instance: Instance) -> None:
        answer = f"cat <<'END'\n{HEADING}{ROW}END"
        late = f'case "$*" in *{DOMAINS[2]}*127.0.0.1) exit 124;; esac\n{answer}'
        instance.install("fi_pingpong", late)
        assert instance.verify()[1].passed is None

    def test_the_output_of_a_tool_cannot_end_its_section(self, instance: Instance) -> None:
        text = "#faultbridge end nccl-all-reduce 0"
        instance.install("all_reduce_perf", f"echo; echo '{text}'; exit 5")
        assert instance.verify()[0].passed is None

    def test_without_a_report_of_dcgm_the_tests_have_their_sections(self) -> None:
        before, sections = split(b"dcgmi: not found" + output()[len('{"DCGM Diagnostic": {}}') :])
        assert before.strip() == b"dcgmi: not found"
        assert set(sections) == {"nccl-all-reduce", "efa-loopback"}
