"""In the simulated runs of many seeds the invariants hold, and roles permit each function's calls to the table."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest

from faultbridge.model.storage.writes import Check, Delete, Put, Update, Write
from tests.architecture.roles import actions, statements
from tests.sim.fakes.seam import Call
from tests.sim.fault_injection import FaultInjector
from tests.sim.history import draw_growing, draw_nodes_in_rack, draw_volumes
from tests.sim.situations.draw import Situation, draw_situations
from tests.simulation.parallel import parallel_map, violations_of

SEEDS = (0, 3, 5, 26, 27, 32, 33, 34, 243, 388)
"""The seeds of each test run, about a second of a core each; `make seeds` runs any number of fresh ones."""
NIGHTLY_SEEDS = range(20_300)
ROLES = {
    "ingest": "Ingest",
    "publish": "Publish",
    "react": "React",
    "pager": "Pager",
    "step": "Replacement",
    "sweep": "Sweep",
}
READS = {"get": "GetItem", "get_many": "BatchGetItem", "get_many_lagging": "BatchGetItem", "query": "Query"}
WRITES: dict[type[Write], str] = {
    Put: "PutItem",
    Delete: "DeleteItem",
    Update: "UpdateItem",
    Check: "ConditionCheckItem",
}

Permission = tuple[str, bool]
"""An IAM action, and whether it applies to an index."""

Run = tuple[list[str], Mapping[str, set[Permission]]]
"""The violations of a run, and the permissions that each function needed."""


def needed(call: Call) -> set[Permission]:
    """Return the permissions that a call to the table needs."""
    match call.operation:
        case "transact":
            return {(WRITES[type(write)], False) for write in call.argument}
        case "write":
            return {(WRITES[type(call.argument)], False)}
        case "query":
            return {(READS["query"], call.argument[1] is not None)}
        case read:
            return {(READS[read], False)}


def granted(role: str) -> set[Permission]:
    """Return the permissions of a role on the table and its indexes."""
    return {
        (action.removeprefix("dynamodb:"), "/index/" in str(resource))
        for statement in statements(f"{role}Role")
        for action in actions(statement)
        if action.startswith("dynamodb:")
        for resource in (statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]])
    }


def run_with_permissions(seed: int) -> Run:
    """Run a seed, and record the calls of each function to the table."""
    found: dict[str, set[Permission]] = {name: set() for name in ROLES}
    original = FaultInjector.before

    def record(injector: FaultInjector, call: Call) -> object:
        if injector.workers and call.port == "table":
            found.get(injector.workers[-1].partition("-")[0], set()).update(needed(call))
        return original(injector, call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FaultInjector, "before", record)
        return violations_of(seed), found


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return list(parallel_map(run_with_permissions, SEEDS))


def test_the_seeds_of_each_test_run_have_every_situation() -> None:
    assert set().union(*map(draw_situations, SEEDS)) == set(Situation)
    for drawn in (draw_growing, draw_nodes_in_rack, draw_volumes):
        assert any(map(drawn, SEEDS))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_seed_violates_an_invariant(runs: list[Run]) -> None:
    broken = [line for lines, _ in runs for line in lines]
    assert not broken, "\n".join(broken)


@pytest.mark.slow
@pytest.mark.parametrize("function", ROLES)
def test_a_function_makes_no_call_to_the_table_that_its_role_forbids(function: str, runs: list[Run]) -> None:
    permissions = set().union(*(needed_by[function] for _, needed_by in runs))
    assert permissions
    assert permissions <= granted(ROLES[function])


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [4572212074, 6156727697, 6518803641])
def test_seeds_whose_operators_once_left_cases_without_a_way_out_violate_no_invariant(seed: int) -> None:
    assert violations_of(seed) == []


@pytest.mark.nightly
def test_a_run_waits_for_the_next_try_of_an_isolation() -> None:
    assert violations_of(100_010_039) == []


@pytest.mark.nightly
@pytest.mark.timeout(6 * 3600)
def test_twenty_thousand_seeds_violate_no_invariant(capsys: pytest.CaptureFixture[str]) -> None:
    broken = []
    for seed, lines in zip(NIGHTLY_SEEDS, parallel_map(violations_of, NIGHTLY_SEEDS, chunk=50), strict=True):
        broken += lines
        if lines or not seed % 500:
            with capsys.disabled():
                sys.stdout.write("\n".join(("", f"seed {seed} of {NIGHTLY_SEEDS.stop}, {len(broken)} broken", *lines)))
    assert not broken, "\n".join(broken[:50])
