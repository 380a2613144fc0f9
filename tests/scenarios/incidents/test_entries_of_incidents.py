"""Entries of incidents: each change is recorded, and with it the hold on repairs that begins or ends."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from faultbridge.decide.correlate.life_cycle import IncidentChange, close_incident
from faultbridge.model.cluster.config import FailureDomain
from faultbridge.model.cluster.incidents import CorrelationLimits, Incident
from faultbridge.model.enums import DomainKind, IncidentChangeKind, IncidentStatus
from faultbridge.model.fault_enums import Family
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.repair.incidents import incident_drafts
from tests.builders import KEY, NOON, after, data_of

LIMITS = CorrelationLimits()
OPEN = Incident(
    id="inc-1",
    cluster=KEY.cluster,
    family=Family.NETWORK,
    domain=FailureDomain(DomainKind.RACK, "r-1"),
    status=IncidentStatus.OPEN,
    opened_at=NOON,
    evidence_since=NOON,
    code="net.link_down",
    nodes=("n-1", "n-2"),
    affected=2,
    of=4,
    reason="2 of 4 nodes of rack r-1 have network faults",
)
EXPIRED = replace(OPEN, status=IncidentStatus.EXPIRED, expired_at=after(hours=2), reason="maximum age reached")


def entries(before: Incident | None, now: Incident, kind: IncidentChangeKind, at: datetime) -> list[dict[str, Any]]:
    """Return the data of the entries of a change for which three cases wait."""
    return [data_of(one) for one in incident_drafts(IncidentChange(kind, before, now), at, LIMITS, waiting=3)]


def test_an_opened_incident_holds_repairs_until_its_maximum_age() -> None:
    incident, hold = entries(None, OPEN, IncidentChangeKind.OPENED, NOON)
    assert (incident["from"], incident["to"], incident["phases"]) == (None, "open", {})
    assert (incident["absorbed_cases"], incident["added"]["listed"]) == (3, ["n-1", "n-2"])
    assert (hold["kind"], hold["from"], hold["to"], hold["incident_id"]) == ("hold", None, "held", "inc-1")
    assert (hold["until"], hold["counts"]) == (to_text(NOON + LIMITS.max_age), {"affected": 2, "of": 4})


@pytest.mark.parametrize("status", [IncidentStatus.OPEN, IncidentStatus.RECOVERING])
def test_an_incident_that_still_holds_repairs_has_no_second_entry_of_its_hold(status: IncidentStatus) -> None:
    (incident,) = entries(OPEN, replace(OPEN, status=status, nodes=("n-1",)), IncidentChangeKind.SHRUNK, NOON)
    assert (incident["from"], incident["to"], incident["removed"]["listed"]) == ("open", status.value, ["n-2"])


def test_an_expired_incident_releases_its_repairs() -> None:
    incident, hold = entries(OPEN, EXPIRED, IncidentChangeKind.EXPIRED, after(hours=2))
    assert (incident["to"], incident["phases"]) == ("expired", {})
    assert (hold["from"], hold["to"], hold["until"]) == ("held", "released", None)


def test_a_closed_incident_states_how_long_it_held_repairs_and_how_long_it_stayed_open_afterwards() -> None:
    closed = close_incident(EXPIRED, after(hours=5), "no node is affected")
    (incident,) = entries(EXPIRED, closed, IncidentChangeKind.CLOSED, after(hours=5))
    assert incident["phases"] == {"open": 2 * 3_600_000, "expired": 3 * 3_600_000}


def test_an_incident_that_an_operator_closes_names_the_operator_in_both_entries() -> None:
    at = after(minutes=7)
    closed = close_incident(OPEN, at, "closed by an operator", "an-operator")
    incident, hold = entries(OPEN, closed, IncidentChangeKind.CLOSED, at)
    assert (incident["operator"], hold["operator"], hold["to"]) == ("an-operator", "an-operator", "released")
    assert incident["phases"] == {"open": timedelta(minutes=7) // timedelta(milliseconds=1)}


@pytest.mark.parametrize(("subject", "about"), [(None, ""), ("switch-7", " about switch-7")])
def test_the_cause_of_an_incident_names_the_remote_object_if_it_is_known(subject: str | None, about: str) -> None:
    incident, _ = entries(None, replace(OPEN, subject=subject), IncidentChangeKind.OPENED, NOON)
    text = f"net.link_down{about} on many nodes of rack r-1 at once; origin unknown: no fault of one of its nodes"
    assert incident["cause"]["text"] == f"{text} explains those of the others"
