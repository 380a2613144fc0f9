"""What is shown where no mechanism is found, what a loop of attempts means, and which fault is too old to blame."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from faultbridge.explain.signals.read_files import InputFile
from faultbridge.explain.verdict.document import RankMap, verdict_document
from faultbridge.explain.verdict.mechanisms import packaged_weights
from faultbridge.explain.verdict.verdict import decide
from faultbridge.model.cluster.jobs import node_of_rank, rank_text
from faultbridge.model.enums import Outlook
from faultbridge.model.event_data import json_text
from tests.explain.verdicts import BOOK, NODES, decided, evidence_in, text_file, verdict

pytestmark = pytest.mark.slow

SHARED = Path(__file__).parents[3] / "shared/repro/explain"
XID_79 = "kernel: NVRM: Xid (PCI:0000:c1:00): 79, pid=9, name=python, GPU has fallen off the bus.\n"
LAUNCH = "[rank21]: RuntimeError: CUDA error: unspecified launch failure\n"
TWO_NODES = {rank: f"n-{1 + rank // 8}" for rank in range(16)}


def document(*files: InputFile, nodes: Mapping[int, str] = NODES) -> dict[str, Any]:
    evidence = evidence_in(files, nodes)
    found = decide(evidence, BOOK.mechanisms, packaged_weights(), nodes)
    return json.loads(json_text(verdict_document(found, evidence, RankMap(nodes))))


def job(text: str) -> InputFile:
    return text_file("job.err", text, is_job_log=True)


def steps(first: int, last: int, hour: int = 1) -> str:
    return "".join(f"2026-02-03 {hour:02d}:{n % 60:02d}:00 step {n} loss=2.1\n" for n in range(first, last))


def test_an_error_that_no_pattern_knows_is_the_symptom_with_file_and_line() -> None:
    found = document(job(steps(1, 9) + "widget flange: error: it is loose\n"))
    assert (found["mechanism"], found["symptom"]["file"], found["symptom"]["line"]) == (None, "job.err", 9)
    assert found["symptom"]["text"] == "widget flange: error: it is loose"


def test_an_unknown_error_before_the_last_progress_is_no_symptom_and_the_last_line_is_shown() -> None:
    found = document(job("widget flange: error: it is loose\n" + steps(1, 9)))["symptom"]
    assert (found["name"], found["line"], found["text"][-6:]) == ("error.last_line", 9, "ss=2.1")


def test_a_fault_of_a_node_is_the_symptom_where_no_log_of_the_job_is_given() -> None:
    found = document(text_file("kern.log", f"2026-08-01T03:00:00+00:00 n-2 {XID_79}", "n-2"))["symptom"]
    assert (found["name"], found["node"]) == ("xid.79", "n-2")


def test_the_gpu_of_the_only_rank_with_a_cuda_error_is_named_and_its_node_checked() -> None:
    found = document(job(LAUNCH))
    assert found["ranks"] == [{"rank": 21, "node": "n-3", "gpu": 5, "reason": "failed"}]
    assert found["check"] == ["n-3"]


def watchdog(rank: int, enqueued: int, *, is_late: bool = False) -> str:
    prefix = f"[rank{rank}]:[E203 02:20:00.1 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0 Rank {rank}]"
    timeout = f"{prefix} Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8812, OpType=ALLREDUCE)\n"
    return ("" if is_late else timeout) + f"{prefix} PG status: last enqueued work: {enqueued}, last completed: 1\n"


def test_the_rank_that_enqueued_less_than_its_peers_is_named() -> None:
    log = "".join(watchdog(rank, 8811 if rank == 11 else 8813, is_late=rank == 11) for rank in range(16))
    found = document(job(log), nodes=TWO_NODES)
    assert [(one["rank"], one["node"], one["gpu"]) for one in found["ranks"]] == [(11, "n-2", 3)]
    assert found["ranks"][0]["reason"].startswith("behind: enqueued 8811")
    assert found["check"] == ["n-2"]


def test_the_rank_that_reports_no_timeout_as_its_peers_do_is_named() -> None:
    log = "".join(watchdog(rank, 8813) for rank in range(16) if rank != 4)
    found = document(job(log), nodes=TWO_NODES)
    assert [(one["rank"], one["reason"].partition(":")[0]) for one in found["ranks"]] == [(4, "no_timeout")]


def test_a_rank_whose_log_is_not_given_is_not_singled_out() -> None:
    def logs(*ranks: int) -> list[InputFile]:
        return [
            text_file(f"rank_{rank}.err", watchdog(rank, 8813, is_late=rank == 4), is_job_log=True) for rank in ranks
        ]

    found = document(*logs(*range(9)), nodes=TWO_NODES)
    assert [one["rank"] for one in found["ranks"]] == [4]


def test_ranks_of_different_groups_with_one_id_are_not_compared() -> None:
    stages = "".join(
        watchdog(rank, 8813 if rank < 12 else 8000).replace("GUID 0", f"GUID {5 + rank // 4}") for rank in range(16)
    )
    assert document(job(stages), nodes=TWO_NODES)["ranks"] == []


def test_where_most_ranks_differ_none_is_singled_out() -> None:
    assert document(job(watchdog(1, 8813)), nodes=TWO_NODES)["ranks"] == []


LOADED = "successfully loaded checkpoint from /ckpt at iteration 40\n"
RESTARTED = "W0203 api.py:900] [default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"


UNKNOWN = "widget flange: error: it is loose\n"


@pytest.mark.parametrize(
    ("error", "restart"),
    [(error, restart) for error in (LAUNCH, UNKNOWN) for restart in (LOADED, RESTARTED, RESTARTED + LOADED)]
    + [(LAUNCH, "")],
)
def test_the_third_attempt_that_ends_alike_without_progress_stops_the_job(error: str, restart: str) -> None:
    attempt = steps(40, 60) + error + restart
    assert verdict(attempt * 2).outlook is Outlook.RESTART
    assert verdict(attempt * 3).outlook is Outlook.STOP
    assert document(job(attempt * 3))["attempts"]["repeated"] == 3


def test_progress_between_attempts_permits_another_one() -> None:
    found = document(job("".join(steps(40, last) + LAUNCH + RESTARTED for last in (50, 52, 55))))
    assert (found["verdict"], found["attempts"]["count"], found["attempts"]["repeated"]) == ("RESTART", 3, 1)


PROGRESS_WITHOUT_STEPS = {
    "tqdm": "\r 13%|#3   | {}/2190 [06:11<10:30,  2.19it/s]",
    "Lightning": "\rEpoch 0:  1%| | 9/10000 [00:31<1:00, 3.1s/it, v_num=0, global_step={}.0]",
    "a step of all": "INFO Step {}/10000 done\n",
}


@pytest.mark.parametrize("line", PROGRESS_WITHOUT_STEPS.values(), ids=PROGRESS_WITHOUT_STEPS)
def test_work_whose_steps_cannot_be_read_may_be_progress_and_an_attempt_without_work_is_none(line: str) -> None:
    def attempts(work: str) -> str:
        return RESTARTED.join(work.format(count) * bool(work) + "\n" + UNKNOWN for count in (300, 700, 1100))

    found = document(job(attempts(line)))
    assert (found["verdict"], found["attempts"]["count"], found["attempts"]["repeated"]) == ("RESTART", 3, 1)
    assert found["attempts"]["error"]["text"] == UNKNOWN.strip()
    assert verdict(attempts("")).outlook is Outlook.STOP


def test_attempts_with_different_errors_are_no_loop() -> None:
    errors = (LAUNCH, "torch.cuda.CudaError: CUDA error: unknown error\n", LAUNCH)
    assert verdict("".join(steps(40, 60) + one + RESTARTED for one in errors)).outlook is Outlook.RESTART


def test_preemptions_are_no_loop_of_the_job() -> None:
    taken = "slurmstepd: error: *** JOB 7 ON n-1 CANCELLED AT 2026-02-03T01:59:00 DUE TO PREEMPTION ***\n"
    assert verdict((steps(40, 60) + taken + LOADED) * 4).outlook is Outlook.RESTART


def test_logs_that_follow_each_other_are_attempts_and_logs_of_one_time_are_ranks() -> None:
    runs = [text_file(f"run{n}.err", steps(40, 60, hour=n) + f"2026-02-03 0{n}:59:30 {LAUNCH}") for n in (1, 2, 3)]
    assert decided(runs).outlook is Outlook.STOP
    ranks = [text_file(f"rank_{n}.err", steps(40, 60) + f"2026-02-03 01:59:30 {LAUNCH}") for n in (1, 2, 3)]
    assert decided(ranks).outlook is Outlook.RESTART


def test_errors_of_earlier_attempts_did_not_recover() -> None:
    for restart in (RESTARTED, LOADED):
        assert document(job((LOADED + steps(40, 60) + LAUNCH + restart) * 3))["recovered"] == []


@pytest.mark.parametrize(
    "error",
    [
        "botocore.exceptions.ClientError: An error occurred (403) when calling the HeadObject operation: Forbidden",
        "PermissionError: [Errno 13] Permission denied: '/ckpt/step'",
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/7.bin'",
        "ModuleNotFoundError: No module named 'flash_attn'",
    ],
)
def test_an_error_of_the_environment_stops_a_new_job_and_not_one_that_worked_for_hours(error: str) -> None:
    assert verdict(f"[rank0]: {error}\n").outlook is Outlook.STOP
    worked = "".join(f"2026-02-03 {hour:02d}:00:00 step {hour} loss=2.1\n" for hour in range(1, 9))
    assert verdict(f"{worked}[rank0]: {error}\n").outlook is Outlook.RESTART


def test_a_container_that_was_killed_for_memory_after_a_day_may_restart() -> None:
    state = "Last State: Terminated\n  Reason: OOMKilled\n  Started:      Tue, 03 Feb 2026 0{}:00:00 +0000\n"
    ended = "  Finished:     Tue, 03 Feb 2026 05:00:30 +0000\n"
    assert verdict(state.format(1) + ended).outlook is Outlook.RESTART
    assert verdict(state.format(5) + ended).outlook is Outlook.STOP


POD_THAT_RUNS_AGAIN = """    State:          Running
      Started:      Wed, 04 Feb 2026 06:00:00 +0000
    Last State:     Terminated
      Reason:       OOMKilled
      Started:      Tue, 03 Feb 2026 04:58:00 +0000
      Finished:     Wed, 04 Feb 2026 05:59:30 +0000
