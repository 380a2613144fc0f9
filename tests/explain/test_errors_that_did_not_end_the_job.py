"""STOP needs an error that would come again: one that its process survived, or that one node has, is no proof."""

from __future__ import annotations

import pytest

from faultbridge.explain.signals.job_log import handled
from faultbridge.model.enums import Outlook
from tests.explain.verdicts import verdict

FRAMES = 'Traceback (most recent call last):\n  File "/opt/x.py", line 7, in run\n    poll()\n    ^^^^^^\n'
DEATH = "failed (exitcode: 1) local_rank: 0 (pid: 9) of binary: /usr/bin/python\n"


@pytest.mark.parametrize(
    "text",
    [
        f"Exception in thread Thread-4 (poll):\n{FRAMES}KeyError: 'health'\n",
        f"Exception ignored in: <function Loader.__del__ at 0x7f20>\n{FRAMES}AttributeError: no attribute 'x'\n",
        f"Error in atexit._run_exitfuncs:\n{FRAMES}KeyError: 'x'\n",
        f"Task exception was never retrieved\nfuture: <Task finished name='Task-7'>\n{FRAMES}KeyError: 'x'\n",
        f"--- Logging error ---\n{FRAMES}TypeError: not all arguments converted\n",
        'Traceback (most recent call last):\n  File "/lib/multiprocessing/resource_tracker.py", line 2, in m\n'
        "    cache[rtype].remove(name)\nKeyError: '/psm_1'\n",
        "2026-07-10 10:00:00 WARNING fused kernels are off: ImportError: no module\n",
        "UserWarning: fused kernels are off: ModuleNotFoundError: No module named 'x'\n",
        f"ERROR the upload of the metrics failed, retrying in 5 s\n{FRAMES}KeyError: 'x'\n",
        f"{FRAMES}KeyError: 'x'\nskipping shard 7\n",
        "ValueError: shard 7 has no column (ignored)\n",
        "step 7 loss nan -> non-finite loss, step skipped, scale 65536 -> 32768\n",
        "WARNING:megatron.core.rerun_state_machine:Unexpected result nan on rank 5 at iteration #7 invocation #1 "
        "(message='found NaN in local forward loss calculation')\n",
        f"Exception in thread Thread-4:\n{FRAMES}OSError: x\n\nDuring handling of the above exception, another "
        f"exception occurred:\n\n{FRAMES}KeyError: 'x'\n",
        "NCCL INFO NET/Plugin: libnccl-net.so: cannot open shared object file: No such file or directory\n",
        "slurm_script: line 7: nvidia-smi: command not found\n",
    ],
)
def test_an_error_that_its_process_survived_does_not_stop_the_job(text: str) -> None:
    assert verdict(text).outlook is Outlook.RESTART
    assert verdict(text + DEATH).outlook is Outlook.RESTART


@pytest.mark.parametrize(
    "text",
    [
        f"{FRAMES}KeyError: 'health'\n",
        f"2026-07-10 10:00:00 WARNING the cache is cold\n{FRAMES}KeyError: 'x'\n",
        f"Exception in thread Thread-4:\n{FRAMES}OSError: x\n{FRAMES}KeyError: 'x'\n",
        f"giving up: no retry left\n{FRAMES}KeyError: 'x'\n",
        f"[rank1]: Exception in thread Thread-4:\n{FRAMES}KeyError: 'x'\n",
    ],
)
def test_an_error_that_ended_its_process_stops_the_job(text: str) -> None:
    assert verdict(text).outlook is Outlook.STOP


def test_the_same_error_in_a_thread_and_in_the_main_program_stops_the_job() -> None:
    thread = f"Exception in thread Thread-4:\n{FRAMES}KeyError: 'x'\n"
    assert verdict(f"{thread}{FRAMES}KeyError: 'x'\n").outlook is Outlook.STOP


def test_the_lines_of_other_ranks_among_a_traceback_are_not_part_of_it() -> None:
    mine = [f"[rank3]: {line}\n" for line in f"Exception in thread Thread-4:\n{FRAMES}KeyError: 'x'".splitlines()]
    other = "[rank5]: loading shard 7\n"
    assert verdict(other.join(mine)).outlook is Outlook.RESTART


def test_a_retried_request_is_evidence_of_its_service() -> None:
    found = verdict("WARNING OSError: [Errno 116] Stale file handle: '/fsx/x', retry 3 of 5\n" + DEATH)
    assert (found.outlook, found.domain) == (Outlook.RESTART, "storage")


