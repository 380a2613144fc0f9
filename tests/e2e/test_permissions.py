"""Every call that each function made in these tests, held against the role that it was deployed with."""

from __future__ import annotations

import re

import pytest

from tests.architecture.project import ROOT
from tests.architecture.test_permissions import documented
from tests.e2e.installation import Installation
from tests.e2e.needs import Needs
from tests.e2e.pairs import OnEks
from tests.e2e.rights import Need, Statement, described, statements
from tests.e2e.scenarios import Crashed, Doors, LeftUndone, Mess, Recovered, Repairs, Replayed

# Run alone, its setup is that of all the scenarios.
pytestmark = [pytest.mark.embedded, pytest.mark.slow, pytest.mark.timeout(1200)]

UNUSED_ROW = re.compile(r"^\| (\w+) \| (\w+) \| ([`\w: ]+) \| [^|]+ \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def needs(
    installation: Installation,
    replayed: Replayed,
    crashed: Crashed,
    repairs: Repairs,
    left_undone: LeftUndone,
    mess: Mess,
    doors: Doors,
    recovered: Recovered,
    on_eks: OnEks,
    followed: str,
) -> list[Need]:
    """What every call so far needed; the scenarios are named so that all of them are done by then."""
    assert all((replayed, crashed, repairs, left_undone, mess, doors, recovered, on_eks, followed))
    read = Needs(installation.stack)
    return [need for call in list(installation.wire_in_use.calls) for need in read.of(call)]


@pytest.fixture(scope="module")
def granted(installation: Installation) -> list[Statement]:
    """What every function may do."""
    return statements(installation.stack)


def excepted() -> set[tuple[str, str, str]]:
    """Rights that no test uses, each with its reason in the documentation."""
    page = (ROOT / "docs" / "permissions.md").read_text(encoding="utf-8")
    rows = UNUSED_ROW.findall(page.partition("## Rights that no test uses")[2])
    return {(role, sid, action) for role, sid, may in rows for action in re.findall(r"`([^`]+)`", may)}


def of_lambda(statement: Statement) -> bool:
    """Whether Lambda itself makes these calls on the function's behalf."""
    return documented_needs()[statement.function.capitalize(), statement.sid] == "-"


def documented_needs() -> dict[tuple[str, str], str]:
    """Which file needs each statement."""
    return {(grant.role, grant.sid): by for grant, by in documented().items()}


def test_every_function_made_calls(installation: Installation, needs: list[Need]) -> None:
    assert {need.function for need in needs} == set(installation.functions())


def test_a_function_made_no_call_that_its_role_forbids(needs: list[Need], granted: list[Statement]) -> None:
    forbidden = {described(need) for need in needs if not any(statement.allows(need) for statement in granted)}
    assert not forbidden


def test_a_role_grants_nothing_that_no_call_needed(needs: list[Need], granted: list[Statement]) -> None:
    unused = {
        (statement.function.capitalize(), statement.sid, action)
        for statement in granted
        if not of_lambda(statement)
        for action in statement.actions
        if not any(need.action == action and statement.allows(need) for need in needs)
    }
    assert unused == excepted()
