"""A scheduler's line in the log of a job leaves a node out only if the node's own log does not continue past it."""

from __future__ import annotations

import pytest

from faultbridge.explain.verdict.verdict import Verdict
from faultbridge.model.enums import Outlook
from tests.explain.verdicts import decided, text_file

STEPS = "".join(
    f"[2026-08-01 09:{minute:02d}:00,000] [rank0]: step {minute} loss=2.0 lr=3e-4\n" for minute in range(60)
)
LOST = "srun: error: Node failure on n-3\n"
TIMED = f"[2026-08-01 10:00:00,000] {LOST}"


def kernel(node: str, until: str) -> str:
    """Return a clean kernel log of a node with a line each minute from 09:00 until a time."""
    times = (f"{hour:02d}:{minute:02d}" for hour in (9, 10) for minute in range(60))
    return "".join(f"Aug  1 {at}:30 {node} kernel: audit: x\n" for at in times if at <= until)


def after(job: str, **logs: str) -> Verdict:
    """Return the verdict on the log of a job and clean kernel logs of nodes, each until a time."""
    files = [text_file(f"{node}.log", kernel(node, until), node) for node, until in logs.items()]
    nodes = {rank: f"n-{1 + rank // 8}" for rank in range(24)}
    return decided([text_file("job.err", job, is_job_log=True), *files], nodes)


ALIVE = {"n-1": "10:59", "n-2": "10:59", "n-3": "10:59"}


@pytest.mark.parametrize("line", [TIMED, LOST], ids=["timed", "without a time"])
def test_a_line_of_the_job_does_not_outweigh_the_log_of_a_node_that_runs_an_hour_longer(line: str) -> None:
    found = after(STEPS + line, **ALIVE)
    assert (found.outlook, found.nodes, found.check) == (Outlook.RESTART, (), ("n-3",))
    assert found.hardware.state != "blamed"
    assert found.cause is not None
    assert "clean_node_log" in found.cause.weights


def test_a_line_without_any_time_does_not_outweigh_a_log_of_the_node() -> None:
    assert after(LOST, **ALIVE).nodes == ()


@pytest.mark.parametrize("logs", [{}, {**ALIVE, "n-3": "09:59"}], ids=["no logs", "the log ends with the node"])
def test_a_lost_node_whose_log_does_not_continue_is_left_out_and_its_hardware_is_not_blamed(
    logs: dict[str, str],
) -> None:
    found = after(STEPS + TIMED, **logs)
    assert (found.outlook, found.nodes) == (Outlook.RESTART_WITHOUT, ("n-3",))
    assert found.hardware.state == "undetermined"


def test_a_scheduler_that_names_no_node_acquits_no_hardware_without_the_logs_of_the_nodes() -> None:
    found = after(f"{STEPS}[2026-08-01 10:00:00,000] 88213 llm NODE_FAIL 0:0\n")
    assert (found.outlook, found.hardware.state) == (Outlook.RESTART, "undetermined")
