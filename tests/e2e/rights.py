"""What each deployed role allows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from tests.local.stack import PrivateStack


@dataclass(frozen=True, slots=True)
class Need:
    """An action that a function's role must allow on a resource; `context` is what conditions look at."""

    function: str
    action: str
    resource: str
    context: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a deployed role, its references resolved."""

    function: str
    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    condition: Mapping[str, Mapping[str, Any]]

    def allows(self, need: Need) -> bool:
        """Whether this statement allows it."""
        return (
            need.function == self.function
            and need.action in self.actions
            and any(fnmatchcase(need.resource, pattern) for pattern in self.resources)
            and all(
                _holds(operator, need.context.get(key), _listed(wanted))
                for operator, keys in self.condition.items()
                for key, wanted in keys.items()
            )
        )


def statements(stack: PrivateStack) -> list[Statement]:
    """Every statement of the role of every deployed function."""
    functions, roles = stack.client("lambda"), stack.client("iam")
    found = []
    for function in functions.list_functions()["Functions"]:
        role = function["Role"].rpartition("/")[2]
        short = function["FunctionName"].removeprefix(f"{stack.info.stack}-")
        for policy in roles.list_role_policies(RoleName=role)["PolicyNames"]:
            document = roles.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
            found += [_statement(short, one) for one in document["Statement"]]
    return found


def _statement(function: str, statement: Mapping[str, Any]) -> Statement:
    assert statement["Effect"] == "Allow"
    return Statement(
        function,
        statement["Sid"],
        _listed(statement["Action"]),
        _listed(statement["Resource"]),
        statement.get("Condition", {}),
    )


def _holds(operator: str, given: tuple[str, ...] | None, wanted: tuple[str, ...]) -> bool:
    if operator == "StringEquals":
        return bool(given) and set(given or ()) <= set(wanted)
    if operator in {"ForAllValues:StringEquals", "ForAllValues:StringLike"}:
        return all(any(fnmatchcase(one, pattern) for pattern in wanted) for one in given or ())
    raise NotImplementedError(operator)


def _listed(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def described(need: Need) -> str:
    """A need in one line."""
    return f"{need.function}: {need.action} on {need.resource} {json.dumps(need.context)}"
