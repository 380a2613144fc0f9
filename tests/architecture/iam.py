"""IAM's evaluation of the roles of the template, for the operators that they use.

Only the policies of the role are evaluated: a resource or key policy can allow more, a service control policy less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from tests.architecture.roles import actions, deployed, statements

Context = Mapping[str, tuple[str, ...]]
"""The condition keys of a request, each with its values."""


def listed(value: Any) -> tuple[str, ...]:
    """Return a value of a policy, which may be one text or a list, as texts."""
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def conditions(statement: Mapping[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the operator, the condition key and the wanted values of each condition of a statement."""
    for operator, wanted in statement.get("Condition", {}).items():
        for key, value in wanted.items():
            yield operator, key, listed(deployed(value))


def is_allowed(role: str, action: str, resource: str, context: Context) -> bool:
    """Evaluate the policies of a role as IAM does: an explicit denial decides before an allowance."""
    effects = {one["Effect"] for one in statements(role) if applies(one, action, resource, context)}
    return effects == {"Allow"}


def applies(statement: dict[str, Any], action: str, resource: str, context: Context) -> bool:
    """Return whether a statement decides about a request."""
    named = any(fnmatchcase(action.lower(), one.lower()) for one in actions(statement))
    on = any(fnmatchcase(resource, pattern) for pattern in listed(deployed(statement["Resource"])))
    return (
        named
        and on
        and all(holds(operator, context.get(key), wanted) for operator, key, wanted in conditions(statement))
    )


def holds(operator: str, given: tuple[str, ...] | None, wanted: tuple[str, ...]) -> bool:
    """Return whether a condition holds; a key that the request lacks fails all but `Null` and `ForAllValues`."""
    match operator:
        case "Null":
            return (given is None) is (wanted == ("true",))
        case "StringEquals" | "Bool":
            return given is not None and set(given) <= set(wanted)
        case "ForAllValues:StringEquals" | "ForAllValues:StringLike":
            return all(any(fnmatchcase(one, pattern) for pattern in wanted) for one in given or ())
    raise AssertionError(f"the evaluator has no operator {operator}")
