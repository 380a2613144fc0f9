"""The events of a node name the jobs that run on it: each of them, and none before or after, or on another node."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.enums import MAX_JOBS_OF_NODE, CaseStatus
from faultbridge.model.errors import Transient
from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage import keys
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.jobs.jobs import Jobs
from tests.events.validate import assert_valid_event
from tests.ingest.world import LedgerFixture
from tests.jobs.resume import break_and_end, changes, jobs, started
from tests.races import run_before_write, writes_to
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import raise_once

NODES = ("n-1", "n-2", "n-3")


def named(world: World, node: int) -> list[list[str]]:
    """Return the job ids of each event of a node, in order."""
    return [body["metadata"]["job_ids"] for body in world.bodies(node)]


def test_each_event_of_a_node_names_its_job_from_its_start_to_its_end() -> None:
    world = started(1)
    before = len(named(world, 1))
    world.fault(1)
    world.fault_and_react(2)
    world.until(world.case_is(CaseStatus.RESOLVED))
    during = len(named(world, 1))
    jobs(world).end(CLUSTER, "1", outcome="failed")
    world.node_orders.quarantine(world.key(), OperatorOrder("ada", "a loose cable"))
    first, of_job, last = named(world, 1)[:before], named(world, 1)[before:during], named(world, 1)[during:]
    assert (len(of_job) > 5, of_job) == (True, [["1"]] * len(of_job))
    assert first == [[]] * len(first)
    assert (len(last) > 0, last) == (True, [[]] * len(last))
    assert set(map(str, named(world, 2))) == {"[]"}
    for body in world.bodies(1):
        assert_valid_event(body)


def test_the_events_of_a_job_itself_name_it_and_other_events_of_the_cluster_name_none() -> None:
    world = started(1)
    break_and_end(world)
    own = [body["metadata"] for body in world.bodies(None)]
    assert {str(one["job_ids"]) for one in own if one["event_type"].startswith("Job")} == {"['1']"}
    assert {str(one["job_ids"]) for one in own if not one["event_type"].startswith("Job")} == {"[]"}


def test_an_event_costs_no_more_calls_with_a_job() -> None:
    without, with_job = World(nodes=2), started(1)
    found = []
    for world in (without, with_job):
        world.seam.calls.clear()
        world.fault(1)
        found.append([call.name for call in world.seam.calls])
    assert found[0] == found[1]


@pytest.mark.parametrize("verb", ["start", "end"])
def test_the_sweep_completes_the_nodes_of_a_start_or_end_that_was_interrupted(verb: str) -> None:
    world = World(nodes=2) if verb == "start" else started(1, 2)
    marks = iter([False, True, False])

    def interrupt(call: Any) -> None:
        if call.name == "table.transact" and next(marks, False):
            raise Transient("the process ended")

    world.seam.before = interrupt
    service = jobs(world)
    calls = {"start": (CLUSTER, "1", ["node-1", "node-2"]), "end": (CLUSTER, "1")}
    with pytest.raises(Transient):
        getattr(service, verb)(*calls[verb])
    expected = ("1",) if verb == "start" else ()
    assert [world.append.read(world.key(node)).jobs for node in (1, 2)] != [expected] * 2
    world.seam.before = lambda _: None
    world.sweep.run()
    assert [world.append.read(world.key(node)).jobs for node in (1, 2)] == [expected] * 2
    assert len(changes(world)) == (1 if verb == "start" else 2)


def test_a_job_that_starts_again_on_other_nodes_leaves_no_id_on_its_former_nodes() -> None:
    world = started(1)
    world.seam.before = raise_once(("table.get_many", Transient("the process ended")))
    with pytest.raises(Transient):
        jobs(world).end(CLUSTER, "1", outcome="failed")
    jobs(world).start(CLUSTER, "1", ["node-2"])
    assert [world.append.read(world.key(node)).jobs for node in (1, 2)] == [(), ("1",)]


def test_a_job_whose_updates_of_two_runs_were_interrupted_leaves_its_id_on_no_node_after_its_end() -> None:
    world = started(1)
    interrupted = Jobs(world.append, marks_nodes=False)
    interrupted.end(CLUSTER, "1", outcome="failed")
    interrupted.start(CLUSTER, "1", ["node-2"])
    interrupted.end(CLUSTER, "1", outcome="failed")
    world.sweep.run()
    assert [world.append.read(world.key(node)).jobs for node in (1, 2)] == [(), ()]


@pytest.mark.parametrize("before", ["table.get_many", "table.transact"])
def test_a_late_update_of_an_earlier_run_changes_nothing(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = LedgerFixture()
    world.register_node("n-1")
    service = Jobs(world.append)
    monkeypatch.setattr(Jobs, "_marked", lambda _, job: job)
    service.start("train-a", "1", ["n-1"])
    ended: list[bool] = []

    def end_first(call: Any) -> None:
        if call.name == before and not ended:
            ended.append(True)
            service.end("train-a", "1", outcome="succeeded")
            service.mark_nodes("train-a", "1")

    world.table.seam.before = end_first
    service.mark_nodes("train-a", "1")
    assert ended
    assert world.append.read(NodeKey("train-a", "n-1")).jobs == ()


def test_a_job_that_ends_while_its_id_is_stored_leaves_it_on_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faultbridge.repair.jobs.jobs.NODES_PER_TRANSACTION", 1)
    world = World(nodes=2)
    interrupted = Jobs(world.append, marks_nodes=False)
    interrupted.start(CLUSTER, "1", ["node-1", "node-2"])
    run_before_write(
        world.seam, writes_to(keys.node_state(world.key(2))), lambda: interrupted.end(CLUSTER, "1", outcome="failed")
    )
    jobs(world).mark_nodes(CLUSTER, "1")
    assert [world.append.read(world.key(node)).jobs for node in (1, 2)] == [(), ()]


def test_of_many_jobs_on_one_node_the_earliest_are_named() -> None:
    world = LedgerFixture()
    world.register_node("n-1")
    ids = [f"{number:02}" for number in range(MAX_JOBS_OF_NODE + 2)]
    for one in ids:
        Jobs(world.append).start("train-a", one, ["n-1"])
    assert world.append.read(NodeKey("train-a", "n-1")).jobs == tuple(ids[:MAX_JOBS_OF_NODE])


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.sampled_from("12"), st.sets(st.sampled_from(NODES), min_size=1)),
        st.tuples(st.just("end"), st.sampled_from("12"), st.just(frozenset())),
        st.tuples(st.just("note"), st.sampled_from(NODES), st.just(frozenset())),
    ),
    max_size=12,
)


@given(steps=STEPS)
def test_whatever_starts_and_ends_each_event_names_exactly_the_jobs_that_run_on_its_node(steps: Any) -> None:
    world = LedgerFixture()
    for node in NODES:
        world.register_node(node)
    runs: dict[str, set[str]] = {}
    expected: dict[str, list[set[str]]] = defaultdict(list)
    for verb, subject, nodes in steps:
        if verb == "start" and subject not in runs:
            Jobs(world.append).start("train-a", subject, sorted(nodes))
            runs[subject] = set(nodes)
        elif verb == "end" and subject in runs:
            Jobs(world.append).end("train-a", subject)
            del runs[subject]
        elif verb == "note":
            world.note(NodeKey("train-a", subject), f"note {len(expected[subject])}")
            expected[subject].append({job for job, on in runs.items() if subject in on})
    for node, sets in expected.items():
        page = world.table.query(keys.node_partition(NodeKey("train-a", node)), prefix=keys.ENTRY)
        bodies = [json.loads(str(item["body"])) for item in page.items]
        notes = [body["metadata"]["job_ids"] for body in bodies if body["data"].get("text", "").startswith("note ")]
        assert [set(one) for one in notes] == sets
    assert [row for row in Jobs(world.append).rows("train-a") if not row.is_marked] == []
