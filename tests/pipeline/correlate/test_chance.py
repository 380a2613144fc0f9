"""Chance: what the history of a failure domain predicts, and when that makes several faults unlikely."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from faultbridge.decide.correlate.shared_causes import MAX_DOMAINS, OnsetHistory, is_unlikely
from faultbridge.model.cluster.config import FailureDomain
from faultbridge.model.enums import DomainKind
from faultbridge.model.fault_enums import Family
from tests.builders import NOON, after

RACK, OTHER = (FailureDomain(DomainKind.RACK, name) for name in ("r-1", "r-2"))
WINDOW = timedelta(minutes=10)
ONE = 1_000
"""One onset, in the thousandths that the history holds."""


def onset(minutes: int, domain: FailureDomain = RACK) -> tuple[Family, FailureDomain, object]:
    return Family.NETWORK, domain, after(minutes=minutes)


def counted(history: OnsetHistory) -> dict[str, int]:
    return {name: count.thousandths for name, count in history.counts.items()}


def test_each_onset_is_counted_once_in_its_domain() -> None:
    history = OnsetHistory().counting([onset(1), onset(2), onset(2, OTHER), onset(9)], after(minutes=5))
    assert counted(history) == {"network/rack/r-1": 2 * ONE, "network/rack/r-2": ONE}
    assert (history.since, history.until) == (after(minutes=5), after(minutes=5))
    again = history.counting([onset(5), onset(9), onset(10), onset(11)], after(minutes=10))
    assert counted(again)["network/rack/r-1"] == pytest.approx(4 * ONE, abs=3)
    assert (again.since, again.until) == (after(minutes=5), after(minutes=10))


def test_an_onset_counts_half_after_a_week() -> None:
    history = OnsetHistory().counting([onset(0)], NOON).counting([onset(60 * 24 * 7)], after(days=7))
    assert counted(history) == {"network/rack/r-1": ONE + ONE // 2}


def test_only_the_domains_with_the_most_onsets_are_kept() -> None:
    domains = [FailureDomain(DomainKind.RACK, f"r-{number:04}") for number in range(MAX_DOMAINS + 1)]
    onsets = [(Family.NETWORK, domain, NOON) for domain in (*domains, domains[-1])]
    kept = OnsetHistory().counting(onsets, NOON).counts
    assert len(kept) == MAX_DOMAINS
    assert kept.keys() == {f"network/rack/{domain.name}" for domain in domains if domain is not domains[-2]}


def test_without_a_history_each_node_has_one_fault_of_a_family_in_thirty_days() -> None:
    expected = OnsetHistory().expected(Family.NETWORK, RACK, 30, timedelta(days=1), NOON)
    assert expected == pytest.approx(1)
    known = OnsetHistory().counting([onset(0)], NOON)
    assert known.expected(Family.POWER, RACK, 30, timedelta(days=1), NOON) == pytest.approx(1)
    assert known.expected(Family.NETWORK, OTHER, 30, timedelta(days=1), NOON) == pytest.approx(1)


def test_a_domain_with_a_constant_rate_is_predicted_to_keep_it() -> None:
    history = OnsetHistory()
    for day in range(1, 71):
        at = after(days=day)
        history = history.counting([(Family.NETWORK, RACK, at)] * 10, at)
    predicted = history.expected(Family.NETWORK, RACK, 8, timedelta(days=1), after(days=70))
    assert predicted == pytest.approx(10, rel=0.06)


def test_a_short_history_predicts_no_more_than_its_onsets_within_a_half_life() -> None:
    history = OnsetHistory().counting([onset(0)] * 7, NOON)
    predicted = history.expected(Family.NETWORK, RACK, 1, timedelta(days=1), NOON)
    assert predicted == pytest.approx(7 / (7 / math.log(2) / 2))
    assert predicted == history.expected(Family.NETWORK, RACK, 8, timedelta(days=1), NOON)


@pytest.mark.parametrize(
    ("number", "odds", "unlikely"),
    [(0, 1, False), (1, 6_000, False), (2, 6_000, False), (3, 6_000, True), (3, 7_000, False), (4, 6_000, True)],
)
def test_a_number_of_faults_is_unlikely_if_chance_brings_so_many_less_than_once_in_the_odds(
    number: int, odds: int, unlikely: bool
) -> None:
    # Of a mean of 0.1: one or more in 10.5, two or more in 214, three or more in 6,470 cases.
    assert is_unlikely(number, 0.1, odds) is unlikely
