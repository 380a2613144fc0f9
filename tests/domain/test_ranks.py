"""Ranks: which global ranks run on which node, as short texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.cluster.jobs import gpu_like, gpu_of, node_of_rank, rank_text, ranks_in_order, ranks_of
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component

GPUS = tuple(Component(ComponentType.GPU, f"0000:{one}1:00", f"GPU-{one}", one) for one in range(8))


@given(st.sets(st.integers(min_value=0, max_value=300)))
def test_ranks_read_as_they_are_written(ranks: set[int]) -> None:
    assert ranks_of(rank_text(ranks)) == tuple(sorted(ranks))


def test_neighbors_are_one_range() -> None:
    assert (rank_text([4, 0, 1, 2]), rank_text([7]), rank_text([])) == ("0-2,4", "7", "")


def test_equally_many_ranks_follow_the_order_of_the_nodes() -> None:
    ranks = ranks_in_order(["b", "a"], 8)
    assert ranks == {"b": "0-7", "a": "8-15"}
    assert node_of_rank(ranks)[9] == "a"


def test_a_huge_range_is_read_only_up_to_the_limit() -> None:
    assert len(ranks_of("0-999999999999")) == 100_001


def test_a_gpu_is_found_by_its_index_its_uuid_or_its_address() -> None:
    assert gpu_of(GPUS, 3) is GPUS[3]
    assert gpu_like(GPUS, Component(ComponentType.NVLINK, "0000:51:00", link=3)) is GPUS[5]
    assert gpu_like(GPUS, Component(ComponentType.GPU, None, "GPU-2")) is GPUS[2]
    assert gpu_like(GPUS, Component(ComponentType.GPU)) is None
