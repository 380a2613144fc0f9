"""A folder of rule files as a template of CloudFormation: each rule on the bus, with a target that its owner names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from faultbridge.cli.rulefile import RuleFile
from faultbridge.errors import Rejected

OUR_SOURCE = "faultbridge"
MAX_RULES = 150
"""CloudFormation takes 200 parameters, and EventBridge 300 rules on a bus."""

HEAD = """# Written by `faultbridge rule template {folder}`; do not edit. Deploy it beside the stack whose bus it names:
#   aws cloudformation deploy --template-file {name} --stack-name faultbridge-rules \\
#     --parameter-overrides EventBusName=faultbridge PageOnFatalTarget=arn:aws:sns:...
# A rule without a target is left out. The target's own policy must let events.amazonaws.com in.
"""


def template_text(rules: Iterable[RuleFile], folder: str, name: str) -> str:
    """Render the template; raises Rejected for rules that have one name in CloudFormation or are too many."""
    document = template(list(rules))
    return HEAD.format(folder=folder, name=name) + yaml.safe_dump(document, sort_keys=False, width=110)


def template(rules: list[RuleFile]) -> dict[str, Any]:
    """Return the template as a document."""
    names = [logical_name(rule) for rule in rules]
    if len(set(names)) < len(names):
        raise Rejected("no_rule", "two rules have one name once their hyphens are gone")
    if len(rules) > MAX_RULES:
        raise Rejected("no_rule", f"{len(rules)} rules; a template takes {MAX_RULES}")
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "Customer rules on the bus of Faultbridge; each with a target that its owner names.",
        "Parameters": _parameters(rules),
        "Conditions": {f"Has{logical_name(rule)}": _given(_target(rule)) for rule in rules},
        "Resources": dict([*_dead_letters(), *(one for rule in rules for one in _resources(rule))]),
        "Outputs": {
            "DeadLettersUrl": {
                "Description": "Events that a target did not take",
                "Value": {"Ref": "DeadLetters"},
            }
        },
    }


def logical_name(rule: RuleFile) -> str:
    """Return a rule's name as CloudFormation takes it: letters and digits only."""
    return "".join(part.capitalize() for part in rule.name.split("-"))


def _target(rule: RuleFile) -> str:
    return f"{logical_name(rule)}Target"


def _described(rule: RuleFile) -> str:
    return f"ARN of the rule's target; suggested: {' '.join(rule.target.split())}. Empty leaves the rule out."


def _given(parameter: str) -> dict[str, Any]:
    return {"Fn::Not": [{"Fn::Equals": [{"Ref": parameter}, ""]}]}


def _parameters(rules: list[RuleFile]) -> dict[str, Any]:
    targets = {_target(rule): {"Type": "String", "Default": "", "Description": _described(rule)} for rule in rules}
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
        suffix, on = ("", {"EventBusName": {"Ref": "EventBusName"}}) if bus == "own" else ("OnDefaultBus", {})
        properties = {
            "Description": _one_line(rule.purpose),
            **on,
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


def _one_line(purpose: str) -> str:
    """Cut a purpose to what EventBridge takes as a rule's description."""
    text = " ".join(purpose.split())
    return text if len(text) <= 512 else f"{text[:509]}..."  # noqa: PLR2004 - the limit of a description
