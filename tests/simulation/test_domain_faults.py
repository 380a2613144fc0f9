"""Faults of failure domains: the plan contains them, and the laws of incidents detect violations."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from faultbridge.model.storage.writes import Item
from faultbridge.record.ports.messaging import BusEvent
from tests.sim.fakes import START, FakeBus, ManualClock
from tests.sim.history import build_system, draw_nodes_in_rack, run
from tests.sim.invariants.incidents import INVARIANTS, IncidentChecks
from tests.sim.invariants.view import SystemView
from tests.sim.journal import Journal
from tests.sim.situations.draw import draw_large

SEEDS = range(300)
LAW = "no intent is recorded for a node of an open incident"
ONE_PAGE = "an incident sends one page"


@pytest.fixture
def journal() -> Journal:
    return Journal(ManualClock(START), START)


def entry(kind: str, node: str | None, **data: object) -> Item:
    body = json.dumps({"data": data})
    return {"type": kind, "cluster": "train-a", "node": node, "event_id": "event-1", "body": body}


def incident(status: str, nodes: Iterable[str] = ("node-1", "node-2", "node-3")) -> Item:
    return entry("Cluster Incident Change", None, incident_id="inc-1", to=status, nodes={"listed": [*nodes]})


def intent(node: str) -> Item:
    return entry("Node Replacement Step", node, step="intent", repair_action="replace_node", old_instance="i-1")


@pytest.mark.parametrize("status", ["open", "recovering"])
def test_an_intent_for_a_node_of_an_open_incident_is_a_violation(journal: Journal, status: str) -> None:
    checks = IncidentChecks(journal, FakeBus())
    for one in (incident(status), intent("node-9"), intent("node-1")):
        checks.entry_added(one)
    assert journal.violations == [f"{LAW}: train-a/node-1 replace_node of i-1 during inc-1"]


@pytest.mark.parametrize(
    "between",
    [incident("expired"), incident("closed"), incident("open", ["node-2"]), entry("Node Fault Cleared", "node-1")],
    ids=["expired", "closed", "shrunk", "cleared"],
)
def test_an_intent_after_the_incident_or_the_fault_ended_is_none(journal: Journal, between: Item) -> None:
    checks = IncidentChecks(journal, FakeBus())
    for one in (incident("open"), between, intent("node-1")):
        checks.entry_added(one)
    assert journal.violations == []


@pytest.mark.parametrize(
    ("last", "unfinished"),
    [
        (incident("open"), ["inc-1"]),
        (incident("recovering", []), ["inc-1"]),
        (incident("expired", []), ["inc-1"]),
        (incident("expired"), []),
        (incident("closed"), []),
    ],
    ids=["open", "recovering", "expired without nodes", "expired", "closed"],
)
def test_an_incident_that_will_change_is_unfinished(journal: Journal, last: Item, unfinished: list[str]) -> None:
    checks = IncidentChecks(journal, FakeBus())
    checks.entry_added(last)
    assert checks.unfinished == unfinished


@pytest.mark.parametrize(
    ("changes", "received", "broken"),
    [
        (["open"], ["event-1"], True),
        (["open", "closed"], ["event-1", "event-2"], True),
        (["open", "closed"], ["event-1", "event-2", "event-1"], True),
        (["open", "closed"], ["event-2", "event-1"], False),
        (["open", "expired", "closed"], ["event-2", "event-1", "event-3"], False),
        (["open", "expired", "open"], ["event-2", "event-1", "event-3"], True),
        (["open", "closed"], ["event-1"], True),
    ],
)
def test_only_an_incident_whose_end_the_pager_received_first_needs_no_page(
    changes: list[str], received: list[str], broken: bool
) -> None:
    system = build_system(1)
    checks = IncidentChecks(system.journal, system.ports.bus)
    system.checks.incidents = checks
    for number, status in enumerate(changes, 1):
        event = f"event-{number}"
        system.ports.bus.accepted.append(BusEvent(event, "Cluster Incident Change", "{}"))
        checks.entry_added(incident(status) | {"event_id": event})
    system.rule.handled += received
    law = next(one for one in INVARIANTS if one.name == ONE_PAGE)
    assert bool([*law.violations(SystemView(system))]) is broken


def test_a_fifth_of_the_seeds_has_two_racks_of_four_or_five_nodes() -> None:
    drawn = [None if draw_large(seed) is not None else draw_nodes_in_rack(seed) for seed in SEEDS]
    assert {4, 5} < set(drawn)
    assert 45 <= sum(one is not None for one in drawn) <= 75
    racks = build_system(next(seed for seed in SEEDS if drawn[seed] == 4)).racks
    assert [len(nodes) for nodes in racks.values()] == [4, 4]


def test_cases_wait_for_an_incident_and_are_released() -> None:
    story = list(run(138).journal.story())
    assert any("Cluster Incident Change" in line for line in story)
    assert any("-> absorbed" in line for line in story)
    assert any("absorbed -> " in line for line in story)
