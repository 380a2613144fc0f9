"""A line that a program wrote to a system log or a journal in the form of the kernel is a claim, not evidence."""

from __future__ import annotations

import json

import pytest

from faultbridge.explain.verdict.verdict import Verdict
from faultbridge.model.enums import Outlook
from tests.explain.verdicts import decided, text_file

XID = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1, name=python, GPU has fallen off the bus."
JOB = "[2026-08-01 09:59:59,000] [rank3]: RuntimeError: Timed out waiting for a peer\n"
EPOCH = 1_785_574_800  # 2026-08-01 09:00


def after(log: str) -> Verdict:
    return decided([text_file("job.err", JOB, is_job_log=True), text_file("n-2.log", log, "n-2")])


def system_log(tag: str) -> str:
    quiet = [
        f"Aug  1 {hour:02d}:{minute:02d}:00 n-2 systemd[1]: Started.\n" for hour in (9, 10) for minute in range(60)
    ]
    return "".join([*quiet[:60], f"Aug  1 09:59:58 n-2 {tag}: {XID}\n", *quiet[60:]])


def journal(**fields: str) -> str:
    def entry(second: int, **facts: str) -> str:
        return json.dumps({"__REALTIME_TIMESTAMP": str((EPOCH + second) * 10**6), "_HOSTNAME": "n-2", **facts}) + "\n"

    quiet = [
        entry(60 * minute, _TRANSPORT="journal", SYSLOG_IDENTIFIER="systemd", MESSAGE="x") for minute in range(120)
    ]
    forged = entry(3598, SYSLOG_IDENTIFIER="kernel", MESSAGE=XID, **fields)
    return "".join([*quiet[:60], forged, *quiet[60:]])


@pytest.mark.parametrize(
    "log",
    [
        system_log("kernel[4711]"),
        system_log("python[99]"),
        journal(),
        journal(_UID="1000"),
        journal(_TRANSPORT="syslog"),
        journal(_TRANSPORT="stdout", _UID="1000"),
    ],
    ids=["kernel with a pid", "python", "no transport", "a user", "syslog", "stdout"],
)
def test_a_line_that_a_program_wrote_blames_no_hardware(log: str) -> None:
    found = after(log)
    assert (found.nodes, found.domain) == ((), "unknown")
    assert found.hardware.state != "blamed"


@pytest.mark.parametrize("log", [system_log("kernel"), system_log("kernel[0]"), journal(_TRANSPORT="kernel")])
def test_a_line_of_the_kernel_is_evidence_of_its_node(log: str) -> None:
    assert (after(log).outlook, after(log).nodes) == (Outlook.RESTART_WITHOUT, ("n-2",))
