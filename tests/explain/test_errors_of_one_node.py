"""An error that a node, a service or a lost peer can cause does not stop a job; the same error on many ranks does."""

from __future__ import annotations

import pytest

from faultbridge.model.enums import Outlook
from tests.explain.verdicts import verdict

STEPS = "".join(f"2026-07-10 10:{minute:02d}:00 step {minute} loss=2.1\n" for minute in range(60))
NO_TIMES = "".join(f"step {number} loss=2.1\n" for number in range(800, 858))
PEER_LOST = (
    "RuntimeError: NCCL error in: x.cpp:9, remote process exited or there was a network error, ncclSystemError\n"
)
NO_GPU = (
    "[rank9]: RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False."
)
NO_PYTHON = "slurmstepd: error: execve(): /fsx/venv/bin/python: No such file or directory\n"
MMU = "2026-07-10T10:00:03+00:00 n-2 kernel: NVRM: Xid (PCI:0000:c1:00): 31, pid=9, name=python, MMU Fault\n"


@pytest.mark.parametrize(
    "error",
    [
        f"prolog: dcgmi exited with exit code 127\n{PEER_LOST}",
        "srun: error: node7: task 56: Exited with exit code 127",
        "post-hook: exit code=127",
        "RuntimeError: Timed out waiting for broadcast from rank 0",
        "RuntimeError: broadcast failed: peer closed the socket",
        "RuntimeError: shm_broadcast: no reader response, worker died",
        "RuntimeError: GPU clock out of range, device lost",
        "RuntimeError: Bad StatusOr access: RESOURCE_EXHAUSTED: dtype",
        f"checkpoint step_900 is corrupt, using step_800\n{NO_TIMES}{PEER_LOST}",
        f"[INFO] store: checkpoint checksum mismatch check enabled (checkpoint corrupt detection on)\n{PEER_LOST}",
        "RuntimeError: checkpoint upload cannot be read back: Connection reset by peer",
        f"{NO_PYTHON}srun: error: n-2: task 8: Exited with exit code 2",
        "[rank9]: RuntimeError: CUDA error: invalid argument",
        "[rank9]: ninja: build stopped: subcommand failed.",
        NO_GPU,
    ],
)
def test_an_error_that_one_node_or_a_peer_can_cause_does_not_stop_the_job(error: str) -> None:
    assert verdict(f"{error}\n").outlook is Outlook.RESTART
    assert verdict(f"{STEPS}2026-07-10 11:00:00 {error}\n").outlook is Outlook.RESTART


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: CUDA error: invalid argument",
        "RuntimeError: CUDA error: invalid device function",
        "ninja: build stopped: subcommand failed.",
        NO_PYTHON.strip(),
    ],
)
def test_the_same_error_on_ranks_of_several_nodes_stops_the_job(error: str) -> None:
    assert verdict("".join(f"[rank{rank}]: {error}\n" for rank in (0, 8, 16))).outlook is Outlook.STOP
    assert verdict("".join(f"[rank{rank}]: {error}\n" for rank in (8, 9, 10))).outlook is Outlook.RESTART


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: CUDA error: too many resources requested for launch",
        "RuntimeError: CUDA error: invalid configuration argument",
        "RuntimeError: Checkpoint is corrupted: checksum mismatch in mp_rank_00",
        "RuntimeError: index 7 is out of bounds for dimension 0 with size 5",
        "bash: line 3: torchrun: command not found\nsrun: error: n-1: task 0: Exited with exit code 127",
    ],
)
def test_an_error_that_only_the_program_or_its_files_can_cause_stops_the_job(error: str) -> None:
    assert verdict(f"{error}\n").outlook is Outlook.STOP


def test_the_xid_of_a_node_comes_before_a_call_that_cuda_then_refused() -> None:
    found = verdict("2026-07-10 10:00:05 [rank9]: RuntimeError: CUDA error: invalid argument\n", MMU)
    assert found.cause is not None
    assert (found.cause.mechanism.name, found.cause.lead.name) == ("illegal_access", "xid.31")
    assert (found.outlook, found.hardware.state) == (Outlook.RESTART, "undetermined")


def test_a_node_without_a_gpu_is_to_be_tested() -> None:
    assert verdict(f"{NO_GPU}\n").check == ("n-2",)


def test_a_restart_count_before_an_error_does_not_hide_it() -> None:
    error = "[rank3] RuntimeError: CUDA error: uncorrectable ECC error encountered"
    assert verdict(f"[restart count 0] {error}\n").domain == "hardware"
    assert verdict(f"restart count 1/5, last error: {error}\n").domain == "unknown"


NO_FILE = "FileNotFoundError: [Errno 2] No such file or directory: '/fsx/data/shard-0001.bin'"
NO_DRIVER = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"
EVICTED = "LustreError: 167-0: fsx-MDT0000-mdc: This client was evicted by fsx-MDT0000"


def on_ranks(error: str, ranks: range) -> str:
    return "".join(f"2026-07-10 11:00:00 [rank{rank}]: {error}\n" for rank in ranks)


@pytest.mark.parametrize("error", [NO_FILE, "KeyError: 'labels'"])
@pytest.mark.parametrize("kernel", ["", f"2026-07-10T10:59:55+00:00 n-2 kernel: {EVICTED}\n"], ids=["alone", "evicted"])
def test_an_error_of_all_ranks_of_one_node_does_not_stop_the_job_although_other_ranks_are_silent(
    error: str, kernel: str
) -> None:
    found = verdict(STEPS + on_ranks(error, range(8, 16)), kernel)
    assert (found.outlook, found.hardware.state) == (Outlook.RESTART, "undetermined")
    assert verdict(STEPS + on_ranks(error, range(8, 32)), kernel).outlook is Outlook.STOP


def test_an_error_of_few_ranks_of_a_node_stops_the_job() -> None:
    assert verdict(STEPS + on_ranks("KeyError: 'labels'", range(8, 10))).outlook is Outlook.STOP
    assert (
        verdict(on_ranks("KeyError: 'labels'", range(8)), nodes=dict.fromkeys(range(8), "n-1")).outlook is Outlook.STOP
    )


@pytest.mark.parametrize(
    "error",
    [NO_DRIVER, "python: error while loading shared libraries: libnvidia-ml.so.1: cannot open shared object file"],
)
@pytest.mark.parametrize("ranks", [range(8, 16), range(9, 10), range(32)], ids=["a node", "a rank", "all ranks"])
def test_a_missing_library_of_the_gpu_driver_is_a_restart_after_a_test_of_its_nodes(error: str, ranks: range) -> None:
    found = verdict(on_ranks(error, ranks))
    assert (found.outlook, found.domain) == (Outlook.RESTART, "platform")
    assert found.check == tuple(sorted({f"n-{1 + rank // 8}" for rank in ranks}))


def test_a_missing_library_of_the_program_still_stops_the_job() -> None:
    text = NO_DRIVER.replace("libcuda", "libcudart")
    assert verdict(on_ranks(text, range(9, 10))).outlook is Outlook.STOP
