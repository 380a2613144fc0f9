"""An NCCL all-reduce over two instances: its script and program with a fake PyTorch, and what its output decides.

No part has run on a GPU or an EFA device.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.adapters.ec2.commands import OUTPUT_CHARACTERS
from faultbridge.decode.verification import DeepResult, PeerChecks, expected_by_instance_type, peer_tests
from tests.decoders.deep_checks import DOMAINS, HEADING, ROW, TYPE, loopback
from tests.decoders.peer_pair import EFA_PASSED, LISTENING, NCCL_LOG, NCCL_PASSED, SERVER, Pair, all_reduce, both, row

pytestmark = pytest.mark.slow

MISSING = "nccl-peer-pair not verified: its tool did not start"
OLDER_LOG = NCCL_LOG.replace("network Libfabric", "network AWS Libfabric").replace("Selected p", "Selected P")
SOCKET_LOG = """ip-10-0-0-8:8715:9546 [0] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so)
ip-10-0-0-8:8715:9546 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.8<0>
ip-10-0-0-8:8715:9546 [0] NCCL INFO Using network Socket
"""


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


class TestAllReduce:
    """The program runs as it is, with a fake PyTorch: one process stands for all ranks."""

    def test_only_the_client_prints_one_line_for_each_size(self, pair: Pair) -> None:
        assert b'{"step"' not in pair.run("server")
        rows = [json.loads(line) for line in pair.run("client").splitlines() if line.startswith(b"{")]
        assert [(row["step"], row["steps"], row["bytes"]) for row in rows] == [
            (1, 3, 1 << 28),
            (2, 3, 1 << 29),
            (3, 3, 1 << 30),
        ]
        # The slowest rank takes 10 ms; the bus bandwidth of an all-reduce is 2 (n-1)/n of bytes by time.
        assert [row["gigabytes_per_second"] for row in rows] == [50.33, 100.66, 201.33]
        assert {(row["ranks"], row["wrong"], row["efa"], row["network"]) for row in rows} == {
            (16, 0, 16, "Libfabric efa")
        }

    def test_nothing_is_left_on_the_instances(self, pair: Pair) -> None:
        assert pair.result().passed
        assert list((pair.folder / "temporary").iterdir()) == []

    def test_the_log_of_older_versions_of_the_plugin_shows_efa_too(self, pair: Pair) -> None:
        pair.install_python("client", log=OLDER_LOG)
        assert pair.result(5) == DeepResult(True, f"{EFA_PASSED}; {NCCL_PASSED}")

    def test_wrong_values_fail(self, pair: Pair) -> None:
        pair.install_python("client", fault="wrong value")
        assert pair.result() == DeepResult(False, "nccl-peer-pair failed: the GPUs computed wrong values")

    def test_gpus_that_are_missing_on_both_fail(self, pair: Pair) -> None:
        for host in ("server", "client"):
            pair.install_python(host, gpus=7)
        assert pair.result() == DeepResult(False, "nccl-peer-pair failed: 14 of 16 GPUs took part")

    @pytest.mark.parametrize(
        ("log", "network"),
        [
            (SOCKET_LOG, "Socket"),
            (NCCL_LOG + SOCKET_LOG, "Libfabric Socket efa"),
            (NCCL_LOG.replace("provider is efa", "provider is tcp"), "Libfabric tcp"),
            (NCCL_LOG.splitlines()[1], "Libfabric"),
            ("", "unknown"),
            (f"{'x' * (1 << 20)}\n{NCCL_LOG}", "unknown"),
        ],
        ids=["sockets", "two networks", "another provider", "no provider", "no log", "a log that is too long"],
    )
    @pytest.mark.parametrize("level", [4, 5])
    def test_a_run_that_does_not_show_efa_is_not_verified(self, pair: Pair, log: str, network: str, level: int) -> None:
        pair.install_python("client", log=log)
        line = f"0 of 16 GPUs used EFA; the network of one of them was {network}"
        assert pair.result(level) == DeepResult(None, f"nccl-peer-pair not verified: {line}")

    def test_one_gpu_without_efa_is_not_verified(self, pair: Pair) -> None:
        pair.install_python("client", fault="one rank over sockets")
        found = pair.result()
        assert found.passed is None
        assert "15 of 16 GPUs used EFA" in found.line

    @pytest.mark.parametrize(
        ("fault", "reason"),
        [("no cuda", "PyTorch finds no CUDA device"), ("no nccl", "PyTorch is built without NCCL")],
    )
    @pytest.mark.parametrize(("level", "passed"), [(4, True), (5, None)])
    def test_without_cuda_or_nccl_level_4_passes_by_efa_and_level_5_has_no_result(
        self, pair: Pair, fault: str, reason: str, level: int, passed: bool | None
    ) -> None:
        pair.install_python("client", fault=fault)
        line = f"{MISSING}: {reason}"
        assert pair.result(level) == DeepResult(passed, f"{EFA_PASSED}; {line}" if passed else line)

    def test_without_python_the_reason_is_stated(self, pair: Pair) -> None:
        (pair.folder / "client" / "python3").unlink()
        assert pair.result() == DeepResult(True, f"{EFA_PASSED}; {MISSING}: PyTorch is not installed")

    def test_without_pytorch_the_error_of_python_is_stated(self, pair: Pair) -> None:
        pair.install("client", "python3", f'exec {sys.executable} -S -I "$@"')
        assert pair.result().line.endswith(f"{MISSING}: ModuleNotFoundError: No module named 'torch'")

    @pytest.mark.parametrize("lack", ["listed", "there"])
    def test_without_the_plugin_of_aws_nothing_runs_over_sockets(self, pair: Pair, lack: str) -> None:
        if lack == "listed":
            pair.install("client", "ldconfig", "exit 0")
        else:
            (pair.folder / "libnccl-net.so").unlink()
        assert pair.result().line.endswith(f"{MISSING}: AWS's OFI NCCL plugin is not installed")

    @pytest.mark.parametrize(
        "folder",
        ["amazon/ofi-nccl/lib", "amazon/ofi-nccl/lib64", "amazon/ofi-nccl/lib/x86_64-linux-gnu", "aws-ofi-nccl/lib"],
    )
    def test_the_plugin_is_found_where_the_efa_installer_has_it(self, pair: Pair, folder: str) -> None:
        pair.install("client", "ldconfig", "exit 0")
        pair.install("client", f"opt/{folder}/libnccl-net.so", "")
        assert pair.result(5).passed is True

    @pytest.mark.parametrize("folder", ["pytorch", "conda/envs/pytorch"])
    def test_the_python_of_a_deep_learning_ami_comes_first(self, pair: Pair, folder: str) -> None:
        pair.install("client", "python3", "exit 9")
        pair.install_python("client", name=f"opt/{folder}/bin/python")
        assert pair.result(5).passed is True

    def test_another_python_is_used_if_the_first_one_has_no_cuda(self, pair: Pair) -> None:
        pair.install_python("client", fault="no cuda", name="opt/pytorch/bin/python")
        assert pair.result(5).passed is True

    def test_the_reason_of_the_first_python_is_stated(self, pair: Pair) -> None:
        pair.install_python("client", fault="no cuda", name="opt/pytorch/bin/python")
        pair.install("client", "python3", f'exec {sys.executable} -S -I "$@"')
        assert pair.result().line.endswith(f"{MISSING}: PyTorch finds no CUDA device")

    def test_a_failure_of_efa_fails_whether_or_not_pytorch_is_installed(self, pair: Pair) -> None:
        broken = f'case "$all" in *{DOMAINS[2]}*) exit 5;; esac'
        pair.install("client", "fi_pingpong", f"{LISTENING}{broken}\ncat <<'END'\n{HEADING}{ROW}END")
        pair.install_python("client", fault="no nccl")
        assert pair.result().passed is False

    def test_a_peer_without_pytorch_does_not_answer(self, pair: Pair) -> None:
        pair.install_python("server", fault="no nccl")
        reason = f"The client socket has timed out after 120000ms while trying to connect to ({SERVER}, 47600)."
        assert pair.result() == DeepResult(
            None, f"nccl-peer-pair not verified: exit status 1: torch.distributed.DistNetworkError: {reason}"
        )

    def test_a_run_that_ends_with_an_error_is_not_verified_whatever_it_printed(self, pair: Pair) -> None:
        pair.install_python("client", fault="fails at the end")
        found = pair.result()
        assert found == DeepResult(
            None, "nccl-peer-pair not verified: exit status 1: RuntimeError: NCCL communicator was aborted on rank 8."
        )

    def test_a_test_that_hangs_is_ended_and_not_verified(self, pair: Pair) -> None:
        pair.install("client", "python3", "while :; do :; done")
        output = pair.run("client", seconds=1)
        found = PeerChecks().read(output, 4, TYPE, len(DOMAINS))
        assert found.passed is None
        assert "nccl-peer-pair not verified: not complete after 360 seconds" in found.line

    def test_the_output_of_a_program_that_prints_too_much_is_bounded(self, pair: Pair) -> None:
        pair.install("client", "python3", "[ $1 = -c ] || { cat /dev/zero | head -c 1000000; exit 1; }")
        assert len(pair.run("client")) < OUTPUT_CHARACTERS // 2


def read(output: bytes, level: int = 5, interfaces: int | None = len(DOMAINS)) -> DeepResult:
    return PeerChecks().read(output, level, TYPE, interfaces)


HOSTILE = {
    "nothing": " ",
    "one size is missing": row(1) + row(3),
    "the last size is missing": row(1) + row(2),
    "the first size is missing": row(2) + row(3),
    "a size twice": row(1) + row(2) + row(2) + row(3),
    "all twice": all_reduce() * 2,
    "another number of sizes": row(1) + row(2, steps=2) + row(3),
    "another number of GPUs": row(1) + row(2, ranks=8, efa=8) + row(3),
    "not a number": all_reduce().replace("40.0", "NaN"),
    "infinite": all_reduce().replace("40.0", "Infinity"),
    "negative": all_reduce().replace("40.0", "-40.0"),
    "an exponent": all_reduce().replace("40.0", "4.0e9"),
    "a text": all_reduce().replace("40.0", '"40.0"'),
    "true": all_reduce().replace('"wrong": 0', '"wrong": false'),
    "null": all_reduce().replace('"wrong": 0', '"wrong": null'),
    "a huge number": all_reduce().replace("40.0", "9" * 5000 + ".0"),
    "other digits": all_reduce().replace("40.0", "\u0664\u0660.\u0660"),
    "a field is missing": all_reduce().replace('"wrong": 0, ', ""),
    "a field twice": all_reduce().replace('"wrong": 0', '"wrong": 1, "wrong": 0'),
    "a bad line beside": all_reduce() + '{"step": 4, "wrong": 9}\n',
    "cut off": all_reduce()[:-3],
    "nested": "[" * 100_000,
}


class TestResult:
    @pytest.mark.parametrize(
        ("efa", "nccl", "level_4", "level_5"),
        [
            (0, 0, True, True),
            (0, 127, True, None),
            (0, 1, None, None),
            (0, 124, None, None),
            (0, 137, None, None),
            (127, 0, None, None),
            (124, 0, None, None),
            (127, 127, None, None),
        ],
    )
    def test_only_missing_tools_of_nccl_are_excused_and_only_below_level_5(
        self, efa: int, nccl: int, level_4: bool | None, level_5: bool | None
    ) -> None:
        output = both(statuses=(efa, nccl))
        assert (read(output, 4).passed, read(output, 5).passed) == (level_4, level_5)

    @pytest.mark.parametrize("other", [0, 1, 124, 127])
    def test_a_failure_of_either_test_fails(self, other: int) -> None:
        broken = loopback(DOMAINS[:3])
        for level in (4, 5):
            assert read(both(efa_text=broken, statuses=(0, other)), level).passed is False
            assert read(both(nccl_text=all_reduce(1.0), statuses=(other, 0)), level).passed is False

    @pytest.mark.parametrize(
        ("speed", "interfaces", "passed"),
        [(25.0, 4, True), (24.9, 4, False), (12.5, 2, True), (12.4, 2, False), (25.0, None, True), (24.9, None, None)],
    )
    def test_the_bandwidth_that_is_needed_follows_the_attached_interfaces(
        self, speed: float, interfaces: int | None, passed: bool | None
    ) -> None:
        devices = DOMAINS[: interfaces or len(DOMAINS)]
        found = read(both(efa_text=loopback(devices), nccl_text=all_reduce(speed)), interfaces=interfaces)
        assert found.passed is passed
        assert ("the number of attached EFA interfaces is unknown" in found.line) is (passed is None)

    def test_more_interfaces_than_the_type_has_need_no_more_bandwidth(self) -> None:
        many = tuple(f"rdmap{number}s27-rdm" for number in range(8))
        assert read(both(efa_text=loopback(many), nccl_text=all_reduce(25.0)), interfaces=8).passed is True

    def test_without_the_number_of_interfaces_wrong_values_and_missing_gpus_still_fail(self) -> None:
        assert read(both(nccl_text=all_reduce(1.0, wrong=1)), interfaces=None).passed is False
        assert read(both(nccl_text=all_reduce(1.0, ranks=15)), interfaces=None).passed is False

    def test_wrong_values_fail_over_any_network(self) -> None:
        assert read(both(nccl_text=all_reduce(wrong=1, efa=0))).passed is False

    def test_the_best_size_counts_and_wrong_values_of_any_size(self) -> None:
        assert read(both(nccl_text=row(1, speed=1.0) + row(2, speed=40.0) + row(3, speed=1.0))).passed is True
        assert read(both(nccl_text=row(1, wrong=1) + row(2) + row(3))).passed is False
        assert read(both(nccl_text=row(1, efa=15) + row(2) + row(3))).passed is None

    @pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
    def test_a_result_that_cannot_be_used_is_not_verified(self, text: str) -> None:
        found = read(both(nccl_text=text), 4)
        assert found.passed is None
        assert found.line.startswith("nccl-peer-pair not verified: the all-reduce printed no complete result")

    @given(st.text(max_size=300))
    def test_noise_is_not_verified(self, noise: str) -> None:
        assert read(both(nccl_text=f" {noise}"), 4).passed is None

    @given(st.text(max_size=40), st.integers(0, 600))
    def test_noise_within_a_result_never_fails(self, noise: str, at: int) -> None:
        text = all_reduce()
        assert read(both(nccl_text=f"{text[:at]}{noise}\n{text[at:]}"), 4).passed is not False

    @given(
        st.floats(0, 999_999).map(lambda speed: round(speed, 2)).filter(lambda speed: speed == 0 or speed >= 0.01),
        st.integers(1, 64),
        st.integers(0, 9),
        st.integers(0, 64),
    )
    def test_only_correct_values_of_all_gpus_over_efa_with_enough_bandwidth_pass(
        self, speed: float, ranks: int, wrong: int, efa: int
    ) -> None:
        found = read(both(nccl_text=all_reduce(speed, ranks=ranks, wrong=wrong, efa=efa)))
        assert (found.passed is True) == (speed >= 25 and ranks == 16 and not wrong and efa == ranks)
        assert (found.passed is None) == (not wrong and efa != ranks)

    def test_a_truncated_output_neither_passes_nor_fails(self) -> None:
        whole = both()
        for end in range(len(whole) - 2):
            assert read(whole[:end], 4).passed is None


def test_the_script_fits_into_a_command_of_ssm() -> None:
    # A document of SSM and the parameters of a command may have 64 KB together; the document itself has about 2 KB.
    assert len(json.dumps(PeerChecks().script("255.255.255.255"))) < 32_000


def test_the_data_of_the_pair_is_complete() -> None:
    assert [(test.name, test.optional_below) for test in peer_tests()] == [("efa-peer-pair", 0), ("nccl-peer-pair", 5)]
    for expected in expected_by_instance_type().values():
        assert 0 < expected.nccl_pair_gigabytes_per_second < expected.nccl_gigabytes_per_second