@pytest.mark.parametrize(("last_retry", "outlook"), [("10:59:40", Outlook.RESTART), ("10:01:00", Outlook.STOP)])
def test_a_request_that_is_retried_until_the_job_fails_may_be_its_cause(last_retry: str, outlook: Outlook) -> None:
    retries = [
        f"2026-07-10 {at} WARNING retry: OSError: [Errno 116] Stale file handle" for at in ("10:00:00", last_retry)
    ]
    assert verdict("\n".join([*retries, "2026-07-10 11:00:00 [rank3]: KeyError: 'tokens'"])).outlook is outlook


def test_an_error_of_all_ranks_of_one_node_only_does_not_stop_the_job() -> None:
    error = "".join(f"[rank{rank}]: ImportError: libx.so: wrong ELF class\n" for rank in (8, 9, 10))
    lost = "[rank0]: RuntimeError: NCCL communicator was aborted on rank 0.\n"
    assert verdict(error).outlook is Outlook.STOP
    found = verdict(error + lost)
    assert (found.outlook, found.domain) == (Outlook.RESTART, "software")
    assert verdict(error + error.replace("[rank8]", "[rank0]") + lost).outlook is Outlook.STOP


def test_a_cancellation_long_after_the_job_hung_does_not_stop_it() -> None:
    canceled = "slurmstepd: error: *** JOB 1 ON n-1 CANCELLED AT 2026-07-10T10:30:00 ***\n"
    hang = "[rank0]:[E710 10:00:00.408 ProcessGroupNCCL.cpp:607] Watchdog caught collective operation timeout\n"
    assert verdict(f"2026-07-10 10:00:00 {hang}2026-07-10 10:30:00 {canceled}").outlook is Outlook.RESTART
    assert verdict(f"2026-07-10 10:30:00 {canceled}").outlook is Outlook.STOP
    assert verdict("1 llm CANCELLED by 0 0:0\n").outlook is Outlook.RESTART


CANCELED = "slurmstepd: error: *** JOB 1 ON n-1 CANCELLED AT 2026-07-10T10:00:40 ***\n"


@pytest.mark.parametrize(
    "line",
    [
        "[rank: 0] Received SIGTERM: 15",
        "failed (exitcode: -15) local_rank: 3 (pid: 4242) of binary: python",
        "srun: error: n-1: task 3: Killed",
        "uploading the metrics: 503 Service Unavailable",
        "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='metrics', port=443): Read timed out.",
    ],
)
@pytest.mark.parametrize("canceled", [CANCELED, "Job cancelled by user alice\n"])
def test_the_signals_of_a_cancellation_and_failed_requests_of_helpers_are_no_reason_for_it(
    line: str, canceled: str
) -> None:
    for at, later in (("", ""), ("2026-07-10 10:00:00 ", "2026-07-10 10:00:40 ")):
        found = verdict(f"{at}step 100 loss 2.1\n{at}{line}\n{later}{canceled}")
        assert (found.outlook, found.domain) == (Outlook.STOP, "platform")


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA error: unspecified launch failure",
        "Signal 11 (SIGSEGV) received by PID 4242",
        "OSError: [Errno 116] Stale file handle: '/fsx/x'",
        "[rank0]:[E710 10:00:00.408 ProcessGroupNCCL.cpp:607] Watchdog caught collective operation timeout",
    ],
)
def test_a_cancellation_of_a_job_that_had_failed_does_not_stop_it(line: str) -> None:
    assert verdict(f"{line}\n{CANCELED}").outlook is Outlook.RESTART


def test_a_failure_after_the_reported_end_does_not_stop_the_job() -> None:
    end = "[INFO] Training finished\n"
    assert verdict(end).outlook is Outlook.STOP
    assert verdict(f"{end}RuntimeError: NCCL communicator was aborted on rank 0.\n").outlook is Outlook.STOP
    assert verdict(f"{end}OSError: [Errno 116] Stale file handle: '/fsx/x'\n").outlook is Outlook.RESTART


def attempts(error: str, count: int = 3) -> str:
    """Return the log of attempts that each make progress for three minutes and then fail with one error."""
    lines = []
    for minute in range(0, 5 * count, 5):
        lines += [f"[2026-07-10 10:{minute + one:02d}:00,500] step {one} loss=2.1" for one in range(3)]
        lines += [error, f"W0710 10:{minute + 2:02d}:00.900000 7 api.py:897] Sending process 9 closing signal SIGTERM"]
        lines += [f"[2026-07-10 10:{minute + 3:02d}:00,000] attempt starts"]
    return "\n".join(lines)


def test_an_error_that_comes_again_after_a_restart_stops_the_job() -> None:
    assert verdict(attempts("[rank3]: KeyError: 'label'")).outlook is Outlook.STOP


