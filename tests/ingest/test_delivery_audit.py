"""Delivery audit: every record that was sent has an outcome, and the records without one are listed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from faultbridge.adapters.aws.receipts import receipt_line
from faultbridge.model.records import Outcome
from faultbridge.serve.ingest.outcomes import outcome_line, outcomes_in, sent_lines
from faultbridge.serve.ingest.send import audit_deliveries, merge_outcomes
from tests.sim.fakes import FakeReceipts, ManualClock


def receipts_of(sent: list[str], outcomes: list[dict[str, Outcome]]) -> FakeReceipts:
    receipts = FakeReceipts()
    for line in sent_lines("test", sent):
        receipts.write(line)
    for batch in outcomes:
        receipts.write(outcome_line(batch))
    return receipts


def test_an_audit_is_complete_when_every_sent_record_has_an_outcome() -> None:
    receipts = receipts_of(["a", "b"], [{"a": Outcome.RECORDED}, {"b": Outcome.CLEAN}])
    found = audit_deliveries(receipts, receipts.clock.now())
    assert found.complete
    assert (found.sent, found.outcomes[Outcome.RECORDED], found.outcomes[Outcome.CLEAN]) == (2, 1, 1)


def test_a_record_without_an_outcome_is_listed() -> None:
    receipts = receipts_of(["a", "b", "c"], [{"b": Outcome.FOLDED}])
    assert audit_deliveries(receipts, receipts.clock.now()).missing == ("a", "c")


def test_a_record_counts_once_however_often_it_is_sent_or_delivered() -> None:
    receipts = receipts_of(["a", "a"], [{"a": Outcome.RECORDED}, {"a": Outcome.DUPLICATE}, {"a": Outcome.DUPLICATE}])
    found = audit_deliveries(receipts, receipts.clock.now())
    assert (found.sent, found.outcomes[Outcome.RECORDED], found.outcomes[Outcome.DUPLICATE]) == (1, 1, 0)


def test_a_retried_reject_counts_with_its_later_outcome() -> None:
    receipts = receipts_of(["a"], [{"a": Outcome.REJECTED}, {"a": Outcome.CLEAN}])
    assert audit_deliveries(receipts, receipts.clock.now()).outcomes[Outcome.CLEAN] == 1


def test_records_of_senders_without_receipts_are_counted_separately() -> None:
    receipts = receipts_of(["a"], [{"a": Outcome.CLEAN, "from-an-agent": Outcome.CLEAN}])
    found = audit_deliveries(receipts, receipts.clock.now())
    assert (found.complete, found.sent, found.others) == (True, 1, 1)


def test_records_sent_before_the_start_time_do_not_count() -> None:
    clock = ManualClock()
    receipts = FakeReceipts(clock)
    for line in sent_lines("test", ["old"]):
        receipts.write(line)
    since = clock.advance(1)
    assert audit_deliveries(receipts, since).sent == 0


def test_a_receipt_costs_little_more_than_the_ids_of_its_records() -> None:
    ids = [f"{number:016d}" for number in range(1000)]
    line = outcome_line({one: list(Outcome)[number % 3] for number, one in enumerate(ids)})
    assert len(receipt_line(line)) < 18 * len(ids)
    assert dict(outcomes_in(line)) == {one: list(Outcome)[number % 3] for number, one in enumerate(ids)}


def test_receipts_are_split_into_lines_that_fit_in_a_log() -> None:
    lines = list(sent_lines("test", (f"{number:036d}" for number in range(2500))))
    assert [len(line["records"]) for line in lines] == [1000, 1000, 500]


@given(st.lists(st.sampled_from(Outcome), min_size=1, max_size=5), st.randoms())
def test_the_order_in_which_outcomes_are_read_does_not_matter(outcomes: list[Outcome], random: object) -> None:
    shuffled = list(outcomes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a Random

    def merged(given: list[Outcome]) -> Outcome | None:
        known = None
        for one in given:
            known = merge_outcomes(known, one)
        return known

    assert merged(shuffled) is merged(outcomes)