"""
POD_WITH_INIT_CONTAINER = """  setup:
      Started:      Tue, 03 Feb 2026 04:57:00 +0000
      Finished:     Tue, 03 Feb 2026 04:57:03 +0000
  train:
      Reason:       OOMKilled
      Started:      Tue, 03 Feb 2026 04:58:00 +0000
      Finished:     Wed, 04 Feb 2026 05:59:30 +0000
"""
POD_AS_YAML = """      terminated:
        exitCode: 137
        finishedAt: "2026-02-04T05:59:30Z"
        reason: OOMKilled
        startedAt: "2026-02-03T04:58:00Z"
"""


@pytest.mark.parametrize("pod", [POD_THAT_RUNS_AGAIN, POD_WITH_INIT_CONTAINER, POD_AS_YAML])
def test_the_run_of_a_container_is_that_of_the_one_that_ran_longest_in_each_form_of_a_pod(pod: str) -> None:
    assert verdict(pod).outlook is Outlook.RESTART


def test_the_end_of_a_container_is_no_progress_after_the_error_that_ended_it() -> None:
    described = "  Started:      Tue, 03 Feb 2026 01:00:00 +0000\n  Finished:     Tue, 03 Feb 2026 05:00:30 +0000\n"
    error = "2026-02-03 04:50:00 [rank0]: KeyError: 'label'\n"
    found = document(job(error), text_file("pod.txt", described, is_job_log=True))
    assert (found["verdict"], found["recovered"]) == ("STOP", [])


def test_one_rank_with_a_nan_may_restart_and_many_stop_wherever_the_nan_was_found() -> None:
    for place in ("local forward loss calculation", "local grad norm in backward pass"):
        one = "[rank{0}]: RuntimeError: Rank {0}: found NaN in " + place + "\n"
        assert verdict(one.format(3)).outlook is Outlook.RESTART
        assert verdict("".join(map(one.format, (3, 11, 19)))).outlook is Outlook.STOP


def test_an_error_that_hardware_can_cause_does_not_acquit_it() -> None:
    illegal = "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    assert verdict(illegal).hardware.state == "undetermined"
    assert verdict("KeyError: 'label'\n").hardware.state == "acquitted"


def test_an_illegal_access_of_one_process_may_restart_until_a_log_of_a_node_or_another_rank_shows_it_too() -> None:
    at = "2026-02-03T04:05:{:02}+00:00"
    illegal = f"{at.format(7)} [rank{{}}]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
    found = verdict("epoch 0, step 2\n" + illegal.format(5))
    assert (found.outlook, found.domain, found.hardware.state) == (Outlook.RESTART, "software", "undetermined")
    assert [one.rank for one in found.named_ranks] == [5]
    assert verdict(illegal.format(5) + illegal.format(6)).outlook is Outlook.STOP
    own = f"{at.format(6)} n-2 kernel: NVRM: Xid (PCI:0000:c1:00): 31, pid=4242, name=python, Ch 00000010, MMU Fault\n"
    assert verdict(illegal.format(5), own).outlook is Outlook.STOP


NO_TIME = (
    "[rank3]: torch.distributed.DistBackendError: NCCL error, remote process exited or there was a network error\n"
)


@pytest.mark.parametrize(
    "after",
    [
        "2026-08-20T03:00:00+00:00 n-2 kernel: audit: x\n",
        "2026-08-01T04:00:00+00:00 n-2 kernel: Linux version 6.8.0-1 (buildd@x) #1 SMP\n",
    ],
    ids=["weeks of silence", "a restart of the node"],
)
def test_an_old_fault_is_not_blamed_where_the_failure_has_no_time(after: str) -> None:
    old = f"2026-08-01T03:00:00+00:00 n-2 {XID_79}"
    found = verdict(NO_TIME, old + after)
    assert (found.outlook, found.nodes, found.cause) == (Outlook.RESTART, (), None)
    assert verdict(NO_TIME, old).nodes == ("n-2",)


def dump(rank: int, created: int, *, is_behind: bool) -> InputFile:
    """Return a dump of two ranks, one of which did not enqueue the second collective."""
    entries = [
        {
            "record_id": number, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": number,
            "p2p_seq_id": 0, "profiling_name": "nccl:all_reduce", "state": "completed" if number == 1 else "scheduled",
            "time_created_ns": (created + number) * 10**9, "timeout_ms": 600_000, "is_p2p": False,
        }
        for number in ((1,) if is_behind else (1, 2))
    ]  # fmt: skip
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 8]"}}
    return text_file(f"_dump_{rank}", json.dumps({"pg_config": config, "entries": entries}))


def test_the_times_of_dumps_state_when_the_job_failed() -> None:
    dumps = [dump(0, 1_785_553_000, is_behind=False), dump(8, 1_785_553_000, is_behind=True)]
    assert document(*dumps, nodes=TWO_NODES)["failed_at"] == "2026-08-01T03:06:42.000Z"
    old = text_file("n-2/kern.log", f"2026-07-22T03:00:00+00:00 n-2 {XID_79}2026-08-02T03:00:00+00:00 n-2 kernel: x\n")
    assert decided([*dumps, old], TWO_NODES).nodes == ()
    now = text_file("n-2/kern.log", f"2026-08-01T02:57:00+00:00 n-2 {XID_79}")
    assert decided([*dumps, now], TWO_NODES).nodes == ("n-2",)


def test_a_fault_of_a_node_without_a_rank_that_the_dumps_name_is_not_the_cause() -> None:
    dumps = [dump(0, 1_785_553_000, is_behind=False), dump(8, 1_785_553_000, is_behind=True)]
    other = text_file("n-1/kern.log", f"2026-08-01T02:57:00+00:00 n-1 {XID_79}")
    assert decided([*dumps, other], TWO_NODES).nodes == ()


def test_a_packed_log_is_read_and_one_that_ends_early_up_to_its_end() -> None:
    body = gzip.compress((steps(1, 9) + "[rank3]: KeyError: 'label'\n").encode())
    assert decided([text_file("job.err.gz", body)]).outlook is Outlook.STOP
    many = gzip.compress("".join(f"{n} KeyError: 'label {n}'\n" for n in range(20_000)).encode())
    evidence = evidence_in([text_file("job.err.gz", many[:-9])])
    assert (len(evidence.skipped), bool(evidence.signals)) == (1, True)


def test_the_text_of_windows_and_colors_within_words_change_nothing() -> None:
    assert decided([text_file("job.err", "KeyError: 'x'\n".encode("utf-16"))]).outlook is Outlook.STOP
    assert verdict("\x1b[36m[rank3]:\x1b[0m \x1b[1;35mKeyError\x1b[0m: \x1b[35m'x'\x1b[0m\n").outlook is Outlook.STOP


EXPECTED = {
    "ansi-token-colour.log": "STOP",
    "b28.log": "RESTART",
    "b40.log": "STOP",
    "b42.log": "RESTART",
    "b50.log": "RESTART",
    "crash-loop-5-attempts.log": "STOP",
    "h01-oomkilled-25h.log": "RESTART",
    "h05.log": "RESTART",
    "no-times.err": "RESTART",
}
NAMED = {
    "launch-failure-one-rank.log": ("nodes-4x8.json", 21, "gpu-node2"),
    "watchdog-rank-11-missing.log": ("nodes-2x8.json", 11, "n-2"),
}


@pytest.mark.skipif(not SHARED.exists(), reason="the inputs of the measurement are not here")
def test_the_measured_weaknesses_are_gone() -> None:
    found = {name: str(decided([text_file(name, (SHARED / name).read_bytes())], {}).outlook) for name in EXPECTED}
    assert found == EXPECTED
    for name, (nodes, rank, node) in NAMED.items():
        placed = node_of_rank({one: rank_text(own) for one, own in json.loads((SHARED / nodes).read_bytes()).items()})
        shown = document(text_file(name, (SHARED / name).read_bytes()), nodes=placed)
        assert ([one["rank"] for one in shown["ranks"]], shown["check"]) == ([rank], [node])
    old = "old-xid-25d-before-reboot.kern.log"
    files = [
        text_file(name, (SHARED / one).read_bytes()) for name, one in (("job.err", "no-times.err"), (f"n-1/{old}", old))
    ]
    assert (decided(files).nodes, decided(files).outlook) == ((), Outlook.RESTART)
