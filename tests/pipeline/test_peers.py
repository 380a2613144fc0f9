"""Comparing a node with its peers: laws of the pure stage, and a replay of a fleet with gray nodes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from faultbridge.decide.peers import Outlier, find_outliers, main_part, rise_per_hour
from faultbridge.decode.data.counters import detectors
from faultbridge.model.findings import Baseline, Detector
from tests.bench.gray_fleet import replay
from tests.builders import NOON

DETECTOR = Detector("d", "dcgm-metrics", ("c",), "errors", floor=20)
RISES = st.lists(st.integers(0, 10_000), max_size=40).map(lambda rises: {f"n-{n}": one for n, one in enumerate(rises)})


@given(RISES)
def test_fewer_than_half_of_a_group_are_outliers_and_a_small_group_has_none(rises: dict[str, int]) -> None:
    found = find_outliers(DETECTOR, rises)
    assert 2 * len(found) < max(len(rises), 1)
    assert found == {} or len(rises) > DETECTOR.min_peers


@given(RISES, st.integers(0, 10_000))
def test_what_all_nodes_share_makes_none_an_outlier(rises: dict[str, int], load: int) -> None:
    shifted = find_outliers(DETECTOR, {node: rise + load for node, rise in rises.items()})
    assert shifted.keys() == find_outliers(DETECTOR, rises).keys()


@given(RISES)
def test_an_outlier_is_above_the_median_by_the_floor_and_a_higher_node_is_one_too(rises: dict[str, int]) -> None:
    found = find_outliers(DETECTOR, rises)
    for node, outlier in found.items():
        assert outlier.value - outlier.median >= DETECTOR.floor - 1
        assert {other for other in rises if rises[other] >= rises[node]} <= found.keys()


@given(st.integers(0, 10**15), st.integers(0, 10**9), st.integers(0, 600))
@example(0, 60, 30)
@example(5, 0, 60)
def test_a_rise_is_per_hour_and_counters_that_started_again_have_none(total: int, rise: int, minutes: int) -> None:
    before = Baseline(NOON, "1/1", total)
    after = Baseline(NOON + timedelta(minutes=minutes), "1/1", total + rise)
    found = rise_per_hour(before, after)
    assert (found is None) is (minutes < 30)
    assert found is None or abs(found * minutes / 60 - rise) <= max(1, minutes / 60)
    assert rise_per_hour(None, after) is None
    assert rise_per_hour(before, Baseline(after.at, "1/2", total + rise)) is None
    assert rise == 0 or rise_per_hour(after, Baseline(after.at + timedelta(hours=1), "1/1", total)) is None


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"first": 13, "second": 22}, "first"),
        ({"first": 10, "second": 22, "third": 3}, "third"),
        ({"first": 13, "second": 23}, None),
    ],
)
def test_the_main_part_has_more_than_half_of_the_rise_and_a_new_component_rises_from_zero(
    parts: dict[str, int], expected: str | None
) -> None:
    before = Baseline(NOON, "1/1", 30, parts={"first": 10, "second": 20})
    after = Baseline(NOON + timedelta(hours=1), "1/1", sum(parts.values()), parts=parts)
    assert main_part(before, after) == expected


@pytest.mark.parametrize("before", [None, Baseline(NOON, "1/1", 0)])
def test_without_earlier_totals_of_the_components_there_is_no_main_part(before: Baseline | None) -> None:
    after = Baseline(NOON + timedelta(hours=1), "1/1", 30, parts={"first": 30})
    assert main_part(before, after) is None


def test_each_detector_finds_every_gray_node_of_a_replay_with_few_false_findings() -> None:
    scores = replay(seed=3, nodes=240, hours=72)
    assert {score.detector: score.recall for score in scores} == {one.name: 1.0 for one in detectors()}
    assert [score for score in scores if score.precision < 0.8] == []


def test_a_node_at_the_limit_of_a_group_of_the_smallest_size_is_an_outlier() -> None:
    peers = {f"n-{number}": 0 for number in range(DETECTOR.min_peers)}
    assert find_outliers(DETECTOR, peers | {"gray": DETECTOR.floor - 1}) == {}
    found = find_outliers(DETECTOR, peers | {"gray": DETECTOR.floor})
    assert found == {"gray": Outlier(DETECTOR.floor, 0, 100 * DETECTOR.score, DETECTOR.min_peers)}
    assert find_outliers(DETECTOR, dict(list(peers.items())[1:]) | {"gray": 10**6}) == {}
