"""Verdicts on jobs: recorded once each, as the event `Job Explained`, and respected by what follows."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.model.cluster.jobs import JobVerdict
from faultbridge.model.enums import CaseStatus
from faultbridge.model.errors import Rejected
from faultbridge.repair.jobs.verdicts import record_verdict
from tests.events.validate import assert_valid_event
from tests.jobs.builders import SECRET, document
from tests.jobs.resume import break_and_end, changes, jobs, started
from tests.scenarios.world import CLUSTER, World


def record(world: World, *args: Any, **facts: Any) -> None:
    record_verdict(jobs(world).writer, CLUSTER, "1", document(*args, **facts))


def explained(world: World) -> list[dict[str, Any]]:
    return [body for body in world.bodies(None) if body["metadata"]["event_type"] == "Job Explained"]


def test_a_verdict_is_a_valid_event_with_its_evidence() -> None:
    world = started(1)
    record(world)
    (event,) = explained(world)
    assert_valid_event(event)
    first, second = event["data"]["evidence"]
    assert (first["file"], first["line"], first["rank"], first["points"]) == ("job.err", 7, 3, 8)
    assert (second["name"], second["points"]) == (None, -1)
    assert jobs(world).show(CLUSTER, "1").verdict == JobVerdict("STOP", (), "python_error", "acquitted")


def test_a_verdict_names_the_devices_with_their_ranks() -> None:
    world = started(1)
    device = {"node": "node-1", "rank": 3, "index": 3, "pci": "0000:c1:00.0", "uuid": None, "serial": None}
    record(world, devices=[device | {"signal": "xid.79"}])
    (event,) = explained(world)
    assert_valid_event(event)
    assert event["data"]["devices"] == [device | {"signal": "xid.79"}]


def test_the_text_of_a_log_is_not_part_of_the_event() -> None:
    world = started(1)
    record(world)
    assert SECRET not in str(explained(world))


def test_an_unknown_cause_has_no_domain_and_no_evidence() -> None:
    world = started(1)
    record(world, "RESTART", mechanism=None, domain="unknown")
    (event,) = explained(world)
    assert_valid_event(event)
    assert (event["data"]["domain"], event["data"]["evidence"]) == (None, [])


def test_the_same_verdict_is_recorded_once_and_another_one_again() -> None:
    world = started(1)
    for verdict in ("STOP", "STOP", "RESTART"):
        record(world, verdict)
    assert [event["data"]["verdict"] for event in explained(world)] == ["STOP", "RESTART"]


def test_one_case_behind_a_verdict_has_the_verdict_in_its_timeline() -> None:
    world = started(1)
    break_and_end(world)
    case = world.case().id
    record(world, "RESTART_WITHOUT", nodes=["node-1"], repairs=[{"case_id": case}])
    (event,) = explained(world)
    assert_valid_event(event)
    assert (event["metadata"]["case_id"], event["data"]["cases"]) == (case, [case])


def test_a_verdict_on_an_unknown_job_is_rejected() -> None:
    with pytest.raises(Rejected, match="unknown job in cluster train-a: 1"):
        record(World(nodes=1))


def test_a_job_that_must_stop_is_not_resumable_until_another_verdict_is_recorded() -> None:
    world = started(1)
    break_and_end(world)
    record(world, "STOP")
    world.until(world.case_is(CaseStatus.RESOLVED))
    world.advance_minutes(20)
    assert "resumable" not in changes(world)
    record(world, "RESTART")
    world.advance_minutes(2)
    assert changes(world)[-1] == "resumable"


def test_a_job_that_starts_again_has_no_verdict() -> None:
    world = started(1)
    record(world)
    jobs(world).end(CLUSTER, "1", outcome="failed")
    jobs(world).start(CLUSTER, "1", [world.key(1).node])
    assert jobs(world).show(CLUSTER, "1").verdict is None
