"""Each function's calls to the table in simulated runs are permitted by its IAM role in the template."""

from __future__ import annotations

import pytest

from faultbridge.model.storage.writes import Check, Delete, Put, Update, Write
from tests.architecture.roles import actions, statements
from tests.sim.fakes.seam import Call
from tests.sim.fault_injection import FaultInjector
from tests.sim.history import run

SEEDS = range(5)
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


@pytest.fixture(scope="module")
def needed_permissions() -> dict[str, set[Permission]]:
    """Return the permissions that each function needed in some simulated runs."""
    found: dict[str, set[Permission]] = {name: set() for name in ROLES}
    original = FaultInjector.before

    def record(injector: FaultInjector, call: Call) -> object:
        if injector.workers and call.port == "table":
            found.get(injector.workers[-1].partition("-")[0], set()).update(needed(call))
        return original(injector, call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FaultInjector, "before", record)
        for seed in SEEDS:
            run(seed)
    return found


@pytest.mark.parametrize("function", ROLES)
def test_a_function_makes_no_call_to_the_table_that_its_role_forbids(
    function: str, needed_permissions: dict[str, set[Permission]]
) -> None:
    assert needed_permissions[function]
    assert needed_permissions[function] <= granted(ROLES[function])
