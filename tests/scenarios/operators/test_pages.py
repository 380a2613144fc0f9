"""Page limits: bursts are summarized, every fault is paged, and every page is resolved."""

from __future__ import annotations

import json
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultbridge.model.errors import Transient
from faultbridge.model.storage import keys
from faultbridge.record.ports.messaging import PageMessage, PageUrgency
from faultbridge.serve.pager.page_deduplication import PageOutcome
from tests.pages import BREAKER, case_event, incident
from tests.scenarios.operators.builders import CLUSTER, SUMMARY, PagerBench, case_change, page_key
from tests.sim.fakes import ManualClock, raise_once

LIMIT = 10


def test_a_thousand_cases_in_an_hour_stay_within_the_page_limit_and_all_are_paged() -> None:
    bench, random = PagerBench(), Random(7)
    arrivals = sorted(random.uniform(0, 60) for _ in range(1000))
    for number, at in enumerate(arrivals):
        while (bench.clock.now() - ManualClock().now()) < timedelta(minutes=int(at)):
            bench.advance_minutes(1)
        bench.paging.deliver(case_change(number))
    bench.advance_minutes(6)
    own = [page for page in bench.pager.sent if page.key != SUMMARY]
    summaries = [page for page in bench.pager.sent if page.key == SUMMARY]
    assert len(own) <= 2 * LIMIT, "two clock hours are touched"
    assert len(summaries) <= 14, "one each five minutes of 66"
    bench.advance_minutes(6)
    assert bench.triggered_keys() - {SUMMARY} == {page_key(number) for number in range(1000)}


def test_the_summary_of_a_burst_lists_every_case_and_their_number() -> None:
    bench = PagerBench()
    for number in range(300):
        bench.paging.deliver(case_change(number))
    bench.advance_minutes(1)
    assert "290 open cases have no page of their own" in bench.pager.sent[-1].bodies["email"]
    bench.advance_minutes(15)
    assert bench.triggered_keys() - {SUMMARY} == {page_key(number) for number in range(300)}
    assert len(bench.pager.sent) == LIMIT + 3


def test_the_summary_is_resolved_with_its_last_case_and_sends_no_single_resolves() -> None:
    bench = PagerBench()
    for number in range(12):
        bench.paging.deliver(case_change(number))
    bench.advance_minutes(1)
    for number in range(11):
        bench.paging.deliver(case_change(number, 20, "resolved", resolution="by_operator"))
    bench.advance_minutes(6)
    assert bench.live == {SUMMARY}
    ended = bench.paging.deliver(case_change(11, 20, "resolved", resolution="by_operator"))
    assert PageOutcome.QUIET in {one.outcome for one in ended}
    bench.advance_minutes(1)
    assert bench.live == set()
    bench.advance_minutes(600)
    assert len(bench.pager.sent) == 2 * LIMIT + 2


def test_a_case_that_ended_before_the_summary_is_not_in_it() -> None:
    bench = PagerBench()
    for number in range(11):
        bench.paging.deliver(case_change(number))
    bench.paging.deliver(case_change(10, 20, "resolved"))
    bench.advance_minutes(10)
    assert SUMMARY not in {page.key for page in bench.pager.sent}


def test_the_page_limit_starts_anew_each_hour() -> None:
    bench = PagerBench(max_per_hour=1)
    for number in range(2):
        bench.paging.deliver(case_change(number))
        bench.clock.advance(timedelta(hours=1))
    assert bench.live == {page_key(0), page_key(1)}


def notice(number: int) -> dict[str, object]:
    """Build the event of a queued case of one of many nodes, which requires a notice."""
    return case_change(number, to="queued", **{"from": "open"})


def test_notices_leave_the_limit_of_urgent_pages_alone() -> None:
    bench = PagerBench(max_per_hour=1)
    bench.paging.deliver(notice(0))
    bench.paging.deliver(case_change(1))
    assert [page.urgency for page in bench.pager.sent] == [PageUrgency.NOTICE, PageUrgency.URGENT]


def test_withheld_notices_are_in_a_summary_too() -> None:
    bench = PagerBench(max_per_hour=1)
    for number in range(3):
        bench.paging.deliver(notice(number))
    bench.advance_minutes(1)
    assert [page.urgency for page in bench.pager.sent] == [PageUrgency.NOTICE] * 2
    members = json.loads(bench.pager.sent[-1].bodies["sqs"])["members"]
    assert [one["node"] for one in members] == ["gpu-0001", "gpu-0002"]


def test_a_summary_of_open_cases_is_repeated_every_four_hours() -> None:
    bench = PagerBench(max_per_hour=1)
    for number in range(2):
        bench.paging.deliver(case_change(number))
    bench.advance_minutes(8 * 60 + 1)
    assert bench.sent_states.count(f"{SUMMARY} triggered") == 3


def test_pages_about_the_whole_cluster_are_never_held_back() -> None:
    bench = PagerBench(max_per_hour=1)
    for number in range(3):
        bench.paging.deliver(case_change(number))
    bench.paging.deliver(BREAKER)
    bench.paging.deliver(incident("opened"))
    assert bench.sent_states[1:] == ["train-a:breaker triggered", "train-a:incident:switch-leaf-7 triggered"]


