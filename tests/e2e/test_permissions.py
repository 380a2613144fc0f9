"""Every recorded call of each function is allowed by its deployed role, and no permission is unused."""

from __future__ import annotations

import re

import pytest

from tests.architecture.builders import documented
from tests.architecture.project import ROOT
from tests.e2e.harness.iam_needs import Needs
from tests.e2e.harness.iam_statements import Need, Statement, deployed_statements, describe
from tests.e2e.harness.installation import Installation
from tests.e2e.scenarios.batch import ReplayedBatch
from tests.e2e.scenarios.dead_job import DeadJobs
from tests.e2e.scenarios.eks_repair import EksRepair
from tests.e2e.scenarios.failures import CrashedWorkers, DeferredWork
from tests.e2e.scenarios.inputs import BadBatch, OtherInputs
from tests.e2e.scenarios.rack_incident import EightRacks, RackIncident
from tests.e2e.scenarios.repairs import RecoveredLink, Repairs

# Run alone, this module sets up all scenarios.
pytestmark = [pytest.mark.embedded, pytest.mark.nightly]

UNUSED_ROW = re.compile(r"^\| (\w+) \| (\w+) \| ([`\w: ]+) \| [^|]+ \|$", re.MULTILINE)

USED_IN_SLOW_RUNS = {("Ingest", "Nodes", "dynamodb:Query")}
"""Documented exceptions that a test uses if a record is delivered again after a newer one."""


@pytest.fixture(scope="module")
def needs(
    installation: Installation,
    replayed_batch: ReplayedBatch,
    crashed_workers: CrashedWorkers,
    repairs: Repairs,
    deferred_work: DeferredWork,
    bad_batch: BadBatch,
    other_inputs: OtherInputs,
    recovered_link: RecoveredLink,
    eks_repair: EksRepair,
    externally_repaired: str,
    rack_incident: RackIncident,
    eight_racks: EightRacks,
    dead_jobs: DeadJobs,
) -> list[Need]:
    """Return the permissions that every call needed; the parameters make all scenarios run before."""
    assert all(
        (
            replayed_batch,
            crashed_workers,
            repairs,
            deferred_work,
            bad_batch,
            other_inputs,
            recovered_link,
            eks_repair,
            externally_repaired,
            rack_incident,
            eight_racks,
            dead_jobs,
        )
    )
    reader = Needs(installation.stack)
    return [need for call in list(installation.required_proxy.calls) for need in reader.of(call)]


@pytest.fixture(scope="module")
def granted(installation: Installation) -> list[Statement]:
    """Return the statements of every function's role."""
    return deployed_statements(installation.stack)


def documented_exceptions() -> set[tuple[str, str, str]]:
    """Return the permissions that no test uses; the documentation states the reason of each."""
    page = (ROOT / "docs" / "permissions.md").read_text(encoding="utf-8")
    rows = UNUSED_ROW.findall(page.partition("## Rights that no test uses")[2])
    return {(role, sid, action) for role, sid, may in rows for action in re.findall(r"`([^`]+)`", may)}


def is_used_by_lambda(statement: Statement) -> bool:
    """Return whether Lambda itself makes these calls for the function."""
    return documented_needs()[statement.function.capitalize(), statement.sid] == "-"


def documented_needs() -> dict[tuple[str, str], str]:
    """Return the file that needs each statement."""
    return {(grant.role, grant.sid): by for grant, by in documented().items()}


def test_every_function_made_calls(installation: Installation, needs: list[Need]) -> None:
    assert {need.function for need in needs} == set(installation.functions())


def test_a_role_allows_every_call_of_its_function(needs: list[Need], granted: list[Statement]) -> None:
    forbidden = {describe(need) for need in needs if not any(statement.allows(need) for statement in granted)}
    assert not forbidden


def test_a_role_grants_no_unused_permission(needs: list[Need], granted: list[Statement]) -> None:
    unused = {
        (statement.function.capitalize(), statement.sid, action)
        for statement in granted
        if not is_used_by_lambda(statement)
        for action in statement.actions
        if not any(need.action == action and statement.allows(need) for need in needs)
    }
    assert unused | USED_IN_SLOW_RUNS == documented_exceptions()
