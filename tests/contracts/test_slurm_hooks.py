"""The script for HealthCheckProgram and Epilog, called by a real Slurm: it runs the agent and drains no node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.real_slurm import RealSlurm, real_slurm

pytestmark = pytest.mark.servers

SCRIPT = Path(__file__).resolve().parents[2] / "infra" / "agent" / "slurm-health-check.sh"
AGENT = """#!/bin/sh
echo "$@ job=${{SLURM_JOB_ID:-}}" >> {folder}/runs
exit 1
"""
"""An agent (fake) that records its arguments and fails."""

# One lock for each job: a check that runs at the same time would let an epilog exit at once.
HOOK = """#!/bin/sh
export FAULTBRIDGE_PYTHON={folder}/python FAULTBRIDGE_LOCK={folder}/lock-$SLURM_JOB_ID
exec {script}
"""
SETTINGS = """
HealthCheckProgram={hook}
HealthCheckInterval=1
HealthCheckNodeState=ANY
Epilog={hook}
"""


def executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


class Hooked:
    """A real Slurm that calls the script, and what the agent was called with."""

    def __init__(self, slurm: RealSlurm, runs: Path) -> None:
        self.slurm = slurm
        self._runs = runs

    def runs(self) -> list[str]:
        return self._runs.read_text().splitlines() if self._runs.exists() else []

    def states(self) -> list[str]:
        return self.slurm(("sinfo", "--noheader", "--Node", "--format=%T")).stdout.split()


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooked]:
    folder = tmp_path_factory.mktemp("hooks")
    executable(folder / "python", AGENT.format(folder=folder))
    hook = executable(folder / "hook", HOOK.format(folder=folder, script=SCRIPT))
    with real_slurm(settings=SETTINGS.format(hook=hook)) as slurm:
        yield Hooked(slurm, folder / "runs")


def test_the_health_check_runs_the_agent_once_a_call_and_a_failed_run_drains_no_node(hooked: Hooked) -> None:
    hooked.slurm.until(lambda: "-m faultbridge.node.agent --once job=" in hooked.runs())
    assert hooked.states() == ["idle", "idle"]


def test_the_epilog_of_a_job_runs_the_agent_and_its_failure_drains_no_node(hooked: Hooked) -> None:
    job = hooked.slurm.submit(0, "n1")
    hooked.slurm.until(lambda: f"-m faultbridge.node.agent --once job={job}" in hooked.runs())
    hooked.slurm.until(lambda: hooked.states() == ["idle", "idle"])
    following = hooked.slurm.submit(0, "n1")
    hooked.slurm.until(lambda: not hooked.slurm.job(following))
