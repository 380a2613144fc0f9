"""Logs of past years, errors of a job that is already ending, forged kernel records, and limited registries."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faultbridge.decoders.common.decoder import Hints
from faultbridge.explain.signals.read_files import InputFile, ReadContext, read_files
from faultbridge.explain.verdict.golden_cases import verdict_on
from faultbridge.explain.verdict.mechanisms import Outlook, packaged_book, packaged_weights
from faultbridge.explain.verdict.verdict import Verdict, decide

BOOK = packaged_book()
NODES = {0: "n-1", 8: "n-2"}
DEATH = "E0710 10:00:09.000 7 api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 9) of binary: python\n"
TEARDOWN = "W0710 10:00:08.000 7 api.py:897] Sending process 9 closing signal SIGTERM\n"
LOST = "NVRM: Xid (PCI:0000:c1:00): 79, pid=9, name=python, GPU has fallen off the bus."


def verdict(job: str, node: str = "") -> Verdict:
    files = [InputFile("job.err", lambda: iter([job.encode()]), is_job_log=True)]
    if node:
        files.append(InputFile("kern.log", lambda: iter([node.encode()]), "n-2"))
    context = ReadContext(BOOK.patterns, BOOK.roles, NODES, Hints(received_at=datetime(2026, 9, 1, tzinfo=UTC)))
    return decide(read_files(files, context), BOOK.mechanisms, packaged_weights(), NODES)


@pytest.mark.parametrize("year", [2023, 2025, 2026])
def test_the_year_of_a_job_is_that_of_the_dated_log_of_its_node(year: int) -> None:
    found = verdict(DEATH, f"{year}-07-10T10:00:00+00:00 n-2 kernel: {LOST}\n")
    assert (found.outlook, found.nodes) == (Outlook.RESTART_WITHOUT, ("n-2",))


def test_an_error_of_a_signal_handler_is_neither_a_stop_nor_an_acquittal() -> None:
    error = "[rank0]: KeyError: 'state'\n"
    assert verdict(error + TEARDOWN + DEATH).outlook is Outlook.STOP
    late = verdict(TEARDOWN + DEATH + error)
    assert (late.outlook, late.hardware.state) == (Outlook.RESTART, "not_shown")


@pytest.mark.parametrize("printed", ["python.user_error", "cuda.out_of_memory", "loss.not_finite", "storage.no_space"])
def test_no_error_after_the_start_of_the_teardown_stops_a_job(printed: str) -> None:
    assert verdict_on(BOOK, ["+0 job - process.terminated", f"+1 job - {printed}"]).outlook is Outlook.RESTART


@pytest.mark.parametrize(("priority", "state"), [(4, "blamed"), (11, "not_shown"), (30, "not_shown")])
def test_a_record_of_a_program_in_kmsg_blames_no_hardware(priority: int, state: str) -> None:
    records = "".join(f"6,{one},{one}000000,-;eth0: link becomes ready\n" for one in range(90))
    assert verdict(DEATH, f"{records}{priority},90,91000000,-;{LOST}\n").hardware.state == state


def test_each_kind_of_record_that_a_program_wrote_is_listed_as_a_claim_with_its_line() -> None:
    records = "".join(f"6,{one},{one}000000,-;eth0: link becomes ready\n" for one in range(90))
    (claim,) = verdict(DEATH, f"{records}11,90,91000000,-;{LOST}\n11,91,91000000,-;{LOST}\n").line.claims
    assert (claim.name, claim.file, claim.line, claim.node, claim.count) == ("claim.xid", "kern.log", 91, "n-2", 2)


@pytest.mark.parametrize("reason", ["toomanyrequests: Data limit exceeded", "unexpected status: 429 Too Many Requests"])
def test_an_image_of_a_registry_that_limits_pulls_is_not_missing(reason: str) -> None:
    waiting = "pod/w-1 Error: ImagePullBackOff\n"
    assert verdict(waiting).outlook is Outlook.STOP
    assert verdict(f'{waiting}Failed to pull image "train:3": {reason}\n').outlook is Outlook.RESTART
