"""Records sent = records with an outcome; which are not, is said."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from faultbridge.domain.records import Outcome
from faultbridge.ingest.delivery_audit import account, final, outcome_lines, sent_lines
from faultbridge.simulation.fakes import FakeReceipts, ManualClock


def told(sent: list[str], outcomes: list[dict[str, Outcome]]) -> FakeReceipts:
    receipts = FakeReceipts()
    for line in sent_lines("test", sent):
        receipts.write(line)
    for batch in outcomes:
        for line in outcome_lines(batch):
            receipts.write(line)
    return receipts


def test_what_was_sent_and_settled_is_complete() -> None:
    receipts = told(["a", "b"], [{"a": Outcome.RECORDED}, {"b": Outcome.CLEAN}])
    found = account(receipts, receipts.clock.now())
    assert found.complete
    assert (found.sent, found.outcomes[Outcome.RECORDED], found.outcomes[Outcome.CLEAN]) == (2, 1, 1)


def test_a_record_without_an_outcome_is_named() -> None:
    receipts = told(["a", "b", "c"], [{"b": Outcome.FOLDED}])
    assert account(receipts, receipts.clock.now()).missing == ("a", "c")


def test_a_record_counts_once_however_often_it_is_sent_or_settled() -> None:
    receipts = told(["a", "a"], [{"a": Outcome.RECORDED}, {"a": Outcome.DUPLICATE}, {"a": Outcome.DUPLICATE}])
    found = account(receipts, receipts.clock.now())
    assert (found.sent, found.outcomes[Outcome.RECORDED], found.outcomes[Outcome.DUPLICATE]) == (1, 1, 0)


def test_a_reject_that_was_tried_again_is_what_it_became() -> None:
    receipts = told(["a"], [{"a": Outcome.REJECTED}, {"a": Outcome.CLEAN}])
    assert account(receipts, receipts.clock.now()).outcomes[Outcome.CLEAN] == 1


def test_what_others_sent_is_counted_apart() -> None:
    receipts = told(["a"], [{"a": Outcome.CLEAN, "from-an-agent": Outcome.CLEAN}])
    found = account(receipts, receipts.clock.now())
    assert (found.complete, found.sent, found.others) == (True, 1, 1)


def test_what_lies_before_the_instant_does_not_count() -> None:
    clock = ManualClock()
    receipts = FakeReceipts(clock)
    for line in sent_lines("test", ["old"]):
        receipts.write(line)
    since = clock.advance(1)
    assert account(receipts, since).sent == 0


def test_a_long_list_is_told_in_lines_that_a_log_takes() -> None:
    lines = list(sent_lines("test", (f"{number:036d}" for number in range(2500))))
    assert [len(line["records"]) for line in lines] == [1000, 1000, 500]
    assert not list(outcome_lines({}))


@given(st.lists(st.sampled_from(Outcome), min_size=1, max_size=5), st.randoms())
def test_the_order_in_which_outcomes_are_read_does_not_matter(outcomes: list[Outcome], random: object) -> None:
    shuffled = list(outcomes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a Random

    def joined(them: list[Outcome]) -> Outcome | None:
        known = None
        for one in them:
            known = final(known, one)
        return known

    assert joined(shuffled) is joined(outcomes)
