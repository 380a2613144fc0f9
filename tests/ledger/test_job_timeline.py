"""The timeline of a job: its own entries, and those of the nodes whose faults affected it."""

from __future__ import annotations

from faultbridge.domain.edges import CaseStatus
from faultbridge.ledger.queries import node_head
from faultbridge.ledger.recover import RecoverTable
from faultbridge.ledger.timeline import Timeline, TimelineQuery
from faultbridge.simulation.fakes.objects import FakeVault
from tests.jobs.test_resume import break_and_end, started
from tests.scenarios.world import CLUSTER, World

QUERY = TimelineQuery(CLUSTER, job="1")


def repaired() -> World:
    """Return a world in which node 1 failed under job 1 and was repaired, and node 2 without a job failed too."""
    world = started(1)
    break_and_end(world)
    world.fault(2)
    world.until(world.case_is(CaseStatus.RESOLVED))
    world.advance_minutes(10)
    return world


def test_a_job_shows_the_faults_the_case_and_the_repair_of_its_affected_nodes_and_of_no_other() -> None:
    lines = list(Timeline(repaired().table).entries(QUERY))
    metadata = [line.event["metadata"] for line in lines]
    assert {one["event_type"] for one in metadata} >= {
        "Job Change",
        "Node Fault Detected",
        "Node Status Change",
        "Case Status Change",
        "Node Replacement Step",
    }
    assert {one["node"] for one in metadata} == {None, "node-1"}
    assert [one["recorded_at"] for one in metadata] == sorted(one["recorded_at"] for one in metadata)


def test_pages_and_the_newest_entries_are_those_of_the_whole_timeline() -> None:
    timeline = Timeline(repaired().table)
    whole = [line.position for line in timeline.entries(QUERY)]
    paged, token = timeline.page(QUERY, 3)
    while token:
        more, token = timeline.page(QUERY, 3, token)
        paged = (*paged, *more)
    assert [line.position for line in paged] == whole
    newest, has_older = timeline.newest(QUERY, 5)
    assert ([line.position for line in newest], has_older) == (whole[-5:], True)


def test_a_fault_after_the_job_may_resume_is_not_part_of_it() -> None:
    world = repaired()
    before = len(list(Timeline(world.table).entries(QUERY)))
    world.advance_minutes(60)
    world.fault(1)
    world.advance_minutes(10)
    assert len(list(Timeline(world.table).entries(QUERY))) == before


def test_the_timeline_of_a_job_and_a_window_stay_whole_after_the_table_was_recovered() -> None:
    world = repaired()
    timeline, key = Timeline(world.table), world.key(1)
    world.advance_minutes(60)
    now = world.clock.now()
    before = [line.position for line in timeline.entries(QUERY)]
    window = timeline.window(CLUSTER, key.node, node_head(world.table, key), (None, now), 5)
    world.advance_minutes(60)
    RecoverTable(world.table, FakeVault(), world.clock, world.append, world.append.stack)()
    assert [line.position for line in timeline.entries(QUERY)] == before
    assert node_head(world.table, key).epoch == 2
    assert window[0]
    assert timeline.window(CLUSTER, key.node, node_head(world.table, key), (None, now), 5) == window