def test_an_error_before_the_end_of_the_processes_in_the_same_second_is_not_part_of_it() -> None:
    assert verdict(attempts("[rank3]: KeyError: 'label'", 1)).outlook is Outlook.STOP


def test_a_kernel_error_that_comes_again_on_one_rank_only_does_not_stop_the_job() -> None:
    error = "[rank{}]: RuntimeError: CUDA error: an illegal instruction was encountered"
    assert verdict(attempts(error.format(9), 2)).outlook is Outlook.RESTART
    many = "\n".join(error.format(rank) for rank in (0, 9, 17))
    assert verdict(attempts(many)).outlook is Outlook.STOP


def test_the_fault_of_a_node_comes_before_the_scheduler_that_only_lost_the_node() -> None:
    died = "(raylet) The node with node id: 4c and node name: n-2 has been marked dead because of heartbeats\n"
    panic = "2026-07-10T10:00:00+00:00 n-2 kernel: Kernel panic - not syncing: Fatal hardware error!\n"
    found = verdict(died, panic)
    assert (found.outlook, found.nodes, found.domain) == (Outlook.RESTART_WITHOUT, ("n-2",), "hardware")


def test_each_text_that_shows_that_a_process_continued_passes_its_own_cases() -> None:
    patterns = handled()
    assert [one.row["name"] for one in patterns if not all(map(one.find, one.row["cases"]))] == []
    assert [one.row["name"] for one in patterns if any(map(one.find, one.row.get("not_cases", ())))] == []
    assert all(one.row["cases"] for one in patterns)


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


@pytest.mark.parametrize("error", ["KeyError: 'x'", OOM, "ValueError: hidden size 4097 is not divisible by 8"])
@pytest.mark.parametrize(
    "line",
    [
        "n-1:9:9 [0] NCCL INFO NVLS: disabling multicast on this communicator",
        "n-1:9:9 [0] NCCL INFO NET/IB : falling back to sockets, ignoring mlx5_2",
        "huggingface/tokenizers: The process just got forked. Disabling parallelism to avoid deadlocks...",
        "the cache is cold, disabling the prefetch",
        "WARNING: vocab_size differs between tokenizer and model config",
        "UserWarning: results differ between eager and compiled mode",
    ],
)
def test_a_line_about_something_else_beside_an_error_does_not_show_that_it_was_handled(line: str, error: str) -> None:
    assert verdict(f"{line}\n{FRAMES}{error}\n").outlook is Outlook.STOP
    assert verdict(f"{FRAMES}{error}\n{line}\n").outlook is Outlook.STOP


@pytest.mark.parametrize("line", ["the profiler failed, disabling it", "non-fatal error of the profiler"])
def test_the_line_above_or_below_a_traceback_can_say_that_the_program_does_without_a_part(line: str) -> None:
    assert verdict(f"{line}\n{FRAMES}KeyError: 'x'\n").outlook is Outlook.RESTART
    assert verdict(f"{FRAMES}KeyError: 'x'\n{line}\n").outlook is Outlook.RESTART


@pytest.mark.parametrize("words", ["UserWarning: results differ", "WARNING the numerical results differ"])
def test_a_warning_about_results_neither_hides_a_lost_node_nor_asks_for_a_test(words: str) -> None:
    lost = "slurmstepd: error: *** JOB 7 ON n-1 CANCELLED AT 2026-07-10T10:00:40 DUE TO NODE FAILURE ***\n"
    warning = f"[rank9]: {words} between eager and compiled mode\n"
    assert verdict(f"{warning}{lost}").domain == "platform"
    assert verdict(warning).check == ()


def test_text_that_a_program_shortens_is_no_damaged_file() -> None:
    unknown = "acme.BadShardError: shard 113 has no column\n"
    assert verdict(f"metrics: error message truncated to 1024 characters\n{unknown}").outlook is Outlook.RESTART
    assert verdict("OSError: image file is truncated (44 bytes not processed)\n").outlook is Outlook.STOP


@pytest.mark.parametrize("tag", ["", "[rank3]: "])
def test_an_error_raised_while_an_error_that_may_be_of_hardware_was_handled_does_not_stop_the_job(tag: str) -> None:
    chained = """Traceback (most recent call last):
  File "/opt/t/train.py", line 88, in step
    loss.backward()
torch.AcceleratorError: CUDA error: unspecified launch failure

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/t/train.py", line 99, in main
    log(state['x'])
KeyError: 'x'
"""
    assert verdict("".join(f"{tag}{line}\n" for line in chained.splitlines())).outlook is Outlook.RESTART
