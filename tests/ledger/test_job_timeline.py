"""The timeline of a job: its own entries, and those of the nodes whose faults affected it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.decide import entry_builder
from faultbridge.model.cluster.jobs import RESUME_WITHIN
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, NoteKind
from faultbridge.model.event_data import NoteData
from faultbridge.model.nodes import NodeState
from faultbridge.record import timeline as job_timeline
from faultbridge.record.queries import SKEW, node_head, recorded_job
from faultbridge.record.recover import RecoverTable
from faultbridge.record.timeline import Timeline, TimelineQuery
from tests.jobs.resume import break_and_end, jobs, started
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes.objects import FakeVault

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
    metadata = [line.event.metadata for line in lines]
    assert {one.event_type for one in metadata} >= {
        "Job Change",
        "Node Fault Detected",
        "Node Status Change",
        "Case Status Change",
        "Node Replacement Step",
    }
    assert {one.node for one in metadata} == {None, "node-1"}
    assert [one.recorded_at for one in metadata] == sorted(one.recorded_at for one in metadata)


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


def test_entries_up_to_five_minutes_after_the_job_may_resume_are_part_of_it() -> None:
    world = started(1)
    break_and_end(world)
    world.until(lambda: recorded_job(world.table, CLUSTER, "1").resumable_at is not None)
    job = recorded_job(world.table, CLUSTER, "1")
    assert job.resumable_at is not None
    before = len(list(Timeline(world.table).entries(QUERY)))
    world.clock.advance_to(job.resumable_at + SKEW)
    for text in ("still part of it", "too late"):
        note(world, text)
        world.clock.advance(timedelta(milliseconds=1))
    texts = [getattr(line.event.data, "text", None) for line in Timeline(world.table).entries(QUERY)]
    assert (len(texts), texts[-1]) == (before + 1, "still part of it")


def test_a_job_that_cannot_resume_shows_its_nodes_until_a_week_and_five_minutes_after_its_end() -> None:
    world = started(1)
    break_and_end(world, outcome="succeeded")
    world.clock.advance(RESUME_WITHIN + SKEW)
    for text in ("still part of it", "too late"):
        note(world, text)
        world.clock.advance(timedelta(milliseconds=1))
    assert note_texts(world) == ["still part of it"]


def test_the_entries_of_an_affected_node_have_no_end_while_the_job_runs() -> None:
    world = started(1)
    world.fault_and_react(1)
    world.clock.advance(2 * RESUME_WITHIN)
    note(world, "still running")
    assert note_texts(world) == ["still running"]


def test_entries_from_five_minutes_before_the_start_of_the_job_are_part_of_it() -> None:
    world = World(nodes=2)
    for text in ("too early", "part of it"):
        world.clock.advance(timedelta(milliseconds=1))
        note(world, text)
    world.clock.advance(job_timeline.BEFORE_START)
    jobs(world).start(CLUSTER, "1", [world.key(1).node])
    world.fault_and_react(1)
    assert note_texts(world) == ["part of it"]


def note_texts(world: World) -> list[str]:
    """Return the texts of the notes in the timeline of job 1."""
    data = [line.event.data for line in Timeline(world.table).entries(QUERY)]
    return [one.text for one in data if isinstance(one, NoteData)]


def note(world: World, text: str) -> None:
    """Add an operator note to the stream of node 1."""

    def revise(state: NodeState, now: datetime) -> Transition:
        return Transition(state, (entry_builder.note(kind=NoteKind.OPERATOR, text=text, at=now),))

    world.append(world.key(1), revise, actor=Actor.CLI)


def test_the_entries_of_a_job_are_read_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    world = repaired()
    every = [line.hash for line in Timeline(world.table).entries(QUERY)]
    monkeypatch.setattr(job_timeline, "LINKS_PER_BATCH", 1)
    world.seam.calls.clear()
    assert [line.hash for line in Timeline(world.table).entries(QUERY)] == every
    batches = sum(call.name == "table.get_many" for call in world.seam.calls)
    own, older = Timeline(world.table).of_job(CLUSTER, "1", 100)
    assert batches >= len(own) > 1
    assert not older
    assert [line.position for line in own] == sorted(line.position for line in own)
    assert Timeline(world.table).of_job(CLUSTER, "1", len(own)) == (own, False)
    assert Timeline(world.table).of_job(CLUSTER, "1", len(own) - 1) == (own[1:], True)


def test_the_timeline_of_a_job_and_a_window_stay_whole_after_the_table_was_recovered() -> None:
    world = repaired()
    timeline, key = Timeline(world.table), world.key(1)
    world.advance_minutes(60)
    now = world.clock.now()
    before = [line.position for line in timeline.entries(QUERY)]
    window = timeline.window(CLUSTER, key.node, node_head(world.table, key), (None, now), 5)
    world.advance_minutes(60)
    RecoverTable(world.table, FakeVault(), world.clock, world.append, world.append.stack).recover()
    assert [line.position for line in timeline.entries(QUERY)] == before
    assert node_head(world.table, key).epoch == 2
    assert window[0]
    assert timeline.window(CLUSTER, key.node, node_head(world.table, key), (None, now), 5) == window
