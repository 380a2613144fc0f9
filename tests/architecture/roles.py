"""Reads the IAM roles of the template."""

from __future__ import annotations

from typing import Any

from tests.architecture.project import resources


def statements(role: str) -> list[dict[str, Any]]:
    """Return every statement of a role, conditional ones included."""
    policies = resources("AWS::IAM::Role")[role]["Properties"]["Policies"]
    found = [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]
    return [s["Fn::If"][1] if "Fn::If" in s else s for s in found]


def actions(statement: dict[str, Any]) -> list[str]:
    """Return the actions of a statement as a list."""
    listed = statement["Action"]
    return listed if isinstance(listed, list) else [listed]
