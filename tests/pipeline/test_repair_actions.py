"""At which rung an attempt begins, and what a passed verification proves gone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.domain.cases import Case, Rung
from faultbridge.domain.catalogue import Scope
from faultbridge.domain.conditions import Condition, Witness
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.faults import Action, Severity
from faultbridge.domain.policy import Policy, Rule
from faultbridge.pipeline.decide.repair_actions import above, choose
from faultbridge.pipeline.fold.expire import end_verified
from tests.builders import GPU, NOON, after, node


def condition(action: Action = Action.REPLACE_NODE, scope: Scope = Scope.DEVICE, ends_on: tuple[str, ...] = ()):
    witnesses = {"kernel-log": Witness(True, NOON)}
    return Condition("xid.1", GPU, Severity.FATAL, action, scope, ends_on, NOON, NOON, "it broke", witnesses=witnesses)


def case(rung: Rung, **others) -> Case:
    return Case(
        "c-1", CaseStatus.QUEUED, NOON, "xid.1", GPU, Severity.FATAL, Action.REPLACE_NODE, rung, "rule", "p", **others
    )


def policy(*ladder: Rung) -> Policy:
    return Policy("p", (Rule("rule", ladder=ladder),))


ILL = node(conditions={"xid.1@gpu": condition()})


@pytest.mark.parametrize(
    ("wanted", "ladder", "chosen"),
    [
        (Rung.REPLACE, tuple(Rung), Rung.REPLACE),
        (Rung.VERIFY, tuple(Rung), Rung.VERIFY),
        (Rung.RESET, tuple(Rung), Rung.RESET),
        (Rung.RESET, (Rung.VERIFY, Rung.REPLACE), Rung.REPLACE),
        (Rung.REBOOT, (Rung.RESET,), None),
    ],
)
def test_a_rung_that_is_not_permitted_climbs_as_far_as_the_policy_permits(wanted, ladder, chosen):
    assert choose(ILL, case(wanted), policy(*ladder)).rung is chosen


def test_a_node_that_recovered_is_verified_before_the_first_attempt_only():
    well = node(conditions={})
    assert choose(well, case(Rung.REPLACE), policy(*Rung)).rung is Rung.VERIFY
    assert choose(well, case(Rung.REPLACE, attempts=1), policy(*Rung)).rung is Rung.REPLACE


def test_the_ladder_ends_at_replace():
    assert [above(rung) for rung in Rung] == [Rung.RESET, Rung.REBOOT, Rung.REPLACE, None]


@pytest.mark.parametrize(
    ("rung", "given", "ended"),
    [
        (Rung.REPLACE, condition(), True),
        (Rung.REPLACE, condition(scope=Scope.INSTANCE), True),
        (Rung.VERIFY, condition(), False),
        (Rung.VERIFY, condition(scope=Scope.PROCESS), True),
        (Rung.VERIFY, condition(ends_on=("verified",)), True),
        (Rung.VERIFY, condition(Action.RUN_DIAGNOSTICS), True),
        (Rung.REBOOT, condition(scope=Scope.BOOT), True),
        (Rung.REBOOT, condition(scope=Scope.DEVICE), False),
        (Rung.REPLACE, condition(Action.CONTACT_SUPPORT, scope=Scope.INSTANCE), True),
    ],
)
def test_a_passed_verification_ends_what_the_rung_before_it_puts_right(rung, given, ended):
    folded = end_verified(node(conditions={"one": given}), rung, at=after(hours=1))
    assert bool(folded.changes) is ended
    assert ("one" not in folded.state.conditions) is ended
    assert not ended or folded.changes[0].at == NOON + timedelta(hours=1)
