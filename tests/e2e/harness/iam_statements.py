"""The IAM statements of the deployed roles."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from infra.docs.template import template
from tests.architecture.roles import attached_policies, managed_policies
from tests.local.stack import PrivateStack


@dataclass(frozen=True, slots=True)
class Need:
    """An action that a function's role must allow on a resource; `context` contains the condition keys."""

    function: str
    action: str
    resource: str
    context: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a deployed role, with resolved references."""

    function: str
    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    condition: Mapping[str, Mapping[str, Any]]

    def allows(self, need: Need) -> bool:
        """Return whether this statement allows the action."""
        return (
            need.function == self.function
            and need.action in self.actions
            and any(fnmatchcase(need.resource, pattern) for pattern in self.resources)
            and all(
                _matches(operator, need.context.get(key), _listed(wanted))
                for operator, keys in self.condition.items()
                for key, wanted in keys.items()
            )
        )


def deployed_statements(stack: PrivateStack) -> list[Statement]:
    """Return every statement of the roles of all deployed functions."""
    functions, roles = stack.client("lambda"), stack.client("iam")
    found = []
    for function in functions.list_functions()["Functions"]:
        role = function["Role"].rpartition("/")[2]
        short = function["FunctionName"].removeprefix(f"{stack.info.stack}-")
        for policy in roles.list_role_policies(RoleName=role)["PolicyNames"]:
            document = roles.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
            found += [_statement(short, one) for one in document["Statement"]]
        # The emulator cannot return the managed policies that a template attaches to a role.
        for name in attached_policies(role.split("-")[-2]):
            document = _resolved(managed_policies()[name]["PolicyDocument"], _names(stack))
            found += [_statement(short, one) for one in document["Statement"]]
    return found


def _names(stack: PrivateStack) -> dict[str, str | None]:
    """Return what the template's references become on this stack, which has no optional part."""
    defaults = {name: str(one.get("Default", "")) for name, one in template()["Parameters"].items()}
    _, partition, _, region, account, _ = stack.outputs["UrgentTopicArn"].split(":")
    own = {"Partition": partition, "Region": region, "AccountId": account, "StackName": stack.info.stack}
    return {**defaults, **{f"AWS::{name}": value for name, value in own.items()}, "AWS::NoValue": None}


def _resolved(value: Any, names: Mapping[str, str | None]) -> Any:
    match value:
        case {"Fn::If": [_, _, otherwise]}:
            return _resolved(otherwise, names)
        case {"Ref": str(name)}:
            return names[name]
        case {"Fn::Sub": str(text)}:
            return re.sub(r"\$\{([\w:]+)\}", lambda found: str(names[found[1]]), text)
        case [*parts]:
            return [one for one in (_resolved(part, names) for part in parts) if one is not None]
        case dict():
            return {name: _resolved(item, names) for name, item in value.items()}
    return value


def _statement(function: str, statement: Mapping[str, Any]) -> Statement:
    assert statement["Effect"] == "Allow"
    return Statement(
        function,
        statement["Sid"],
        _listed(statement["Action"]),
        _listed(statement["Resource"]),
        statement.get("Condition", {}),
    )


def _matches(operator: str, given: tuple[str, ...] | None, wanted: tuple[str, ...]) -> bool:
    if operator == "StringEquals":
        return bool(given) and set(given or ()) <= set(wanted)
    if operator in {"ForAllValues:StringEquals", "ForAllValues:StringLike"}:
        return all(any(fnmatchcase(one, pattern) for pattern in wanted) for one in given or ())
    raise NotImplementedError(operator)


def _listed(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def describe(need: Need) -> str:
    """Return a need in one line."""
    return f"{need.function}: {need.action} on {need.resource} {json.dumps(need.context)}"
