"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from typing import Any

from faultbridge.model.cluster.jobs import ranks_in_order
from faultbridge.model.cluster.state import BreakerLimit
from faultbridge.model.enums import RepairAction
from faultbridge.model.policy import Rule
from faultbridge.repair.jobs.verdicts import record_verdict
from tests.jobs.builders import document
from tests.jobs.resume import jobs
from tests.scenarios.world import CLUSTER, World


def behind_a_breaker() -> World:
    world = World(nodes=10, breakers=(BreakerLimit(nodes=3, percent=20, trial=1),))
    for node in (1, 4, 7):
        world.fault(node)
    world.process_entries(minutes=2)
    return world


APPROVAL = Rule("ask-first", approval=(RepairAction.REPLACE_NODE,), release_without_capacity=True)


def approval() -> World:
    world = World(nodes=3, rules=(APPROVAL,))
    world.fault_and_react(minutes=2)
    return world


JOB = "88213"

SIGNAL = {"name": "xid.79", "trust": "node", "node": "node-2", "rank": 11, "at": "2026-02-03T14:00:00.000Z"}


def ran(world: World | None = None) -> World:
    """Return a world in which a job ran on four nodes and failed when node 2 lost a GPU."""
    world = world or World(nodes=6)
    names = [world.key(node).node for node in (1, 2, 3, 4)]
    jobs(world).start(CLUSTER, JOB, names, name="llm-70b", ranks=ranks_in_order(names, 8))
    world.advance_minutes(120)
    world.fault_and_react(2, minutes=1)
    jobs(world).end(CLUSTER, JOB, outcome="failed")
    return world


def explain(world: World, **facts: Any) -> None:
    """Record the verdict that node 2 ended the job."""
    point = {"weight": "own_source", "points": 6, "signal": {**SIGNAL, "file": "node-2.log", "line": 412, "text": "-"}}
    against = {"weight": "unknown_time", "points": -1, "signal": None}
    given = {
        "nodes": ["node-2"],
        "domain": "hardware",
        "mechanism": "gpu_lost",
        "summary": "node-2 lost a GPU, and the other ranks waited for its ranks",
        "settles": "Restart without node-2.",
        "hardware": {"state": "blamed", "checked": ["node-1", "node-2"], "not_checked": ["node-3", "node-4"]},
        "causes": [{"for": [point], "against": [against]}],
        "collectives": {"ranks": [8, 9]},
    }
    record_verdict(jobs(world).writer, CLUSTER, JOB, document("RESTART_WITHOUT", **(given | facts)))
