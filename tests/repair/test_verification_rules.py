"""Which instance is verified as a successor, which faults count against a verification, and its reason."""

from __future__ import annotations

import pytest

from faultbridge.model.cases import Attempt, Phase
from faultbridge.model.enums import RepairAction
from faultbridge.model.fault_enums import Severity
from faultbridge.model.nodes import Incarnation
from faultbridge.model.values import replace
from faultbridge.repair.steps.verify_instance import (
    MAX_FINDINGS_LENGTH,
    faults_since_start,
    is_successor,
    joined_findings,
    watched_since,
)
from tests.builders import NOON, after, arrival, fault, folded, node
from tests.repair.builders import CASE


@pytest.mark.parametrize(
    ("minutes", "instance", "unverified", "action", "successor"),
    [
        (-1, 1, False, RepairAction.VERIFY, False),
        (0, 1, False, RepairAction.VERIFY, True),
        (-1, 2, False, RepairAction.VERIFY, False),
        (-1, 1, True, RepairAction.VERIFY, False),
        (-1, 2, True, RepairAction.VERIFY, True),
        (-1, 1, False, RepairAction.REPLACE_NODE, True),
    ],
)
def test_an_instance_that_came_after_the_case_or_was_never_verified_is_a_successor(
    minutes: int, instance: int, unverified: bool, action: RepairAction, successor: bool
) -> None:
    incarnation = Incarnation(instance, 1, "i-0aaaaaaaaaaaaaaa1", None, after(minutes=minutes))
    state = node(incarnation=incarnation, unverified=unverified)
    assert is_successor(state, replace(CASE, repair_action=action)) is successor
    assert is_successor(node(incarnation=None), CASE) is False


def test_faults_count_from_the_time_that_the_attempt_recorded_or_else_from_its_verification_or_its_step() -> None:
    attempt = Attempt(1, Phase.VERIFYING, since=after(minutes=3))
    marked = replace(CASE, marks={Phase.VERIFYING.value: after(minutes=2)})
    assert watched_since(marked, replace(attempt, watched_since=after(minutes=1))) == after(minutes=1)
    assert watched_since(marked, attempt) == after(minutes=2)
    assert watched_since(CASE, attempt) == after(minutes=3)


@pytest.mark.parametrize(
    ("seconds", "severity", "counts"),
    [
        (-1, Severity.FATAL, False),
        (0, Severity.FATAL, False),
        (1, Severity.FATAL, True),
        (1, Severity.ERROR, True),
        (1, Severity.WARNING, False),
    ],
)
def test_an_error_counts_against_a_verification_only_if_it_is_observed_after_its_start(
    seconds: int, severity: Severity, counts: bool
) -> None:
    seen = folded(node(), arrival(fault(severity=severity), at=after(seconds=seconds)), now=after(seconds=9)).state
    case = replace(CASE, attempts=1, attempt=Attempt(1, Phase.VERIFYING, watched_since=NOON))
    assert faults_since_start(replace(seen, case=case)) == (("xid.79: xid.79 happened",) if counts else ())


LONGEST = "a" * (MAX_FINDINGS_LENGTH - 2)


@pytest.mark.parametrize(
    ("findings", "reason"),
    [
        ((), ""),
        (("a", "b"), "a; b"),
        ((LONGEST, "b"), f"{LONGEST}; ... and 1 more finding"),
        (("a", LONGEST, "c"), "a; ... and 2 more findings"),
        (("a" * 3000,), "a" * MAX_FINDINGS_LENGTH),
    ],
    ids=["none", "all fit", "one does not fit", "two do not fit", "the first one is too long"],
)
def test_findings_that_do_not_fit_into_the_reason_are_counted(findings: tuple[str, ...], reason: str) -> None:
    assert joined_findings(findings) == reason
