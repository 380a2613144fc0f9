"""`faultbridge job`: what the commands show of a job from its start until it may resume."""

from __future__ import annotations

import pytest

from tests.builders import KEY
from tests.cli.desk import Desk

CLUSTER, NODE = KEY


def start(desk: Desk) -> None:
    assert desk("job", "start", "88213", "--cluster", CLUSTER, "--node", NODE, "--name", "llama").code == 0


def test_a_running_job_is_listed_and_one_that_succeeded_is_not(desk: Desk) -> None:
    start(desk)
    (listed,) = desk.json("job", "list")
    assert (listed["job_id"], listed["state"], listed["nodes"]) == ("88213", "running", [NODE])
    desk("job", "end", "88213", "--cluster", CLUSTER, "--outcome", "succeeded")
    assert desk.json("job", "list", "--cluster", CLUSTER) == []
    assert desk.json("job", "show", "88213", "--cluster", CLUSTER)["state"] == "ended"


def test_a_job_that_failed_by_a_fault_waits_for_its_node(desk: Desk) -> None:
    start(desk)
    desk.world.app.ingestion.ingest([desk.world.message()])
    desk.world.app.ops.sweep()
    desk("job", "end", "88213", "--cluster", CLUSTER, "--outcome", "failed")
    shown = desk.json("job", "show", "88213", "--cluster", CLUSTER)
    assert (shown["state"], shown["affected_nodes"], shown["resumable_at"]) == ("waiting", [NODE], None)


@pytest.mark.parametrize("wide", [(), ("--wide",)])
def test_the_tables_fit_eighty_columns_or_name_what_is_missing(desk: Desk, wide: tuple[str, ...]) -> None:
    start(desk)
    out = desk("job", "list", *wide).out
    assert "running" in out
    assert wide or max(map(len, out.splitlines())) <= 80


def test_an_unknown_job_is_refused_with_the_command_that_lists_jobs(desk: Desk) -> None:
    ran = desk("job", "show", "1", "--cluster", CLUSTER)
    assert ran.code != 0
    assert "faultbridge job list" in ran.err
