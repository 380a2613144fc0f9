"""The prolog and epilog of a real Slurm report to Faultbridge how each of its jobs ends."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.contracts import real_slurm
from tests.contracts.real_slurm import RealSlurm

pytestmark = pytest.mark.servers

SCRIPT = Path(__file__).parents[2] / "infra/agent/slurm-job.sh"
RECORDER = """#!/bin/sh
for each in "$@"; do printf '%s\\037' "$each"; done >>{folder}/reports
echo >>{folder}/reports
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


class Reports:
    """A Slurm with the script, and the calls of `faultbridge` that the script made."""

    def __init__(self, slurm: RealSlurm, folder: Path) -> None:
        self.slurm, self.folder = slurm, folder
        self.recorder = write(folder / "recorder", RECORDER.format(folder=folder))
        lines = (f"SLURM_CONF={slurm.folder}/slurm.conf", f"FAULTBRIDGE_COMMAND={self.recorder}")
        write(folder / "settings", "\n".join((*lines, "FAULTBRIDGE_CLUSTER=train-a", "")))

    def of(self, job: str) -> list[dict[str, str]]:
        """The reports of a job: `change`, and each option with its value."""
        path = self.folder / "reports"
        lines = path.read_text().splitlines() if path.exists() else []
        calls = [line.split("\x1f") for line in lines]
        return [{"change": one[1], **dict(pairwise(one))} for one in calls if one[:1] == ["job"] and one[2] == job]

    def end_of(self, job: str) -> str:
        """How the end of a job was reported, such as `failed FAILED, exit code 3:0`."""
        self.slurm.until(lambda: [one["change"] for one in self.of(job)][-1:] == ["end"])
        report = self.of(job)[-1]
        return f"{report['--outcome']} {report['--reason']}"

    def submit(self, script: str) -> str:
        answer = self.slurm(("sbatch", "--parsable", "--output=/dev/null", "--no-requeue", f"--wrap={script}"))
        assert answer.code == 0, answer
        return answer.stdout.strip()

    def submit_running(self) -> str:
        job = self.submit("sleep 600")
        self.slurm.until(lambda: self.slurm.job(job).startswith("RUNNING"))
        return job


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reports]:
    folder = tmp_path_factory.mktemp("hooks")
    hook = write(folder / "hook", f"#!/bin/bash\nFAULTBRIDGE_SETTINGS={folder}/settings exec {SCRIPT}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(real_slurm, "CONF", f"{real_slurm.CONF}PrologSlurmctld={hook}\nEpilogSlurmctld={hook}\n")
        with real_slurm.real_slurm() as slurm:
            yield Reports(slurm, folder)


def test_a_start_names_the_nodes_and_the_name_of_the_job(reports: Reports) -> None:
    job = reports.submit("exit 0")
    assert reports.end_of(job) == "succeeded COMPLETED, exit code 0:0"
    start = reports.of(job)[0]
    assert (start["change"], start["--node"], start["--name"], start["--cluster"]) == ("start", "n1", "wrap", "train-a")


def test_a_job_that_fails_is_reported_with_its_exit_code(reports: Reports) -> None:
    assert reports.end_of(reports.submit("exit 3")) == "failed FAILED, exit code 3:0"


def test_a_canceled_job_has_neither_succeeded_nor_failed(reports: Reports) -> None:
    job = reports.submit_running()
    reports.slurm(("scancel", job))
    assert reports.end_of(job).startswith("cancelled CANCELLED")


def test_a_job_whose_node_goes_down_has_failed(reports: Reports) -> None:
    job = reports.submit_running()
    node = reports.slurm.job(job).split()[1]
    reports.slurm(("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test"))
    assert reports.end_of(job).startswith("failed NODE_FAIL")
    reports.slurm(("scontrol", "update", f"NodeName={node}", "State=RESUME"))


def test_a_command_that_cannot_report_delays_no_job(reports: Reports) -> None:
    reports.recorder.write_text(f"#!{sys.executable}\nraise SystemExit(69)\n")
    job = reports.submit_running()
    reports.slurm(("scancel", job))