def test_a_cluster_incident_with_64_absorbed_cases_is_two_pages() -> None:
    bench = PagerBench()
    nodes = [(f"gpu-{number:04}", f"c-{number:026}") for number in range(64)]
    for node, case in nodes:
        bench.paging.deliver(case_event("open", 6, node=node, case=case, repair_action="verify"))
    bench.paging.deliver(incident("opened"))
    for node, case in nodes:
        bench.paging.deliver(case_event("absorbed", 8, node=node, case=case, **{"from": "open"}))
        bench.paging.deliver(incident("grown", 4))
    bench.advance_minutes(5)
    bench.paging.deliver(incident("closed", 8))
    for node, case in nodes:
        ended = {"from": "absorbed", "resolution": "recovered"}
        bench.paging.deliver(case_event("resolved", 10, node=node, case=case, **ended))
    bench.advance_minutes(300)
    assert bench.sent_states == ["train-a:incident:switch-leaf-7 triggered", "train-a:incident:switch-leaf-7 resolved"]


def test_an_unresolved_page_is_repeated_under_its_key_every_four_hours() -> None:
    bench = PagerBench()
    bench.paging.deliver(case_change(1))
    bench.advance_minutes(8 * 60 + 1)
    assert bench.sent_states == [f"{page_key(1)} triggered"] * 3
    assert "Reminder 2: unresolved since 2026-02-03T04:05Z." in bench.pager.sent[-1].bodies["email"]
    bench.paging.deliver(case_change(1, 20, "resolved"))
    bench.advance_minutes(5 * 60)
    assert bench.sent_states[3:] == [f"{page_key(1)} resolved"]


def test_a_notice_is_not_repeated() -> None:
    bench = PagerBench()
    bench.paging.deliver(case_event("queued", **{"from": "open"}))
    bench.advance_minutes(24 * 60)
    assert len(bench.pager.sent) == 1


def test_an_interrupted_summary_is_sent_again_under_its_key() -> None:
    bench = PagerBench(max_per_hour=1)
    for number in range(3):
        bench.paging.deliver(case_change(number))
    bench.table.seam.before = raise_once(("table.write", Transient("throttled")))
    with pytest.raises(Transient):
        bench.advance_minutes(1)
    bench.advance_minutes(2)
    assert bench.sent_states[1:] == [f"{SUMMARY} triggered"] * 2
    assert bench.triggered_keys() - {SUMMARY} == {page_key(number) for number in range(3)}


def test_a_page_whose_resolve_was_not_recorded_is_not_repeated() -> None:
    bench = PagerBench()
    bench.paging.deliver(case_change(1))
    bench.table.seam.before = raise_once(("table.transact", Transient("throttled")))
    assert not all(one.recorded for one in bench.paging.deliver(case_change(1, 20, "resolved")))
    bench.advance_minutes(5 * 60)
    assert bench.sent_states == [f"{page_key(1)} triggered", f"{page_key(1)} resolved"]
    assert bench.remind.remind().live == 0


def test_a_held_back_page_that_was_not_recorded_is_retried() -> None:
    bench = PagerBench(max_per_hour=1)
    bench.paging.deliver(case_change(0))
    bench.table.seam.before = raise_once(("table.transact", Transient("throttled")))
    with pytest.raises(Transient):
        bench.paging.deliver(case_change(1))
    bench.paging.deliver(case_change(1))
    bench.advance_minutes(1)
    assert page_key(1) in bench.triggered_keys()


MOVES = ("escalated", "queued", "escalated", "resolved")


@given(st.permutations([(node, step) for node in range(3) for step in range(len(MOVES))]), st.data())
@settings(max_examples=60, deadline=None)
def test_every_key_is_resolved_although_events_are_duplicated_or_reordered(
    order: list[tuple[int, int]], data: st.DataObject
) -> None:
    bench = PagerBench(max_per_hour=2)
    for node, step in order:
        for _ in range(data.draw(st.integers(1, 2))):
            bench.paging.deliver(case_change(node, 10 + step, MOVES[step]))
        if data.draw(st.booleans()):
            bench.advance_minutes(1)
    bench.advance_minutes(10)
    assert bench.live == set()
    assert not list(live_rows(bench))


def live_rows(bench: PagerBench) -> list[object]:
    """Return the rows of live pages in the table."""
    partitions = [keys.pages(CLUSTER, urgency) for urgency in PageUrgency]
    return [row for pk in partitions for row in bench.table.query(pk, prefix=keys.LIVE_PAGE).items]


def test_a_summary_is_far_smaller_than_the_sns_limit() -> None:
    bench = PagerBench(max_per_hour=1)
    for number in range(150):
        given = case_change(number)
        given["metadata"]["node"] = f"gpu-{number:04}" + "n" * 200  # type: ignore[index]  # a mapping
        bench.paging.deliver(given)
    bench.advance_minutes(1)
    assert size(bench.pager.sent[-1]) < 256 * 1024


def size(page: PageMessage) -> int:
    """Return the size of a page in bytes, as SNS counts it."""
    return len(json.dumps(dict(page.bodies)).encode())
