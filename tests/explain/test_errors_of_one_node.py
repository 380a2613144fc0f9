"""An error that a node, a service or a lost peer can cause does not stop a job; the same error on many ranks does."""

from __future__ import annotations

import pytest

from faultbridge.explain.verdict.mechanisms import Outlook
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
    assert (found.outlook, found.hardware.state) == (Outlook.RESTART, "not_shown")


def test_a_node_without_a_gpu_is_to_be_tested() -> None:
    assert verdict(f"{NO_GPU}\n").check == ("n-2",)


def test_a_restart_count_before_an_error_does_not_hide_it() -> None:
    error = "[rank3] RuntimeError: CUDA error: uncorrectable ECC error encountered"
    assert verdict(f"[restart count 0] {error}\n").domain == "hardware"
    assert verdict(f"restart count 1/5, last error: {error}\n").domain == "unknown"
