"""An error stops a job only if it ended it: laws for every text that can stop a job, with steps or a hang around it."""

from __future__ import annotations

import pytest

from faultbridge.explain.signals.signal import LogPattern
from faultbridge.model.enums import Outlook
from tests.explain.verdicts import BOOK, verdict
from tests.loops import for_each

HANG = "[rank0]:[E321 02:07:08.408 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout\n"
STOPS = {name for one in BOOK.mechanisms if one.outlook is Outlook.STOP for name in one.initiators}
LINES = [(one, line) for one in BOOK.patterns if one.name in STOPS for line in one.cases]
ERRORS = [
    f"[rank3]: {error}\n"
    for error in (
        "KeyError: 'label'",
        "ImportError: no x",
        "FileNotFoundError: /x",
        "torch.OutOfMemoryError: CUDA out of memory.",
    )
]


def steps(first: int, last: int, at: str = "") -> str:
    return "".join(f"{at}step {number} loss=2.1 lr=3e-4\n" for number in range(first, last))


@for_each(("pattern", "line"), LINES, ids=lambda one: one.name if isinstance(one, LogPattern) else "")
def test_no_error_after_which_the_job_made_steps_stops_it(pattern: LogPattern, line: str) -> None:
    assert verdict(f"{steps(1, 5)}{line}\n{steps(5, 8)}{HANG}").outlook is Outlook.RESTART


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_after_the_last_step_stops_the_job(error: str) -> None:
    assert verdict(f"{steps(1, 5)}{error}").outlook is Outlook.STOP
    assert verdict(f"{steps(1, 5)}{error}step 5 loss=2.1 lr=3e-4\n").outlook is Outlook.STOP
    assert verdict(f"{steps(1, 5)}{error}{'dump of step 4, time 3 s' * 3}\n").outlook is Outlook.STOP


@pytest.mark.parametrize("error", ERRORS)
def test_steps_that_a_program_printed_late_are_older_than_the_error(error: str) -> None:
    error = f"2026-07-10 10:05:00 {error}"
    assert verdict(error + steps(5, 9, "2026-07-10 10:00:00 ")).outlook is Outlook.STOP
    assert verdict(error + steps(5, 9, "2026-07-10 10:06:00 ")).outlook is Outlook.RESTART


@pytest.mark.parametrize("error", ERRORS)
def test_steps_that_a_program_may_have_kept_back_until_it_ended_do_not_show_that_an_error_was_survived(
    error: str,
) -> None:
    lost = (
        "[rank0]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error\n"
    )
    assert verdict(f"{error}{steps(1, 31)}{lost}").outlook is Outlook.STOP
    assert verdict(f"{error}{steps(1, 31)}").outlook is Outlook.STOP
    summary = "".join(f"memory summary: iteration {number} forward time 3 ms\n" for number in range(1, 4))
    assert verdict(f"{error}{summary}").outlook is Outlook.STOP


def test_a_fault_of_a_gpu_before_steps_without_times_stays_the_cause() -> None:
    ecc = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    assert verdict(f"starting, world_size=8\n{ecc}{steps(1, 31)}").domain == "hardware"


@pytest.mark.parametrize("error", ERRORS)
def test_steps_between_an_error_and_another_first_sign_or_a_hang_show_that_it_was_survived(error: str) -> None:
    preempted = "JobState=PREEMPTED Reason=None\n"
    found = verdict(f"{error}{steps(1, 5)}{preempted}")
    assert (found.outlook, found.domain) == (Outlook.RESTART, "platform")
    assert verdict(f"{error}{steps(1, 5)}{HANG}").outlook is Outlook.RESTART


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_after_the_ranks_had_waited_in_vain_does_not_stop_the_job(error: str) -> None:
    assert verdict(HANG + error).outlook is Outlook.RESTART
    assert verdict(error + HANG).outlook is Outlook.STOP


def test_an_interruption_of_a_job_that_had_failed_is_no_cancellation() -> None:
    assert verdict("KeyboardInterrupt\n").outlook is Outlook.STOP
    assert verdict(f"{HANG}KeyboardInterrupt\n").outlook is Outlook.RESTART
    assert verdict("OSError: [Errno 116] Stale file handle: '/fsx/x'\nKeyboardInterrupt\n").domain == "storage"


def test_a_job_that_made_twenty_steps_had_started_well() -> None:
    killed = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\n"
    assert verdict(f"{steps(1, 5)}{killed}").outlook is Outlook.STOP
    assert (
        verdict(f"step 41000 loss=2.1\nstep 41010 loss=2.1\nstep 41020 loss=2.1\n{killed}").outlook is Outlook.RESTART
    )


def test_a_number_that_is_only_mentioned_is_no_step_that_was_made() -> None:
    access = "".join(
        f"[rank{rank}]: RuntimeError: CUDA error: an illegal memory access was encountered\n" for rank in (0, 1)
    )
    loaded = "loading the checkpoint of iteration 0 took time 3\n"
    assert verdict(f"{loaded}step 5000 loss=2.1\n{access}").outlook is Outlook.STOP
    assert verdict(f"{loaded}step 5000 loss=2.1\nstep 5001 loss=2.1\n{access}").outlook is Outlook.STOP
    assert verdict(f"{loaded}{steps(5000, 5030)}{access}").outlook is Outlook.RESTART


CHAIN = "[rank3]: During handling of the above exception, another exception occurred:\n"


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    "first",
    [
        "OSError: [Errno 116] Stale file handle: '/fsx/x'",
        "RuntimeError: CUDA error: unspecified launch failure",
        "acme.net.ReplyTimeoutError: no reply",
    ],
)
def test_an_error_raised_while_another_one_was_handled_does_not_stop_the_job(first: str, error: str) -> None:
    frames = '[rank3]: Traceback (most recent call last):\n[rank3]:   File "/opt/x.py", line 7, in close\n'
    assert verdict(f"[rank3]: {first}\n{CHAIN}{frames}{error}").outlook is Outlook.RESTART
    assert verdict(f"[rank3]: KeyError: 'x'\n{CHAIN}{frames}{error}").outlook is Outlook.STOP


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_of_a_rank_that_had_lost_its_peers_does_not_stop_the_job(error: str) -> None:
    lost = "[rank{}]: RuntimeError: NCCL communicator was aborted on rank 3.\n"
    assert verdict(lost.format(3) + error).outlook is Outlook.RESTART
    assert verdict(lost.format(5) + error).outlook is Outlook.STOP


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_beside_one_that_only_hardware_has_does_not_stop_the_job(error: str) -> None:
    assert verdict(f"[rank9]: CUDA error: uncorrectable ECC error encountered\n{error}").outlook is Outlook.RESTART


@pytest.mark.parametrize(
    "message",
    [
        "checksum mismatch for shard 7",
        "expected 900 bytes, got 8",
        "expected 32 members, got 31: a peer did not join",
        "all ranks must reach the barrier",
        "driver/library version mismatch",
        "the server must be restarted",
    ],
)
def test_words_of_a_rule_do_not_stop_a_job_where_something_outside_the_program_breaks_it(message: str) -> None:
    assert verdict("[rank3]: RuntimeError: the batch size must be even\n").outlook is Outlook.STOP
    assert verdict(f"[rank3]: RuntimeError: {message}\n").outlook is Outlook.RESTART
