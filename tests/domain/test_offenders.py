"""Repeated offenders, and findings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decode.data import offender_odds
from faultbridge.model.findings import Detector, Finding, Mark, precision_of
from faultbridge.model.offenders import Offender, Place, Stay, Trials, find_offenders
from tests.builders import KEY, NOON

ODDS = offender_odds()
TRIALS = st.builds(lambda faulty, none: Trials(faulty + none, faulty), st.integers(0, 20), st.integers(0, 20))


def stays(card: Trials, slot: Trials) -> list[Stay]:
    """Return one card with a fault in one slot, its other slots, and the slot's other cards."""
    here = Place("host", "slot")
    return [
        Stay("card", here, 1),
        *(Stay("card", Place(f"host-{number}", "slot"), int(number < card.faulty)) for number in range(card.number)),
        *(Stay(f"card-{number}", here, int(number < slot.faulty)) for number in range(slot.number)),
    ]


@given(TRIALS, TRIALS)
def test_exchanging_card_and_slot_inverts_the_ratio(card: Trials, slot: Trials) -> None:
    product = (ODDS.weight(card) / ODDS.weight(slot)) * (ODDS.weight(slot) / ODDS.weight(card))
    assert abs(product - 1) < 1e-9


@given(TRIALS, TRIALS)
def test_each_pair_is_counted_once_and_a_further_faulty_slot_raises_the_ratio_of_the_card(
    card: Trials, slot: Trials
) -> None:
    found = {(one.name, one.place): one for one in find_offenders(stays(card, slot), ODDS)}
    one = found.get(("card", Place("host", "slot")))
    assert (one is None) is (card.faulty + slot.faulty == 0)
    if one is not None:
        assert (one.card, one.slot) == (card, slot)
        worse = Trials(card.number + 1, card.faulty + 1)
        assert ODDS.weight(worse) / ODDS.weight(slot) > one.ratio


def test_equal_evidence_favors_neither() -> None:
    (first, *_) = find_offenders(stays(Trials(1, 1), Trials(1, 1)), ODDS)
    assert (first.ratio, first.favors) == (1, "undetermined")


@pytest.mark.parametrize(
    ("ratio", "favors"),
    [(3.0, "card"), (2.9, "undetermined"), (0.34, "undetermined"), (1 / 3, "slot"), (9.0, "card"), (0.1, "slot")],
)
def test_an_explanation_is_favored_if_it_is_at_least_three_times_as_likely(ratio: float, favors: str) -> None:
    assert Offender("card", Place("host", "slot"), 1, Trials(0, 0), Trials(0, 0), ratio).favors == favors


@pytest.mark.parametrize(("faults", "listed"), [((1, 1), True), ((2,), True), ((1,), False), ((1, 0), False)])
def test_the_faults_of_a_card_in_a_slot_are_added_up_and_one_alone_is_no_offender(
    faults: tuple[int, ...], listed: bool
) -> None:
    here = Place("host", "slot")
    found = find_offenders([Stay("card", here, count) for count in faults], ODDS)
    assert [(one.name, one.faults) for one in found] == ([("card", 2)] if listed else [])


def test_the_card_with_the_most_faults_is_listed_first() -> None:
    found = find_offenders([Stay(name, Place("host", name), count) for name, count in (("a", 2), ("b", 3))], ODDS)
    assert [one.name for one in found] == ["b", "a"]


def finding(mark: Mark | None, detector: str = "nvlink-crc") -> Finding:
    return Finding("f-1", *KEY, detector, NOON, value=300, median=2, score=900, peers=11, mark=mark)


@pytest.mark.parametrize(
    ("right", "wrong", "percent"), [(0, 0, None), (1, 0, 100), (0, 1, 0), (1, 1, 50), (2, 1, 67), (1, 2, 33)]
)
def test_the_precision_is_the_share_of_the_marked_findings_that_were_right(
    right: int, wrong: int, percent: int | None
) -> None:
    marked = [finding(Mark.RIGHT)] * right + [finding(Mark.WRONG)] * wrong
    found = precision_of("nvlink-crc", [*marked, finding(None), finding(Mark.RIGHT, "another")])
    assert (found.findings, found.right, found.wrong, found.percent) == (right + wrong + 1, right, wrong, percent)


@pytest.mark.parametrize(("code", "proves"), [("xid.74", True), ("sxid.12028", True), ("xid.79", False)])
def test_a_hard_fault_of_a_listed_code_or_family_proves_a_finding(code: str, proves: bool) -> None:
    detector = Detector("nvlink-crc", "nvlink", ("crc",), "errors", 10, proved_by=("xid.74", "sxid.*"))
    assert detector.is_proved_by(code) is proves
