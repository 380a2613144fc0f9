"""Admit: which repairs wait for an incident or an update of their group, and the reason that operators see."""

from __future__ import annotations

import pytest

from faultbridge.decide.admit import admit
from faultbridge.model.cluster.config import FailureDomain, UpdateHold
from faultbridge.model.cluster.incidents import Hold
from faultbridge.model.enums import DomainKind, RepairAction, WaitingFor
from faultbridge.model.fault_enums import Family
from faultbridge.model.times import to_text
from tests.builders import NOON, after
from tests.pipeline.builders import ROOM, control, picked, queued

CLUSTER = FailureDomain(DomainKind.CLUSTER, "train-a")
INTAKE = FailureDomain(DomainKind.INTAKE, "train-a")
RACK = FailureDomain(DomainKind.RACK, "r-7")
ONE_CAUSE = "its nodes share one cause"
HALF_PAST = after(minutes=30)


@pytest.mark.parametrize(
    ("of", "domains", "families", "reason"),
    [
        (RACK, (RACK, CLUSTER), (Family.NETWORK,), ONE_CAUSE),
        (RACK, (RACK, CLUSTER), (), "it explains why the last attempt failed in rack r-7"),
        (INTAKE, (RACK, CLUSTER), (), ONE_CAUSE),
        (RACK, (CLUSTER,), (Family.NETWORK,), "whether this node shares its cause is not known yet"),
    ],
    ids=["its fault", "its last attempt", "the intake", "an unknown place"],
)
def test_a_repair_that_waits_for_an_incident_says_how_the_incident_concerns_the_node(of, domains, families, reason):
    waiting = queued(domains=domains, families=families, repeated_since=NOON)
    (refused,) = admit(control(holds={"inc-1": Hold(Family.NETWORK, of)}), ROOM, [waiting], NOON).refusals
    assert refused.waiting_for is WaitingFor.INCIDENT
    assert refused.reason.startswith("incident inc-1 is open")
    assert refused.reason.endswith(reason)


def test_repairs_but_no_verification_wait_until_the_update_of_their_group_is_over():
    waiting = [
        queued(1, group="a"),
        queued(2, group="b"),
        queued(3, group="a", repair_action=RepairAction.VERIFY),
        queued(4),
    ]
    holds = [UpdateHold("a", NOON, HALF_PAST)]
    admission = admit(control(), ROOM, waiting, NOON, holds)
    assert picked(admission) == ["c-2", "c-3", "c-4"]
    assert [one.waiting_for for one in admission.refusals] == [WaitingFor.UPDATE]
    assert picked(admit(control(), ROOM, waiting, HALF_PAST, holds)) == ["c-1", "c-2", "c-3", "c-4"]


@pytest.mark.parametrize(("running", "what"), [(True, "is being updated"), (False, "was updated")])
def test_a_repair_that_waits_for_an_update_says_whether_it_still_runs_and_when_the_wait_ends(running, what):
    hold = UpdateHold("a", NOON, HALF_PAST, running=running)
    (refused,) = admit(control(), ROOM, [queued(group="a")], NOON, [hold]).refusals
    assert refused.reason == f"a {what} by its owner; repairs wait until {to_text(HALF_PAST)} at most"
