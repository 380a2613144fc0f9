"""Large bursts: the reads of a burst stay proportional to its nodes, and the steps follow the failures closely."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.ops.large_bursts import MANY, SHARE, LargeBursts

BATCH = 100


def runs(bursts: LargeBursts, batches: Iterable[int]) -> list[int]:
    """Return the numbers of unhealthy nodes at which the steps ran, as batches of nodes of one cluster fail."""
    unhealthy, ran = 0, []
    for nodes in batches:
        unhealthy += nodes
        if bursts.are_steps_due("train-a", nodes):
            bursts.steps_ran("train-a", unhealthy)
            ran.append(unhealthy)
    return ran


def test_with_few_unhealthy_nodes_every_batch_runs_the_steps() -> None:
    assert runs(LargeBursts(), [1] * (MANY + 1)) == list(range(1, MANY + 2))


def test_with_many_unhealthy_nodes_a_single_node_does_not_run_the_steps() -> None:
    bursts = LargeBursts()
    bursts.steps_ran("train-a", MANY + 1)
    assert not bursts.are_steps_due("train-a", 1)
    assert bursts.are_steps_due("train-b", 1), "another cluster"


def test_a_batch_without_nodes_does_not_run_the_steps_of_a_large_burst() -> None:
    bursts = LargeBursts()
    bursts.steps_ran("train-a", MANY + 1)
    assert not bursts.are_steps_due("train-a", 0)


@pytest.mark.parametrize("nodes", [12_500, 50_000])
def test_the_rows_read_for_each_node_of_a_burst_do_not_grow_with_the_burst(nodes: int) -> None:
    ran = runs(LargeBursts(), [BATCH] * (nodes // BATCH))
    assert sum(ran) / nodes <= SHARE + 1 + MANY / BATCH
    assert len(ran) < nodes // BATCH


@given(st.lists(st.integers(0, 300), max_size=200))
def test_the_steps_never_leave_out_more_than_their_share_of_the_nodes(batches: list[int]) -> None:
    bursts, unhealthy, seen = LargeBursts(many=50, share=8), 0, 0
    for nodes in batches:
        unhealthy += nodes
        if bursts.are_steps_due("train-a", nodes):
            bursts.steps_ran("train-a", unhealthy)
            seen = unhealthy
        assert seen == unhealthy or (seen > 50 and (unhealthy - seen) * 8 < seen)
