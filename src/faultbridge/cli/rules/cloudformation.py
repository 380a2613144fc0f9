"""Write a CloudFormation template for a folder of rule files; each rule has a target parameter."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from faultbridge.cli.rules.rule_file import RuleFile
from faultbridge.errors import Rejected

OUR_SOURCE = "faultbridge"
MAX_RULES = 150
"""CloudFormation allows 200 parameters in a template; EventBridge allows 300 rules on a bus."""
MAX_DESCRIPTION_CHARACTERS = 512
"""The limit of EventBridge for a rule description."""

HEAD = """# Written by `faultbridge rule template {folder}`; do not edit. Deploy it beside the stack that owns the bus:
#   aws cloudformation deploy --template-file {name} --stack-name faultbridge-rules \\
#     --parameter-overrides EventBusName=faultbridge PageOnFatalTarget=arn:aws:sns:...
# A rule without a target is not created. The resource policy of a target must allow events.amazonaws.com.
"""


def template_text(rules: Iterable[RuleFile], folder: str, name: str) -> str:
    """Return the CloudFormation template for rule files as YAML.

    `folder` (of the rule files) and `name` (of the template file) appear only in the comment at the top.

    Raises `Rejected` if there are too many rules, or if two rules have the same logical name.
    """
    document = template(list(rules))
    return HEAD.format(folder=folder, name=name) + yaml.safe_dump(document, sort_keys=False, width=110)


def template(rules: list[RuleFile]) -> dict[str, Any]:
    """Return the CloudFormation template for rule files as a document."""
    names = [logical_name(rule) for rule in rules]
    if len(set(names)) < len(names):
        raise Rejected("no_rule", "duplicate rule name without hyphens; rename one of the rules")
    if len(rules) > MAX_RULES:
        raise Rejected("no_rule", f"too many rules: {len(rules)}; a template allows {MAX_RULES}")
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "Customer rules on the Faultbridge event bus. Each rule has a target parameter.",
        "Parameters": _parameters(rules),
        "Conditions": {f"Has{logical_name(rule)}": _has_value(_target(rule)) for rule in rules},
        "Resources": dict([*_dead_letters(), *(one for rule in rules for one in _resources(rule))]),
        "Outputs": {
            "DeadLettersUrl": {
                "Description": "URL of the queue with events that a target refused",
                "Value": {"Ref": "DeadLetters"},
            }
        },
    }


def logical_name(rule: RuleFile) -> str:
    """Return the CloudFormation logical name of a rule, which contains only letters and digits."""
    return "".join(part.capitalize() for part in rule.name.split("-"))


def _target(rule: RuleFile) -> str:
    return f"{logical_name(rule)}Target"


def _target_description(rule: RuleFile) -> str:
    return f"ARN of the target. Suggested: {' '.join(rule.target.split())}. Empty: the rule is not created."


def _has_value(parameter: str) -> dict[str, Any]:
    return {"Fn::Not": [{"Fn::Equals": [{"Ref": parameter}, ""]}]}


def _parameters(rules: list[RuleFile]) -> dict[str, Any]:
    targets = {
        _target(rule): {"Type": "String", "Default": "", "Description": _target_description(rule)} for rule in rules
    }
    return {
        "EventBusName": {"Type": "String", "Default": "faultbridge", "Description": "Output EventBusName of the stack"},
        "EventSource": {"Type": "String", "Default": OUR_SOURCE, "Description": "Output EventSource of the stack"},
        **targets,
    }


def _dead_letters() -> Iterator[tuple[str, dict[str, Any]]]:
    yield (
        "DeadLetters",
        {
            "Type": "AWS::SQS::Queue",
            "Properties": {"MessageRetentionPeriod": 1209600, "SqsManagedSseEnabled": True},
        },
    )
    allowed = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": {"Fn::GetAtt": "DeadLetters.Arn"},
        "Condition": {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}},
    }
    policy = {"Version": "2012-10-17", "Statement": [allowed]}
    yield (
        "DeadLettersPolicy",
        {
            "Type": "AWS::SQS::QueuePolicy",
            "Properties": {"Queues": [{"Ref": "DeadLetters"}], "PolicyDocument": policy},
        },
    )


def _resources(rule: RuleFile) -> Iterator[tuple[str, dict[str, Any]]]:
    for bus in rule.buses:
        suffix, bus_property = ("", {"EventBusName": {"Ref": "EventBusName"}}) if bus == "own" else ("OnDefaultBus", {})
        properties = {
            "Description": _rule_description(rule.purpose),
            **bus_property,
            "EventPattern": _pattern(rule.pattern),
            "Targets": [
                {
                    "Id": "target",
                    "Arn": {"Ref": _target(rule)},
                    "DeadLetterConfig": {"Arn": {"Fn::GetAtt": "DeadLetters.Arn"}},
                    "RetryPolicy": {"MaximumRetryAttempts": 185, "MaximumEventAgeInSeconds": 86400},
                }
            ],
        }
        yield (
            f"{logical_name(rule)}{suffix}",
            {"Type": "AWS::Events::Rule", "Condition": f"Has{logical_name(rule)}", "Properties": properties},
        )


def _pattern(pattern: Mapping[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(pattern))
    sources = copied.get("source", [])
    if OUR_SOURCE in sources:
        copied["source"] = [{"Ref": "EventSource"} if one == OUR_SOURCE else one for one in sources]
    return copied


def _rule_description(purpose: str) -> str:
    text = " ".join(purpose.split())
    limit = MAX_DESCRIPTION_CHARACTERS
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
