"""Reminders, summaries and postponed pages that fail: the others are sent, and the hourly limit is kept."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Put
from faultbridge.record.ports.messaging import PageUrgency
from faultbridge.serve.pager.page_deduplication import PageOutcome
from tests.pages import incident
from tests.scenarios.operators.builders import CLUSTER, SUMMARY, PagerBench, case_change, page_key
from tests.sim.fakes.seam import Call


def refusing(*refused: str) -> Callable[[Call], None]:
    """Return a fault of the paging service: it refuses the pages with these keys."""

    def refuse(call: Call) -> None:
        if call.name == "pager.send" and call.argument.key in refused:
            raise Misconfigured(f"the page is too large: {call.argument.key}")

    return refuse


def minutes(bench: PagerBench, number: int) -> int:
    """Advance the clock minute by minute as `PagerBench.advance_minutes`; return how many runs failed."""
    failed = 0
    for _ in range(number):
        try:
            bench.advance_minutes(1)
        except (Transient, Misconfigured):
            failed += 1
    return failed


def configure(bench: PagerBench, config: ClusterConfig) -> None:
    """Register a cluster."""
    listed = items.item(keys.cluster_listed(config.cluster), bench.clock.now(), {"cluster": config.cluster})
    bench.table.write(Put(listed))
    bench.table.write(Put(items.config_item(config, bench.clock.now())))


def test_a_reminder_that_fails_does_not_stop_the_others_and_fails_the_run() -> None:
    bench = PagerBench()
    for number in (1, 2, 3):
        bench.paging.deliver(case_change(number))
    bench.advance_minutes(4 * 60 - 1)
    bench.pager.seam.before = refusing(page_key(1))
    with pytest.raises(Misconfigured, match="too large"):
        bench.advance_minutes(1)
    assert bench.pager.keys[3:] == [page_key(2), page_key(3)]


def test_a_reminder_that_fails_on_one_channel_is_sent_again_each_hour_and_fails_every_run_until_then() -> None:
    bench = PagerBench()
    bench.paging.deliver(case_change(1))
    bench.advance_minutes(4 * 60 - 1)
    bench.pager.seam.after = refusing(page_key(1))
    assert minutes(bench, 3 * 60) == 3 * 60
    assert bench.pager.keys == [page_key(1)] * 4
    bench.pager.seam.after = lambda _: None
    assert minutes(bench, 60) == 0
    assert bench.pager.keys == [page_key(1)] * 5


def test_reminders_that_fail_leave_room_for_new_pages() -> None:
    bench = PagerBench(max_per_hour=2)
    bench.paging.deliver(case_change(1))
    bench.advance_minutes(4 * 60 - 1)
    bench.pager.seam.before = refusing(page_key(1))
    minutes(bench, 30)
    (outcome,) = [one.outcome for one in bench.paging.deliver(case_change(2)) if one.key == page_key(2)]
    assert outcome is PageOutcome.SENT


def test_a_reminder_is_due_again_after_the_usual_time_if_an_earlier_one_failed_first() -> None:
    bench = PagerBench()
    bench.paging.deliver(case_change(1))
    bench.advance_minutes(4 * 60 - 1)
    bench.pager.seam.before = refusing(page_key(1))
    minutes(bench, 1)
    bench.pager.seam.before = lambda _: None
    minutes(bench, 60)
    bench.advance_minutes(4 * 60)
    assert bench.pager.keys == [page_key(1)] * 3


def test_a_postponed_page_that_fails_does_not_stop_the_others() -> None:
    bench = PagerBench()
    configure(bench, ClusterConfig(CLUSTER, maintenance_until=bench.clock.now() + timedelta(minutes=10)))
    for switch in ("leaf-1", "leaf-2"):
        bench.paging.deliver(incident("opened", incident_id=switch))
    first, second = (f"{CLUSTER}:incident:{switch}" for switch in ("leaf-1", "leaf-2"))
    bench.pager.seam.before = refusing(first)
    assert minutes(bench, 11) > 0
    assert bench.pager.keys == [second]
    bench.pager.seam.before = lambda _: None
    bench.advance_minutes(1)
    assert bench.pager.keys == [second, first]


def test_a_summary_that_fails_does_not_stop_the_reminders() -> None:
    bench = PagerBench(max_per_hour=1)
    bench.paging.deliver(case_change(1))
    bench.advance_minutes(4 * 60 - 1)
    for number in (2, 3):
        bench.paging.deliver(case_change(number))
    bench.clock.advance(timedelta(hours=1))
    bench.pager.seam.before = refusing(SUMMARY)
    assert minutes(bench, 1) == 1
    assert bench.pager.keys[2:] == [page_key(1)]


def test_a_cluster_whose_pages_cannot_be_read_does_not_stop_the_other_clusters() -> None:
    bench = PagerBench()
    bench.paging.deliver(case_change(1))
    bench.advance_minutes(4 * 60 - 1)
    unread = {keys.pages("train-0", urgency) for urgency in PageUrgency}
    configure(bench, ClusterConfig("train-0"))

    def fail(call: Call) -> None:
        if call.name == "table.query" and call.argument[0] in unread:
            raise Transient("throttled")

    bench.table.seam.before = fail
    assert minutes(bench, 1) == 1
    assert bench.pager.keys == [page_key(1)] * 2


def test_the_next_run_repeats_a_reminder_after_an_outage() -> None:
    bench = PagerBench()
    bench.paging.deliver(case_change(1))
    bench.advance_minutes(4 * 60 - 1)

    def fail(call: Call) -> None:
        if call.name == "pager.send":
            raise Transient("throttled")

    bench.pager.seam.before = fail
    assert minutes(bench, 1) == 1
    bench.pager.seam.before = lambda _: None
    assert minutes(bench, 1) == 0
    assert bench.pager.keys == [page_key(1)] * 2
