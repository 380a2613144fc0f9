"""Pages are sent at least once, under one key, and never without the table."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.enums import EntryType
from faultbridge.model.errors import Conflict, Misconfigured, Transient
from faultbridge.model.storage import keys
from faultbridge.model.times import from_text
from faultbridge.model.values import replace
from faultbridge.record.ports.messaging import PageUrgency
from faultbridge.serve.pager.deliver import MAX_EVENT_AGE, Paging
from faultbridge.serve.pager.open_pages import OpenPages
from faultbridge.serve.pager.page import PagerSettings
from faultbridge.serve.pager.page_deduplication import MAX_TRIES, PageOutcome
from tests.pager.sending import new_paging, outcomes, sent, states
from tests.pages import BREAKER, CASE, CLOSED, ESCALATED, OPENED, QUEUED, case_event, event, incident
from tests.races import run_after_read
from tests.sim.fakes import START, Call, FakePager, FakeTable, ManualClock, raise_once

URGENT_KEY = f"{CASE}:escalated"


def failing(error: Exception) -> Callable[[Call], None]:
    """Return a hook that breaks every call."""

    def hook(_call: Call) -> None:
        raise error

    return hook


def reasons(caplog: pytest.LogCaptureFixture, decision: str) -> list[str]:
    """Return the reasons of the log lines of a decision."""
    return [vars(record)["reason"] for record in caplog.records if record.message == decision]


def test_a_case_has_one_open_key_at_a_time() -> None:
    failed = event(EntryType.NODE_STATUS, 11, **{"from": "validating", "to": "failed", "reason": "VERIFY_FAILED"})
    again = case_event("queued", 30, **{"from": "escalated", "reason": "an operator tries again"})
    open_keys: set[str] = set()
    history: list[str] = []
    for page in sent(OPENED, QUEUED, failed, ESCALATED, again, case_event("resolved", 40, resolution="replaced")):
        (open_keys.add if page.attributes["state"] == "triggered" else open_keys.remove)(page.key)
        assert len(open_keys) <= 1
        history.append(f"{page.key.removeprefix(CASE)} {page.attributes['state']}")
    assert history == [
        ":opened triggered",
        ":opened resolved",
        ":escalated triggered",
        ":escalated resolved",
        ":opened triggered",
        ":opened resolved",
    ]


def test_a_redelivered_event_sends_one_page(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    paging, pager, _ = new_paging()
    assert outcomes(paging, ESCALATED) == [PageOutcome.SENT]
    caplog.clear()
    assert outcomes(paging, ESCALATED) == [PageOutcome.REPEATED]
    assert pager.keys == [URGENT_KEY]
    assert "the event was processed before" in reasons(caplog, "page not sent")


def test_a_case_that_is_escalated_again_sends_a_page_again() -> None:
    again = case_event("escalated", 40)
    back = case_event("queued", 30, **{"from": "escalated"})
    urgent = [page for page in sent(ESCALATED, back, again) if page.urgency is PageUrgency.URGENT]
    assert states(urgent) == ["triggered", "resolved", "triggered"]


def test_a_case_that_closed_before_its_page_was_sent_sends_no_page() -> None:
    assert sent(CLOSED, QUEUED) == []


def test_a_page_is_not_sent_again_in_the_same_state() -> None:
    half_open = event(EntryType.CLUSTER_SAFETY, 6, None, kind="breaker", to="half_open", reason="tries some")
    paging, pager, _ = new_paging()
    found = [one.outcome for given in (BREAKER, half_open) for one in paging.deliver(given)]
    assert found == [PageOutcome.SENT, PageOutcome.KNOWN]
    assert [one.outcome for one in paging.deliver(BREAKER)] == [PageOutcome.OVERTAKEN]
    assert pager.keys == ["train-a:breaker"]


@pytest.mark.parametrize("kind", ["approval", "isolation"])
def test_a_case_that_closes_resolves_its_approval_and_isolation_pages(kind: str) -> None:
    begun = event(EntryType.NOTE, 9, kind=kind, stage="begun" if kind == "approval" else "overdue", text="asked")
    assert states(sent(begun, CLOSED)) == ["triggered", "resolved"]


def test_a_resolve_that_a_crash_prevented_is_sent_at_the_next_delivery() -> None:
    paging, pager, _ = new_paging()
    paging.deliver(QUEUED)
    pager.seam.before = raise_once(("pager.send", KeyboardInterrupt()))  # type: ignore[arg-type]  # a process that dies
    with pytest.raises(KeyboardInterrupt):
        paging.deliver(CLOSED)
    paging.deliver(CLOSED)
    assert states(pager.sent) == ["triggered", "resolved"]


def test_a_crash_after_a_page_repeats_it_once_under_the_same_key() -> None:
    paging, pager, _ = new_paging()
    pager.seam.after = raise_once(("pager.send", KeyboardInterrupt()))  # type: ignore[arg-type]  # a process that dies
    with pytest.raises(KeyboardInterrupt):
        paging.deliver(ESCALATED)
    paging.deliver(ESCALATED)
    paging.deliver(ESCALATED)
    assert pager.keys == [URGENT_KEY] * 2


def test_a_page_that_the_pager_did_not_accept_is_sent_at_the_next_delivery(caplog: pytest.LogCaptureFixture) -> None:
    paging, pager, _ = new_paging()
    pager.seam.before = raise_once(("pager.send", Transient("throttled")))
    with pytest.raises(Transient):
        paging.deliver(ESCALATED)
    assert reasons(caplog, "page failed; the event is retried") == ["throttled"]
    assert outcomes(paging, ESCALATED) == [PageOutcome.SENT]


@pytest.mark.parametrize("error", [Transient("down"), Misconfigured("no such table")], ids=str)
@pytest.mark.parametrize("given", [ESCALATED, CLOSED, BREAKER], ids=["trigger", "resolve", "cluster"])
def test_without_the_table_no_page_is_sent_and_the_event_is_retried(given: dict[str, Any], error: Exception) -> None:
    paging, pager, table = new_paging()
    table.seam.before = failing(error)
    for _ in range(3):
        with pytest.raises(type(error)):
            paging.deliver(given)
    assert pager.attempted == []


def test_a_page_is_sent_once_after_an_outage_of_the_table() -> None:
    paging, pager, table = new_paging()
    table.seam.before = failing(Transient("down"))
    with pytest.raises(Transient):
        paging.deliver(ESCALATED)
    table.seam.before = lambda _: None
    assert outcomes(paging, ESCALATED) == [PageOutcome.SENT]
    paging.deliver(CLOSED)
    assert states(pager.sent) == ["triggered", "resolved"]


def test_a_failed_page_does_not_hold_back_the_other_pages_of_its_event() -> None:
    paging, pager, _ = new_paging()
    paging.deliver(QUEUED)
    pager.seam.before = raise_once(("pager.send", Misconfigured("no such topic")))
    with pytest.raises(Misconfigured):
        paging.deliver(ESCALATED)
    assert [f"{page.key} {page.attributes['state']}" for page in pager.sent[1:]] == [f"{URGENT_KEY} triggered"]


def paging_with_full_hour() -> tuple[Paging, FakePager, FakeTable]:
    """Return a pager with a limit of one page an hour, which another case has used."""
    paging, pager, table = new_paging(PagerSettings(max_per_hour=1))
    paging.deliver(case_event("escalated", 3, case="c-" + "z" * 26))
    del pager.sent[:], pager.attempted[:]
    return paging, pager, table


def test_a_page_that_a_crash_may_have_sent_is_resolved_even_if_it_is_withheld_later() -> None:
    paging, pager, _ = new_paging(PagerSettings(max_per_hour=1))
    pager.seam.after = raise_once(("pager.send", KeyboardInterrupt()))  # type: ignore[arg-type]  # a process that dies
    with pytest.raises(KeyboardInterrupt):
        paging.deliver(ESCALATED)
    assert outcomes(paging, ESCALATED) == [PageOutcome.WITHHELD]
    paging.deliver(CLOSED)
    assert states(pager.sent) == ["triggered", "resolved"]


def test_two_pages_that_are_counted_at_the_same_time_do_not_fill_the_hour() -> None:
    paging, pager, table = new_paging()
    counter = keys.page_count("train-a", PageUrgency.URGENT, START)

    def busy(call: Call) -> None:
        if call.name == "table.write" and call.argument.key == counter:
            table.seam.before = lambda _: None
            raise Conflict("another transaction is at it")

    table.seam.before = busy
    assert outcomes(paging, ESCALATED) == [PageOutcome.SENT]
    assert pager.keys == [URGENT_KEY]


def test_a_page_that_cannot_be_counted_because_of_other_writers_is_sent() -> None:
    paging, pager, table = new_paging()
    counter = keys.page_count("train-a", PageUrgency.URGENT, START)

    def always_busy(call: Call) -> None:
        if call.name == "table.write" and call.argument.key == counter:
            raise Conflict("another transaction is at it")

    table.seam.before = always_busy
    assert outcomes(paging, ESCALATED) == [PageOutcome.SENT]
    assert pager.keys == [URGENT_KEY]


def test_a_page_that_only_a_summary_lists_has_no_resolve_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    paging, pager, _ = paging_with_full_hour()
    assert outcomes(paging, ESCALATED) == [PageOutcome.WITHHELD]
    assert "hourly limit reached; the next summary lists the page" in reasons(caplog, "page not sent")
    assert PageOutcome.QUIET in outcomes(paging, CLOSED)
    assert pager.sent == []


@pytest.mark.parametrize("error", [Conflict("another transaction is at it"), Transient("throttled")])
def test_a_withheld_page_that_cannot_be_recorded_is_recorded_at_the_next_delivery(error: Exception) -> None:
    paging, _, table = paging_with_full_hour()
    table.seam.before = raise_once(("table.transact", error))
    with pytest.raises(Transient):
        paging.deliver(ESCALATED)
    assert outcomes(paging, ESCALATED) == [PageOutcome.WITHHELD]
    pages, _ = OpenPages(table, paging.clock, 1).read_all("train-a", PageUrgency.URGENT)
    assert URGENT_KEY in [one.page.key for one in pages]


def test_a_log_that_fails_before_the_page_does_not_send_it_twice() -> None:
    paging, pager, table = new_paging()
    table.seam.before = raise_once(("table.get", Transient("x")), ("table.write", Transient("x")))
    with pytest.raises(Transient):
        paging.deliver(ESCALATED)
    paging.deliver(ESCALATED)
    assert pager.keys.count(URGENT_KEY) == 1


def test_a_sent_page_that_cannot_be_recorded_is_logged_and_not_retried(caplog: pytest.LogCaptureFixture) -> None:
    paging, _, table = new_paging()
    table.seam.before = raise_once(("table.transact", Transient("throttled")))
    (delivery,) = (one for one in paging.deliver(ESCALATED) if one.key == URGENT_KEY)
    assert (delivery.outcome, delivery.recorded) == (PageOutcome.SENT, False)
    assert reasons(caplog, "page not recorded") == ["throttled"]


def test_two_processes_with_one_event_send_a_page_twice_rather_than_never() -> None:
    paging, pager, table = new_paging()
    first = iter([True])

    def other_process(call: Any) -> None:
        if call.name == "table.get" and next(first, False):
            paging.deliver(ESCALATED)

    table.seam.after = other_process
    paging.deliver(ESCALATED)
    assert set(pager.keys) == {URGENT_KEY}


def overtake_each_record(table: FakeTable, paging: Paging, *rivals: dict[str, Any]) -> None:
    """Deliver one rival event before each of the next writes of the record of the urgent page."""
    left = list(rivals)

    def hook(call: Call) -> None:
        if call.name == "table.write" and call.argument.key == keys.page_notification(CASE, "escalated") and left:
            table.seam.before = lambda _: None
            paging.deliver(left.pop(0))
            table.seam.before = hook

    table.seam.before = hook


def test_a_page_that_cannot_be_recorded_because_of_other_writers_is_sent() -> None:
    paging, pager, table = new_paging()
    overtake_each_record(table, paging, *(case_event("escalated", number) for number in range(1, MAX_TRIES + 1)))
    assert outcomes(paging, ESCALATED) == [PageOutcome.SENT]
    assert pager.keys.count(URGENT_KEY) == 2


def test_the_resolve_of_a_page_that_another_delivery_may_have_sent_is_sent() -> None:
    paging, pager, table = new_paging(PagerSettings(max_per_hour=1))
    earlier = (case_event("escalated", number) for number in range(1, MAX_TRIES))
    overtake_each_record(table, paging, *earlier, ESCALATED)
    assert outcomes(paging, ESCALATED) == [PageOutcome.WITHHELD]
    assert outcomes(paging, CLOSED) == [PageOutcome.SENT]
    assert states(pager.sent) == ["triggered", "resolved"]


def test_a_case_that_closes_before_its_page_is_recorded_sends_no_page() -> None:
    paging, pager, table = new_paging()
    run_after_read(table.seam, keys.page_notification(CASE, "escalated"), lambda: paging.deliver(CLOSED))
    assert outcomes(paging, ESCALATED) == [PageOutcome.OVERTAKEN]
    assert pager.keys == []


def of_later_epoch(given: dict[str, Any], sequence: int) -> dict[str, Any]:
    """Return an event as it is recorded after `faultbridge recover`, which starts a new epoch."""
    metadata = {"epoch": 2, "sequence": sequence, "event_id": f"00000000-0000-5000-8002-{sequence:012d}"}
    return given | {"metadata": given["metadata"] | metadata}


def test_an_event_of_a_later_epoch_is_later_whatever_its_sequence() -> None:
    paging, pager, _ = new_paging()
    paging.deliver(ESCALATED)
    assert outcomes(paging, of_later_epoch(CLOSED, 1)) == [PageOutcome.SENT]
    assert outcomes(paging, case_event("escalated", 40)) == [PageOutcome.OVERTAKEN]
    assert states(pager.sent) == ["triggered", "resolved"]


def test_a_page_of_a_later_epoch_with_the_same_sequence_is_not_marked_as_sent_by_the_earlier_event() -> None:
    paging, pager, _ = new_paging()
    closed = of_later_epoch(CLOSED, ESCALATED["metadata"]["sequence"])

    def close_without_sending(_call: Call) -> None:
        pager.seam.after, pager.seam.before = (lambda _: None), failing(Transient("throttled"))
        with pytest.raises(Transient):
            paging.deliver(closed)
        pager.seam.before = lambda _: None

    pager.seam.after = close_without_sending
    (delivery,) = (one for one in paging.deliver(ESCALATED) if one.key == URGENT_KEY)
    assert (delivery.outcome, delivery.recorded) == (PageOutcome.SENT, False)
    assert outcomes(paging, closed) == [PageOutcome.SENT]
    assert states(pager.sent) == ["triggered", "resolved"]


def test_a_record_of_a_later_epoch_with_the_same_sequence_is_not_overwritten_by_an_earlier_event() -> None:
    paging, pager, table = new_paging()
    paging.deliver(ESCALATED)
    closed = of_later_epoch(CLOSED, ESCALATED["metadata"]["sequence"])
    run_after_read(table.seam, keys.page_notification(CASE, "escalated"), lambda: paging.deliver(closed))
    assert outcomes(paging, case_event("escalated", 40)) == [PageOutcome.OVERTAKEN]
    assert states(pager.sent) == ["triggered", "resolved"]


def test_a_case_that_closes_while_its_page_is_sent_leaves_no_open_page() -> None:
    paging, pager, table = new_paging()

    def close(_call: Call) -> None:
        pager.seam.after = lambda _: None
        paging.deliver(CLOSED)

    pager.seam.after = close
    (delivery,) = (one for one in paging.deliver(ESCALATED) if one.key == URGENT_KEY)
    assert (delivery.outcome, delivery.recorded) == (PageOutcome.SENT, False)
    assert states(pager.sent) == ["triggered", "resolved"]
    assert OpenPages(table, paging.clock, 100).read_all("train-a", PageUrgency.URGENT) == ([], None)


def test_a_reminder_does_not_reopen_a_page_that_was_resolved(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    paging, _, table = new_paging()
    paging.deliver(ESCALATED)
    pages = OpenPages(table, paging.clock, 100)
    ((opened,), _) = pages.read_all("train-a", PageUrgency.URGENT)
    paging.deliver(CLOSED)
    pages.update(replace(opened, sent_count=2))
    assert pages.read_all("train-a", PageUrgency.URGENT) == ([], None)
    assert reasons(caplog, "open page not updated") == ["resolved or triggered again"]


def test_a_reminder_changes_nothing_of_a_page_that_was_resolved_and_triggered_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    paging, _, table = new_paging()
    paging.deliver(ESCALATED)
    pages = OpenPages(table, paging.clock, 100)
    ((first,), _) = pages.read_all("train-a", PageUrgency.URGENT)
    paging.deliver(case_event("queued", 30, **{"from": "escalated"}))
    paging.deliver(case_event("escalated", 40))
    ((second,), _) = pages.read_all("train-a", PageUrgency.URGENT)
    assert not pages.update(replace(first, sent_count=2))
    pages.forget(first)
    assert pages.read_all("train-a", PageUrgency.URGENT) == ([second], None)
    assert reasons(caplog, "open page not updated") == ["resolved or triggered again"]
    assert reasons(caplog, "open page not deleted") == ["triggered again"]
    pages.forget(second)
    assert pages.read_all("train-a", PageUrgency.URGENT) == ([], None)


def test_an_event_older_than_16_days_sends_no_page() -> None:
    paging, pager, _ = new_paging()
    assert isinstance(paging.clock, ManualClock)
    paging.clock.advance(timedelta(days=16, seconds=1))
    assert set(outcomes(paging, ESCALATED)) == {PageOutcome.TOO_OLD}
    assert pager.sent == []


def test_an_event_of_exactly_16_days_still_sends_a_page() -> None:
    paging, pager, _ = new_paging()
    assert isinstance(paging.clock, ManualClock)
    paging.clock.advance_to(from_text(ESCALATED["metadata"]["recorded_at"]) + MAX_EVENT_AGE)
    assert PageOutcome.TOO_OLD not in outcomes(paging, ESCALATED)
    assert pager.keys == [URGENT_KEY]


def test_a_record_of_the_notification_log_expires_after_30_days() -> None:
    paging, _, table = new_paging()
    paging.deliver(ESCALATED)
    record = table.get(keys.page_notification(CASE, "escalated"))
    assert record is not None
    assert (record["state"], record["expires_at"]) == ("sent", int((START + timedelta(days=30)).timestamp()))


def test_two_domains_with_open_breakers_are_two_pages_and_a_hold_is_none() -> None:
    opened = [
        event(EntryType.CLUSTER_SAFETY, number, None, kind="breaker", to="open", domain=domain, reason="failing")
        for number, domain in enumerate(("rack-1", "rack-2"), 1)
    ]
    held = event(EntryType.CLUSTER_SAFETY, 3, None, kind="hold", to="held", domain="rack-1", reason="incident")
    assert [page.key for page in sent(*opened, held)] == ["train-a:breaker:rack-1", "train-a:breaker:rack-2"]


def test_an_expired_incident_resolves_its_page_and_sends_another_that_its_end_resolves() -> None:
    pages = sent(incident("opened"), incident("expired", 5, to="expired"), incident("closed", 8))
    assert [(page.key, page.attributes["state"], page.urgency.value) for page in pages] == [
        ("train-a:incident:switch-leaf-7", "triggered", "urgent"),
        ("train-a:incident:switch-leaf-7", "resolved", "urgent"),
        ("train-a:incident-expired:switch-leaf-7", "triggered", "urgent"),
        ("train-a:incident-expired:switch-leaf-7", "resolved", "urgent"),
    ]


def test_an_open_page_that_may_have_been_sent_in_the_meantime_is_not_removed_without_its_resolve() -> None:
    paging, _, table = new_paging()
    paging.deliver(ESCALATED)
    pages = OpenPages(table, paging.clock, 100)
    ((opened,), _) = pages.read_all("train-a", PageUrgency.URGENT)
    table.transact([pages.put(replace(opened, individual=False, possibly_sent=True))])
    with pytest.raises(Conflict):
        table.transact([pages.delete(opened.page, if_unsent=True)])
    table.transact([pages.put(replace(opened, individual=False))])
    for _ in range(2):
        table.transact([pages.delete(opened.page, if_unsent=True)])
    assert pages.read(opened.page) is None
