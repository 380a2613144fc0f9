"""The backlog: how much work waits, since when, and whether that is too long."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.model.storage.writes import Put, Work
from faultbridge.model.times import to_text
from faultbridge.serve.ingest.canary import LAST_RECEIVED, LAST_RECORDED
from faultbridge.serve.ops.backlog import CANARY_OVERDUE, Backlog, BacklogItem
from tests.builders import NOON
from tests.sim.fakes import FakeTable, ManualClock

MINUTE = timedelta(minutes=1)


def backlog(table: FakeTable | None = None) -> Backlog:
    return Backlog(table or FakeTable(), ManualClock(NOON))


def of_kind(found: Backlog, what: str) -> BacklogItem:
    return next(one for one in found.list() if one.what == what)


def canaries(*, recorded: timedelta | None, received: timedelta | None) -> BacklogItem:
    """Return the item about canaries that were sent so long ago when they last reached the table and the bus."""
    table = FakeTable()
    for key, age in ((LAST_RECORDED, recorded), (LAST_RECEIVED, received)):
        if age is not None:
            table.write(Put({"pk": key.pk, "sk": key.sk, "sent_at": to_text(NOON - age)}))
    return of_kind(backlog(table), "canary")


def due(table: FakeTable, key: str, at: datetime) -> None:
    partition = next(iter(Work.TIMER.partitions()))
    table.write(Put({"pk": key, "sk": "TIMER", "gsi4pk": partition, "gsi4sk": to_text(at)}))


def test_an_installation_without_a_sweep_or_a_canary_is_stuck_and_says_so() -> None:
    sweep, canary = (of_kind(backlog(), what) for what in ("sweep", "canary"))
    assert (sweep.stuck, sweep.since, sweep.note) == (True, None, "no sweep has completed yet")
    assert (canary.stuck, canary.since, canary.note) == (True, None, "does not reach the table")


def test_a_canary_that_reached_the_table_after_the_last_one_on_the_bus_names_the_bus() -> None:
    late = CANARY_OVERDUE + MINUTE
    assert canaries(recorded=MINUTE, received=late).note == "reached the table, not the bus"
    assert canaries(recorded=MINUTE, received=None).note == "reached the table, not the bus"
    assert canaries(recorded=late, received=late).note == "does not reach the table"
    assert not canaries(recorded=MINUTE, received=MINUTE).stuck


def test_a_timer_that_is_not_due_yet_does_not_wait() -> None:
    table = FakeTable()
    due(table, "NODE#lab#node-1", NOON + MINUTE)
    assert (of_kind(backlog(table), "timers").count, backlog(table).overdue()) == (0, 0)
    due(table, "NODE#lab#node-2", NOON - 6 * MINUTE)
    timers = of_kind(backlog(table), "timers")
    assert (timers.count, timers.since, timers.stuck) == (1, NOON - 6 * MINUTE, True)
    assert backlog(table).overdue() == 1


def test_the_last_sweep_says_whether_it_did_all_its_work() -> None:
    table = FakeTable()
    backlog(table).record_sweep(unfinished=True, failures=2)
    sweep = of_kind(backlog(table), "sweep")
    assert (sweep.stuck, sweep.note) == (False, "not enough time for all work, 2 parts failed")
