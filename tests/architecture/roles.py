"""Reads the IAM roles of the template."""

from __future__ import annotations

import json
import re
from typing import Any

from infra.docs.template import resources, template


def statements(role: str) -> list[dict[str, Any]]:
    """Return every statement of a role, inline or of a managed policy of the template, conditional ones included."""
    inline = resources("AWS::IAM::Role")[role]["Properties"].get("Policies", [])
    policies = [*inline, *(managed_policies()[name] for name in attached_policies(role))]
    found = [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]
    return [s["Fn::If"][1] if "Fn::If" in s else s for s in found]


def attached_policies(role: str) -> list[str]:
    """Return the managed policies of the template that a role has."""
    attached = resources("AWS::IAM::Role")[role]["Properties"].get("ManagedPolicyArns", ())
    return [str(one["Ref"]) for one in attached if "Ref" in one]


def managed_policies() -> dict[str, dict[str, Any]]:
    """Return the properties of each managed policy of the template."""
    return {name: one["Properties"] for name, one in resources("AWS::IAM::ManagedPolicy").items()}


def actions(statement: dict[str, Any]) -> list[str]:
    """Return the actions of a statement as a list."""
    listed = statement["Action"]
    return listed if isinstance(listed, list) else [listed]


ARN = (
    "arn:aws-us-gov:secretsmanager:us-gov-west-1:111122223333:secret:gpu-fleet-faultbridge-Configuration-1A2B3C4D5E6F7"
)
DEPLOYED = {
    "Partition": "aws-us-gov",
    "Region": "us-gov-west-1",
    "AccountId": "111122223333",
    "StackName": "gpu-fleet-faultbridge",
    "URLSuffix": "amazonaws.com",
    "RepairTagValue": "gpu-fleet-faultbridge",
}
"""A deployment with long names: its policies are longer than in most regions."""


def deployed(value: Any) -> Any:
    """Return a part of a policy with the names of a deployment instead of references, and every optional part."""
    match value:
        case {"Fn::If": [_, first, second]}:
            return max(deployed(first), deployed(second), key=lambda one: len(json.dumps(one)))
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), _]} | {"Fn::GetAtt": str(name)}:
            return _name(name)
        case {"Fn::Sub": str(text)}:
            return re.sub(r"\$\{([\w.:]+)\}", lambda found: _name(found[1]), text)
        case {"Fn::Split": [_, *parts]} | [*parts]:
            return [deployed(part) for part in parts]
        case dict():
            return {name: deployed(item) for name, item in value.items()}
    return value


def _name(reference: str) -> str:
    """Return what a reference becomes: a pseudo parameter, the default of a parameter if it has one, else an ARN."""
    parameter = template()["Parameters"].get(reference, {})
    return DEPLOYED.get(reference.removeprefix("AWS::")) or str(parameter.get("Default") or ARN)


def inline_size(role: str) -> int:
    """Return the number of characters of a role's inline policies, without white space, as IAM counts them."""
    policies = resources("AWS::IAM::Role")[role]["Properties"].get("Policies", [])
    return sum(document_size(one) for one in policies)


def document_size(policy: dict[str, Any]) -> int:
    """Return the number of characters of a policy without white space, as IAM counts them."""
    return len(json.dumps(deployed(policy["PolicyDocument"]), separators=(",", ":")))
