"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from faultbridge.model.enums import CaseStatus, ProviderFailure
from faultbridge.model.recorded import as_structure
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Put
from faultbridge.model.values import replace
from faultbridge.model.verdicts import JobVerdictDocument
from tests.jobs.resume import break_and_end, jobs, started
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import FakeJobCallback


def calls(world: World) -> list[tuple[str, Any]]:
    """Return the calls to the table in one sweep."""
    world.seam.calls.clear()
    world.sweep.run()
    return [(call.name, call.argument) for call in world.seam.calls if call.name.startswith("table.")]


SIGNAL = {"name": "python.error", "trust": "job", "node": None, "rank": 3, "at": None, "file": "job.err", "line": 7}

SECRET = "api_key=hunter2"


def document(verdict: str = "STOP", **facts: Any) -> JobVerdictDocument:
    """Return the document of a verdict, as `faultbridge explain --json` prints it."""
    point = {"weight": "decisive", "points": 8, "signal": {**SIGNAL, "text": SECRET}}
    found = {
        "verdict": verdict,
        "nodes": [],
        "check": [],
        "domain": "software",
        "mechanism": "python_error",
        "summary": "the program raised an error",
        "settles": "the traceback",
        "hardware": {"state": "acquitted", "checked": ["node-1"], "not_checked": []},
        "causes": [{"for": [point], "against": [{"weight": "unknown_time", "points": -1, "signal": None}]}],
        "devices": [],
        "collectives": None,
        "attempts": {"count": 1, "repeated": 1, "step": None, "error": None},
        "failed_at": None,
        "repairs": [],
        **facts,
    }
    return as_structure(JobVerdictDocument, found)


def configure(world: World, *names: str) -> None:
    """Use these callbacks for the jobs of the cluster."""
    config = items.read_config(world.table.get(keys.cluster_config(CLUSTER)) or {})
    world.table.write(Put(items.config_item(replace(config, job_callbacks=names), world.clock.now())))


def callback(world: World, name: str) -> FakeJobCallback:
    found = world.deliver_callbacks.callbacks[name]
    assert isinstance(found, FakeJobCallback)
    return found


def repaired(
    *names: str,
    jobs_of_node: tuple[str, ...] = ("1",),
    failures: Sequence[ProviderFailure] = (),
    ran: timedelta = timedelta(),
) -> World:
    """Return a world in which jobs failed by a fault, and their node is back.

    Job 1 ran for the time `ran` before the fault. The first deliveries to the first callback fail as given.
    """
    world = started(1)
    world.clock.advance(ran)
    configure(world, *names)
    for name in names[:1]:
        callback(world, name).fail_next(*failures)
    for job in jobs_of_node[1:]:
        jobs(world).start(CLUSTER, job, [world.key(1).node])
    break_and_end(world)
    for job in jobs_of_node[1:]:
        jobs(world).end(CLUSTER, job, outcome="failed")
    world.until(world.case_is(CaseStatus.RESOLVED))
    return world
