"""The page of a job: what affected it, its explanation with evidence for and against, and whether it may resume."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.enums import CaseStatus
from faultbridge.repair.jobs.progress import JobProgress
from faultbridge.serve.presentation.history import Span
from faultbridge.serve.presentation.job_page import JobPage, job_page
from faultbridge.serve.presentation.node_page import node_page
from tests.jobs.resume import jobs
from tests.presentation.builders import JOB, explain, ran
from tests.presentation.histories import facts_of
from tests.scenarios.world import CLUSTER, World


def page_of(world: World) -> JobPage:
    found = facts_of(world).job(CLUSTER, JOB)
    return job_page(found.document, found.entries, world.clock.now(), older=found.older)


def answers(page: JobPage) -> dict[str, str]:
    found = {one.question: " ".join(one.sentences) for one in page.answers}
    return found | {"What should you do?": " ".join((page.answer.action, *page.answer.commands))}


def test_a_failed_job_names_the_faults_of_its_nodes_and_their_case() -> None:
    world = ran()
    page = page_of(world)
    (hit,) = page.hits
    assert (hit.node, hit.fault, hit.case_id) == ("node-2", "xid.79 gpu 0000:c1:00", world.case(2).id)
    assert not hit.reason.startswith("node-2")
    nodes = [(name, name in page.job.affected_nodes, page.job.ranks[name]) for name in page.nodes[:2]]
    assert nodes == [("node-2", True, "8-15"), ("node-1", False, "0-7")]
    assert (page.state.text, page.live) == ("failed, waits for its nodes", True)
    assert "xid.79 gpu 0000:c1:00 of node-2" in answers(page)["What happened?"]
    assert [lane.name for lane in page.chart.lanes] == ["job", "node-2"]


def test_without_an_explanation_the_page_states_how_to_record_one() -> None:
    page = page_of(ran())
    assert page.explanation == ()
    assert f"faultbridge explain LOGS --job {JOB}" in answers(page)["What should you do?"]


def test_the_command_to_record_an_explanation_quotes_the_id_of_the_job() -> None:
    world = World(nodes=1)
    jobs(world).start(CLUSTER, "a b;c", ["node-1"])
    jobs(world).end(CLUSTER, "a b;c", outcome="failed")
    found = facts_of(world).job(CLUSTER, "a b;c")
    page = job_page(found.document, found.entries, world.clock.now(), older=found.older)
    assert "explain LOGS --job 'a b;c' --cluster" in answers(page)["What should you do?"]


def test_the_explanation_has_its_evidence_for_and_against_its_ranks_and_its_nodes() -> None:
    world = ran()
    explain(world)
    page = page_of(world)
    assert dict(page.explanation) == {
        "Cause": "gpu_lost (hardware)",
        "Verdict on the nodes": "blamed",
        "Leave out": "node-2",
        "Checked": "node-1, node-2",
        "Not checked": "node-3, node-4",
        "Ranks that others waited for": "8, 9",
        "First failure in the logs": "unknown",
    }
    (for_it,), (against,) = page.evidence_for, page.evidence_against
    assert (for_it.points, for_it.found, for_it.where) == (6, "xid.79, from a node", "node-2, rank 11, node-2.log:412")
    assert (against.points, against.weight, against.at) == (-1, "unknown time", None)
    assert "Yes, without node-2." in answers(page)["May it restart?"]
    assert answers(page)["What should you do?"] == "Restart without node-2."
    assert page.verdict
    assert page.verdict.text == "RESTART WITHOUT"


def test_the_resume_state_changes_when_the_node_is_back() -> None:
    world = ran()
    assert "not back yet: node-2" in answers(page_of(world))["May it restart?"]
    world.until(world.case_is(CaseStatus.RESOLVED, 2))
    world.advance_minutes(10)
    page = page_of(world)
    assert (page.state.text, page.live) == ("failed, may resume", False)
    assert "are back, replaced or removed" in answers(page)["May it restart?"]


def test_an_explanation_of_an_earlier_run_is_not_that_of_the_job_that_started_again() -> None:
    world = ran()
    explain(world)
    world.advance_minutes(5)
    jobs(world).start(CLUSTER, JOB, ["node-5"])
    page = page_of(world)
    assert (page.state.text, page.explanation, page.hits, page.verdict) == ("running", (), (), None)


def test_the_pages_of_node_and_cluster_name_the_jobs() -> None:
    world = ran()
    facts = facts_of(world)
    now = world.clock.now()
    for node, expected in (("node-2", [JOB]), ("node-6", [])):
        found = facts.node(CLUSTER, node, (None, None))
        page = node_page(found.document, found.entries, Span(now, now), older=False, jobs=found.jobs)
        assert [one.job_id for one in page.jobs] == expected
    assert [one.job_id for one in facts.cluster(CLUSTER, (None, None)).jobs] == [JOB]


def test_a_stalled_job_still_runs_and_its_page_says_what_to_look_at() -> None:
    world = World(nodes=2)
    jobs(world).start(CLUSTER, JOB, ["node-1"], stall_after=timedelta(minutes=10))
    for step in range(3):
        JobProgress(jobs(world)).heartbeat(CLUSTER, JOB, step, 2.0)
    JobProgress(jobs(world)).heartbeat(CLUSTER, JOB, 2, float("nan"))
    world.advance_minutes(12)
    page = page_of(world)
    found = answers(page)
    assert (list(found), page.live) == (["What happened?", "What should you do?"], True)
    assert "it has been stalled since 20" in found["What should you do?"]
    assert "Its loss is not finite." in found["What should you do?"]


def test_a_failed_job_without_an_explanation_asks_to_record_one() -> None:
    world = World(nodes=2)
    jobs(world).start(CLUSTER, JOB, ["node-1"])
    jobs(world).end(CLUSTER, JOB, outcome="failed")
    todo = answers(page_of(world))["What should you do?"]
    assert todo.startswith("Record an explanation. faultbridge explain LOGS --job 88213 ")
