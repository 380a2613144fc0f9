"""What functions ask of the table in drawn histories, on paths that a day on a stack may not take, and their roles."""

from __future__ import annotations

import pytest

from faultbridge.simulation.chaos import Chaos
from faultbridge.simulation.fakes.seams import Call
from faultbridge.simulation.history import run
from faultbridge.storage.writes import Check, Delete, Put, Update, Write
from tests.architecture.roles import actions, statements

SEEDS = range(5)
ROLES = {
    "ingest": "Ingest",
    "publish": "Publish",
    "react": "React",
    "pager": "Pager",
    "step": "StepRunner",
    "sweep": "Sweep",
}
READS = {"get": "GetItem", "get_many": "BatchGetItem", "query": "Query"}
WRITES: dict[type[Write], str] = {
    Put: "PutItem",
    Delete: "DeleteItem",
    Update: "UpdateItem",
    Check: "ConditionCheckItem",
}

Right = tuple[str, bool]
"""An action, and whether on an index."""


def needed(call: Call) -> set[Right]:
    """The rights that a call of the table takes."""
    match call.operation:
        case "transact":
            return {(WRITES[type(write)], False) for write in call.argument}
        case "write":
            return {(WRITES[type(call.argument)], False)}
        case "query":
            return {(READS["query"], call.argument[1] is not None)}
        case read:
            return {(READS[read], False)}


def granted(role: str) -> set[Right]:
    """What a role may do in the table and its indexes."""
    return {
        (action.removeprefix("dynamodb:"), "/index/" in str(resource))
        for statement in statements(f"{role}Role")
        for action in actions(statement)
        if action.startswith("dynamodb:")
        for resource in (statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]])
    }


@pytest.fixture(scope="module")
def made() -> dict[str, set[Right]]:
    """The rights that each function needed in some histories."""
    found: dict[str, set[Right]] = {name: set() for name in ROLES}
    judge = Chaos.before

    def overhear(chaos: Chaos, call: Call) -> object:
        if chaos._working and call.port == "table":
            found.get(chaos._working[-1].partition("-")[0], set()).update(needed(call))
        return judge(chaos, call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Chaos, "before", overhear)
        for seed in SEEDS:
            run(seed)
    return found


@pytest.mark.parametrize("function", ROLES)
def test_a_function_asks_nothing_of_the_table_that_its_role_forbids(function: str, made: dict[str, set[Right]]) -> None:
    assert made[function]
    assert made[function] <= granted(ROLES[function])
