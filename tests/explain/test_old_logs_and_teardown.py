"""Logs of past years, errors of a job that is already ending, forged kernel records, and limited registries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from faultbridge.explain.signals.node_log import SLAB_BYTES
from faultbridge.explain.signals.read_files import InputFile
from faultbridge.explain.verdict.document import verdict_on
from faultbridge.model.enums import Outlook
from tests.decoders.builders import export, verbose
from tests.explain.verdicts import BOOK, evidence_in, text_file, verdict

DEATH = "E0710 10:00:09.000 7 api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 9) of binary: python\n"
DEATH_OF_JOURNAL = DEATH.replace("0710 10:00:09", "0203 04:05:09")
TEARDOWN = "W0710 10:00:08.000 7 api.py:897] Sending process 9 closing signal SIGTERM\n"
LOST = "NVRM: Xid (PCI:0000:c1:00): 79, pid=9, name=python, GPU has fallen off the bus."


@pytest.mark.parametrize("year", [2023, 2025, 2026])
def test_the_year_of_a_job_is_that_of_the_dated_log_of_its_node(year: int) -> None:
    found = verdict(DEATH, f"{year}-07-10T10:00:00+00:00 n-2 kernel: {LOST}\n")
    assert (found.outlook, found.nodes) == (Outlook.RESTART_WITHOUT, ("n-2",))


def test_the_latest_dated_line_of_a_file_states_the_year() -> None:
    def year_of(*lines: str) -> int:
        (found,) = evidence_in([text_file("job.err", "".join(f"{one}\n" for one in lines) + DEATH)]).signals
        assert found.at is not None
        return found.at.year

    released, started = "2019-05-01 00:00:00 acme 1.2 was released", "2025-07-09 23:00:00 start"
    assert year_of(started) == year_of(released, started) == year_of(started, released) == 2025


def test_the_start_of_a_file_is_read_once() -> None:
    opened: list[bytes] = []

    def pieces() -> list[bytes]:
        opened.append(b"")
        return [DEATH.encode()]

    evidence_in([InputFile("job.err", pieces)])
    assert len(opened) == 2


def test_an_error_of_a_signal_handler_is_neither_a_stop_nor_an_acquittal() -> None:
    error = "[rank0]: KeyError: 'state'\n"
    assert verdict(error + TEARDOWN + DEATH).outlook is Outlook.STOP
    late = verdict(TEARDOWN + DEATH + error)
    assert (late.outlook, late.hardware.state) == (Outlook.RESTART, "undetermined")


@pytest.mark.parametrize("printed", ["python.user_error", "cuda.out_of_memory", "loss.not_finite", "storage.no_space"])
def test_no_error_after_the_start_of_the_teardown_stops_a_job(printed: str) -> None:
    assert verdict_on(BOOK, ["+0 job - process.terminated", f"+1 job - {printed}"]).outlook is Outlook.RESTART


@pytest.mark.parametrize(
    "text",
    [
        LOST,
        "NVRM: GPU 0000:c1:00.0: GPU has fallen off the bus.",
        "Kernel panic - not syncing: Fatal exception",
        "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 4: be00000000800400",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 03 LTSSM Fault Up",
    ],
)
@pytest.mark.parametrize("priority", [11, 30, 90])
def test_a_record_of_a_program_in_kmsg_blames_no_hardware(text: str, priority: int) -> None:
    records = "".join(f"6,{one},{one}000000,-;eth0: link becomes ready\n" for one in range(90))
    kernels, forged = (verdict(DEATH, f"{records}{one},90,91000000,-;{text}\n") for one in (4, priority))
    assert (kernels.hardware.state, kernels.line.claims) == ("blamed", ())
    assert (forged.hardware.state, [one.line for one in forged.line.claims]) == ("undetermined", [91])


@pytest.mark.slow
@pytest.mark.parametrize("entry", [export, verbose])
def test_a_journal_larger_than_a_slab_states_for_each_entry_who_wrote_it(entry: Callable[[str, str], str]) -> None:
    quiet = entry("eth0: link becomes ready", "kernel")
    body = (quiet * (SLAB_BYTES // len(quiet) + 100) + entry(LOST, "{}") + quiet).replace("gpu-1", "n-2")
    kernels, programs = (verdict(DEATH_OF_JOURNAL, body.replace("{}", one)) for one in ("kernel", "stdout"))
    assert (kernels.hardware.state, kernels.line.claims) == ("blamed", ())
    assert (programs.hardware.state, [one.name for one in programs.line.claims]) == ("undetermined", ["claim.xid"])


def test_entries_behind_a_damaged_binary_field_blame_no_hardware_however_far_behind() -> None:
    forged = export(LOST, "kernel")
    body = export("x", "kernel") + "__CURSOR=s=a1\nDATA\n\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7fx\n"
    body += export("y", "kernel") * (SLAB_BYTES // len(forged)) * 2 + forged
    found = verdict(DEATH_OF_JOURNAL, body.replace("gpu-1", "n-2"))
    assert (found.hardware.state, [one.name for one in found.line.claims]) == ("undetermined", ["claim.xid"])


def test_each_kind_of_record_that_a_program_wrote_is_listed_as_a_claim_with_its_line() -> None:
    records = "".join(f"6,{one},{one}000000,-;eth0: link becomes ready\n" for one in range(90))
    (claim,) = verdict(DEATH, f"{records}11,90,91000000,-;{LOST}\n11,91,91000000,-;{LOST}\n").line.claims
    assert (claim.name, claim.file, claim.line, claim.node, claim.count) == ("claim.xid", "kern.log", 91, "n-2", 2)


@pytest.mark.parametrize("reason", ["toomanyrequests: Data limit exceeded", "unexpected status: 429 Too Many Requests"])
def test_an_image_of_a_registry_that_limits_pulls_is_not_missing(reason: str) -> None:
    waiting = "pod/w-1 Error: ImagePullBackOff\n"
    assert verdict(waiting).outlook is Outlook.STOP
    assert verdict(f'{waiting}Failed to pull image "train:3": {reason}\n').outlook is Outlook.RESTART


TRAINED = "".join(
    f"2026-02-03 0{minute // 60}:{minute % 60:02d}:00 step {minute} loss=2.1\n" for minute in range(240, 300)
)
BROKEN = "2026-02-03 05:00:30 [rank3]: torch.distributed.DistBackendError: NCCL error: remote process exited\n"


def test_a_fault_after_which_the_job_trained_for_hours_is_not_its_cause() -> None:
    early, late = (
        verdict(TRAINED + BROKEN, f"{at}+00:00 n-2 kernel: {LOST}\n")
        for at in ("2026-02-03T02:00:00", "2026-02-03T04:59:50")
    )
    assert (early.outlook, early.nodes) == (Outlook.RESTART, ())
    assert (late.outlook, late.nodes) == (Outlook.RESTART_WITHOUT, ("n-2",))


@pytest.mark.parametrize(
    "boot",
    [
        "2026-02-03T04:00:00+00:00 n-2 kernel: Linux version 6.8.0\n",
        "2026-02-03T04:00:00+00:00 n-2 kernel: [    0.000000] Command line: BOOT_IMAGE=/vmlinuz\n",
        "2026-02-03T04:00:00+00:00 n-2 kernel: BIOS-provided physical RAM map:\n",
        "-- Boot 0123456789abcdef0123456789abcdef --\n2026-02-03T04:00:00+00:00 n-2 systemd[1]: started\n",
        "-- Reboot --\n2026-02-03T04:00:00+00:00 n-2 systemd[1]: started\n",
    ],
)
def test_a_fault_before_a_reboot_is_not_the_cause_however_the_log_shows_the_reboot(boot: str) -> None:
    before = f"2026-02-03T03:00:00+00:00 n-2 kernel: {LOST}\n"
    assert verdict(BROKEN, before).outlook is Outlook.RESTART_WITHOUT
    assert verdict(BROKEN, before + boot).outlook is Outlook.RESTART
