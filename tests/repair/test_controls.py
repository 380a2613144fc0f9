"""Entries about the controls of a cluster: what they state, and which entry or event they name as their cause."""

from __future__ import annotations

from datetime import datetime

import pytest

from faultbridge.model.cluster.state import Breaker, BreakerState, Control
from faultbridge.model.enums import Actor, SafetyKind, SafetyState
from faultbridge.repair.controls import ControlChange, breaker_draft, control_draft
from tests.builders import NOON, data_of
from tests.scenarios.world import CLUSTER, World


@pytest.mark.parametrize(("name", "scope", "domain"), [("cluster", "cluster", None), ("domain:r-1", "domain", "r-1")])
def test_the_entry_of_a_breaker_states_its_scope_and_the_failing_nodes(
    name: str, scope: str, domain: str | None
) -> None:
    draft = breaker_draft(name, None, Breaker(BreakerState.OPEN, NOON, failing=5, of=20), "5 nodes fail at once")
    assert (draft.subject, data_of(draft)["scope"], data_of(draft)["domain"]) == (name, scope, domain)
    assert data_of(draft)["counts"] == {"failing": 5, "of": 20}


def test_the_entry_of_the_only_control_of_its_kind_is_about_this_kind() -> None:
    running, paused = SafetyState.RUNNING, SafetyState.PAUSED
    draft = control_draft(SafetyKind.PAUSE, running, paused, NOON, reason="ordered by an operator")
    assert (draft.subject, data_of(draft)["counts"], data_of(draft)["until"]) == ("pause", {}, None)
    assert "incident_id" not in data_of(draft)


def cause_of(world: World, after: str, cause: str | None, *, operator: str | None = None) -> str | None:
    """Record a new state of the cluster's breaker, and return the cause of the entry."""

    def revise(control: Control, now: datetime) -> ControlChange:
        kind, to = SafetyKind.BREAKER, SafetyState(after)
        draft = control_draft(kind, None, to, now, reason="a test", operator=operator, name="cluster")
        return ControlChange(control, (draft,), cause=cause)

    world.controls.change(CLUSTER, revise, Actor.CLI if operator else Actor.DISPATCH)
    found: str | None = world.bodies(None)[-1]["metadata"]["causation_id"]
    return found


def last_event(world: World) -> str:
    event: str = world.bodies(None)[-1]["metadata"]["event_id"]
    return event


def test_a_breaker_that_opens_names_the_event_that_opened_it_as_its_cause() -> None:
    world = World()
    assert cause_of(world, "open", "first") == "first"
    assert cause_of(world, "open", "second") == "second"


@pytest.mark.parametrize(("after", "operator"), [("closed", None), ("half_open", None), ("open", "ada")])
def test_any_other_change_of_a_breaker_names_the_entry_before_it_as_its_cause(after: str, operator: str | None) -> None:
    world = World()
    cause_of(world, "open", "first")
    opened = last_event(world)
    assert cause_of(world, after, "second", operator=operator) == opened


def test_a_change_of_a_breaker_without_an_entry_before_it_names_the_given_event_as_its_cause() -> None:
    assert cause_of(World(), "closed", "first") == "first"


@pytest.mark.parametrize("operator", [None, "ada"])
def test_without_a_given_cause_only_an_order_does_not_follow_from_the_last_entry(operator: str | None) -> None:
    world = World()
    world.rollup.update(CLUSTER)
    last = last_event(world)
    assert cause_of(world, "closed", None, operator=operator) == (None if operator else last)
