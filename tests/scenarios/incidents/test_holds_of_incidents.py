"""Holds of incidents: a closed incident is remembered while a fault that it explains, or a verification, may last."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import pytest

from faultbridge.decide.correlate.life_cycle import IncidentChange, close_incident
from faultbridge.decide.correlate.shared_causes import AffectedNode
from faultbridge.model.cluster.config import FailureDomain
from faultbridge.model.cluster.incidents import CorrelationLimits, Incident
from faultbridge.model.enums import DomainKind, IncidentChangeKind, IncidentStatus
from faultbridge.model.fault_enums import Family
from faultbridge.model.values import replace
from faultbridge.repair.controls import Controls
from faultbridge.repair.incidents import MAX_CHANGES, VERIFICATION_MARGIN, IncidentChanges
from tests.builders import NOON, after
from tests.ingest.world import LedgerFixture
from tests.scenarios.world import CLUSTER

RACK, OTHER_RACK = (FailureDomain(DomainKind.RACK, name) for name in ("r-1", "r-2"))
FIRST = Incident("inc-1", CLUSTER, Family.NETWORK, RACK, IncidentStatus.OPEN, NOON, NOON, "net.link_down")
SECOND = replace(FIRST, id="inc-2", domain=OTHER_RACK)
CLOSED_AT = after(minutes=30)
DEADLINE = timedelta(hours=2)


@pytest.fixture
def changes() -> IncidentChanges:
    """Return the changes of incidents in a cluster whose first incident was opened and closed."""
    world = LedgerFixture()
    made = IncidentChanges(world.table, Controls(world.table, world.clock, world.stack))
    commit(made, IncidentChange(IncidentChangeKind.OPENED, None, FIRST))
    world.clock.advance_to(CLOSED_AT)
    commit(made, IncidentChange(IncidentChangeKind.CLOSED, FIRST, close_incident(FIRST, CLOSED_AT, "over")))
    return made


def commit(
    changes: IncidentChanges,
    *made: IncidentChange,
    affected: Iterable[AffectedNode] | None = None,
    deadline: timedelta = DEADLINE,
) -> None:
    changes.commit(CLUSTER, lambda *_: made, CorrelationLimits(), affected=affected, verify_deadline=deadline)


def open_second(changes: IncidentChanges, *affected: AffectedNode) -> set[str]:
    """Open another incident hours later while these nodes are affected; returns the ids of all holds."""
    changes.controls.clock.advance_to(CLOSED_AT + DEADLINE + VERIFICATION_MARGIN)
    commit(changes, IncidentChange(IncidentChangeKind.OPENED, None, SECOND), affected=affected)
    return set(changes.controls.read(CLUSTER).holds)


@pytest.mark.parametrize(
    ("family", "domain", "minutes", "kept"),
    [
        (Family.NETWORK, RACK, -1, True),
        (Family.NETWORK, RACK, 0, True),
        (Family.NETWORK, RACK, 1, False),
        (Family.POWER, RACK, -1, False),
        (Family.NETWORK, OTHER_RACK, -1, False),
    ],
)
def test_a_closed_incident_is_remembered_while_one_of_its_faults_is_active(
    changes: IncidentChanges, family: Family, domain: FailureDomain, minutes: int, kept: bool
) -> None:
    fault = AffectedNode("n-1", family, after(minutes=30 + minutes), "net.link_down", (domain,))
    assert open_second(changes, fault) == ({"inc-1", "inc-2"} if kept else {"inc-2"})


@pytest.mark.parametrize("deadline", [DEADLINE, timedelta(hours=9)])
def test_a_closed_incident_is_remembered_while_a_verification_that_started_before_may_run(
    changes: IncidentChanges, deadline: timedelta
) -> None:
    opened = IncidentChange(IncidentChangeKind.OPENED, None, SECOND)
    changes.controls.clock.advance_to(CLOSED_AT + deadline + VERIFICATION_MARGIN - timedelta(seconds=1))
    commit(changes, opened, affected=(), deadline=deadline)
    assert changes.controls.read(CLUSTER).holds.keys() == {"inc-1", "inc-2"}


def test_a_closed_incident_is_remembered_for_the_maximum_age_because_its_cause_may_return(
    changes: IncidentChanges,
) -> None:
    opened = IncidentChange(IncidentChangeKind.OPENED, None, SECOND)
    changes.controls.clock.advance_to(CLOSED_AT + CorrelationLimits().max_age - timedelta(seconds=1))
    commit(changes, opened, affected=(), deadline=timedelta(minutes=10))
    assert changes.controls.read(CLUSTER).holds.keys() == {"inc-1", "inc-2"}


def test_an_open_incident_is_kept_when_no_node_is_affected(changes: IncidentChanges) -> None:
    assert open_second(changes) == {"inc-2"}
    third = replace(SECOND, id="inc-3", family=Family.POWER)
    commit(changes, IncidentChange(IncidentChangeKind.OPENED, None, third), affected=())
    assert set(changes.controls.read(CLUSTER).holds) == {"inc-2", "inc-3"}
    assert [one.id for one in changes.read(changes.controls.read(CLUSTER))] == ["inc-2", "inc-3"]


def test_the_last_events_of_an_incident_are_forgotten_with_it(changes: IncidentChanges) -> None:
    assert changes.controls.read(CLUSTER).events.keys() == {"inc-1", "inc-1:hold"}
    open_second(changes)
    assert changes.controls.read(CLUSTER).events.keys() == {"inc-2", "inc-2:hold"}


@pytest.mark.parametrize("affected", [None, ()])
def test_a_closed_incident_is_kept_by_a_run_that_changes_nothing_and_by_orders(
    changes: IncidentChanges, affected: tuple[AffectedNode, ...] | None
) -> None:
    before = changes.controls.read(CLUSTER)
    commit(changes, affected=affected)
    assert changes.controls.read(CLUSTER) == before
    commit(changes, IncidentChange(IncidentChangeKind.OPENED, None, SECOND))
    assert changes.controls.read(CLUSTER).holds.keys() == {"inc-1", "inc-2"}


def test_one_run_commits_a_limited_number_of_changes(changes: IncidentChanges) -> None:
    names = [f"inc-{number:02}" for number in range(10, 10 + MAX_CHANGES + 1)]
    opened = [IncidentChange(IncidentChangeKind.OPENED, None, replace(SECOND, id=name)) for name in names]
    committed = changes.commit(CLUSTER, lambda *_: opened, CorrelationLimits())
    assert [one.after.id for one in committed] == names[:MAX_CHANGES]
    assert changes.controls.read(CLUSTER).holds.keys() == {"inc-1", *names[:MAX_CHANGES]}
