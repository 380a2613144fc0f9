"""The IAM permissions that each recorded call needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from faultbridge.local.environment import ACCOUNT, REGION
from tests.e2e.harness.calls import Call
from tests.e2e.harness.iam_statements import Need
from tests.local.stack import PrivateStack

_TRANSACTED = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}
_ACTIONS = {"s3:ListObjectVersions": "s3:ListBucketVersions", "s3:ListObjects": "s3:ListBucket"}
_ON_ALL = frozenset(
    {
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:DescribeInstanceRefreshes",
        "ec2:DescribeInstances",
        "ec2:DescribeInstanceTopology",
        "ssm:GetCommandInvocation",
        "ssm:ListCommands",
    }
)
"""Calls without resource-level permissions."""

_NAMED_BY_TEMPLATES = ("security-group/its-id", "subnet/its-id", "network-interface/its-id", "volume/its-id")
"""The minimum resources that a launch needs besides the launch template."""

_CREATED_BY_LAUNCHES = {
    "fleet/its-id": ("ec2:CreateFleet", "ec2:CreateTags"),
    "instance/its-id": ("ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateTags"),
}
"""The resources that a launch creates, in the order of their tags in the request."""

TAG = "faultbridge:stack"


@dataclass(frozen=True)
class Needs:
    """Determines the needs of calls; reads tags from the stack."""

    stack: PrivateStack
    _tags: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def of(self, call: Call) -> Iterator[Need]:
        """Yield the permissions that the caller's role needs for a call."""
        read = getattr(self, f"_{call.service}", None)
        if call.name in _ON_ALL:
            yield Need(call.function, call.name, "*")
        elif read is None:
            raise NotImplementedError(call.name)
        else:
            yield from read(call, call.arguments)

    def _dynamodb(self, call: Call, arguments: Mapping[str, Any]) -> Iterator[Need]:
        if call.operation == "TransactWriteItems":
            for part in arguments["TransactItems"]:
                ((kind, write),) = part.items()
                yield self._on_table(call, _TRANSACTED[kind], write["TableName"], write)
        elif call.operation == "BatchGetItem":
            for table, request in arguments["RequestItems"].items():
                yield self._on_table(call, call.operation, table, *({"Key": key} for key in request["Keys"]))
        else:
            table = arguments["TableName"]
            index = f"/index/{arguments['IndexName']}" if "IndexName" in arguments else ""
            yield self._on_table(call, call.operation, f"{table}{index}", arguments)

    def _on_table(self, call: Call, operation: str, table: str, *arguments: Mapping[str, Any]) -> Need:
        context = {
            "dynamodb:LeadingKeys": tuple(name for one in arguments for name in _partitions(one)),
            "dynamodb:Attributes": tuple(name for one in arguments for name in _attributes(one)),
        }
        return Need(call.function, f"dynamodb:{operation}", _arn("dynamodb", f"table/{table}"), context)

    def _events(self, call: Call, arguments: Mapping[str, Any]) -> Iterator[Need]:
        for entry in arguments["Entries"]:
            bus = entry["EventBusName"].rpartition("/")[2]
            context = {"events:source": (entry["Source"],)}
            yield Need(call.function, call.name, _arn("events", f"event-bus/{bus}"), context)

    def _sqs(self, call: Call, arguments: Mapping[str, Any]) -> Iterator[Need]:
        queue = arguments["QueueUrl"].rpartition("/")[2]
        yield Need(call.function, call.name.removesuffix("Batch"), _arn("sqs", queue))

    def _sns(self, call: Call, arguments: Mapping[str, Any]) -> Iterator[Need]:
        yield Need(call.function, call.name, arguments["TopicArn"])

    def _states(self, call: Call, arguments: Mapping[str, Any]) -> Iterator[Need]:
        # A task token belongs to an execution of the only state machine.
        state_machine = self.stack.outputs["StateMachineArn"]
        yield Need(
            call.function, call.name, arguments.get("executionArn") or arguments.get("stateMachineArn") or state_machine
        )

    def _s3(self, call: Call, arguments: Mapping[str, Any]) -> Iterator[Need]:
        bucket = f"arn:aws:s3:::{arguments['Bucket']}"
        action = _ACTIONS.get(call.name, call.name)
        if not arguments["Key"]:
            yield Need(call.function, action, bucket)
            return
        yield Need(call.function, action, f"{bucket}/{arguments['Key']}")
        if call.status == HTTPStatus.NOT_FOUND:
            # Without this permission S3 answers 403 instead of 404 for a missing object.
            yield Need(call.function, "s3:ListBucket", bucket)

    def _autoscaling(self, call: Call, arguments: Mapping[str, Any]) -> Iterator[Need]:
        # The call names the instance, but IAM checks its group.
        resource = _arn("autoscaling", "autoScalingGroup:its-id:autoScalingGroupName/its-name")
        yield Need(call.function, call.name, resource, {f"aws:ResourceTag/{TAG}": self._tag(arguments["InstanceId"])})

    def _ssm(self, call: Call, arguments: Mapping[str, Any]) -> Iterator[Need]:
        for instance in arguments["InstanceIds"]:
            resource = _arn("ec2", f"instance/{instance}")
            yield Need(call.function, call.name, resource, {f"ssm:resourceTag/{TAG}": self._tag(instance)})
        document = f"arn:aws:ssm:{REGION}::document/{arguments['DocumentName']}"
        yield Need(call.function, call.name, document)

    def _eks(self, call: Call, arguments: Mapping[str, Any]) -> Iterator[Need]:
        cluster, group = arguments["name"], arguments.get("nodegroupName")
        resource = f"nodegroup/{cluster}/{group}/its-id" if group else f"cluster/{cluster}"
        yield Need(call.function, call.name, _arn("eks", resource))

    def _ec2(self, call: Call, arguments: Mapping[str, Any]) -> Iterator[Need]:
        if call.operation == "CreateFleet":
            yield from self._launch(call.function, arguments)
            return
        keys = tuple(value for name, value in arguments.items() if re.fullmatch(r"Tag\.\d+\.Key", name))
        for instance in (value for name, value in arguments.items() if name.startswith(("InstanceId.", "ResourceId."))):
            context = {f"aws:ResourceTag/{TAG}": self._tag(instance), "aws:TagKeys": keys}
            yield Need(call.function, call.name, _arn("ec2", f"instance/{instance}"), context)

    def _launch(self, function: str, arguments: Mapping[str, Any]) -> Iterator[Need]:
        """Yield the needs of a fleet: its launch template, the named resources, the created resources."""
        specification = "LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplate"
        template = arguments.get(f"{specification}Name") or arguments[f"{specification}Id"]
        of_template = {f"aws:ResourceTag/{TAG}": self._template_tag(template)}
        for action in ("ec2:CreateFleet", "ec2:RunInstances"):
            yield Need(function, action, _arn("ec2", f"launch-template/{template}"), of_template)
            yield from (Need(function, action, _arn("ec2", named)) for named in _NAMED_BY_TEMPLATES)
        for number, (created, actions) in enumerate(_CREATED_BY_LAUNCHES.items(), 1):
            given = {f"aws:RequestTag/{TAG}": _given_tag(arguments, f"TagSpecification.{number}.Tag.")}
            for action in actions:
                yield Need(function, action, _arn("ec2", created), {**given, "ec2:CreateAction": ("CreateFleet",)})

    def _secretsmanager(self, call: Call, arguments: Mapping[str, Any]) -> Iterator[Need]:
        # A reference to a secret is its ARN on AWS and its name here, both in the role and in the call.
        yield Need(call.function, call.name, arguments["SecretId"])

    def _tag(self, instance: str) -> tuple[str, ...]:
        """Return the value of an instance's tag; the emulator keeps terminated instances."""
        if instance not in self._tags:
            found = self.stack.client("ec2").describe_instances(InstanceIds=[instance])
            tags = found["Reservations"][0]["Instances"][0].get("Tags", [])
            self._tags[instance] = _values(tags)
        return self._tags[instance]

    def _template_tag(self, template: str) -> tuple[str, ...]:
        """Return the value of a launch template's tag."""
        name = "LaunchTemplateIds" if template.startswith("lt-") else "LaunchTemplateNames"
        (found,) = self.stack.client("ec2").describe_launch_templates(**{name: [template]})["LaunchTemplates"]
        return _values(found.get("Tags", []))


def _values(tags: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    return tuple(tag["Value"] for tag in tags if tag["Key"] == TAG)


def _given_tag(arguments: Mapping[str, str], prefix: str) -> tuple[str, ...]:
    """Return the value of the tag in a request, whose parameters number the tags."""
    prefixes = (
        name.removesuffix("Key") for name, value in arguments.items() if name.startswith(prefix) and value == TAG
    )
    return tuple(arguments[f"{numbered}Value"] for numbered in prefixes)


def _partitions(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the partition keys of a call."""
    key = arguments.get("Item") or arguments.get("Key")
    if key is not None:
        return (key["pk"]["S"],)
    values = arguments.get("ExpressionAttributeValues", {})
    return tuple(value["S"] for value in list(values.values())[:1] if "S" in value)


def _attributes(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the top-level attributes that a call names, as IAM sees them."""
    yield from arguments.get("Item") or arguments.get("Key") or ()
    names = arguments.get("ExpressionAttributeNames", {})
    for part in ("UpdateExpression", "ConditionExpression"):
        yield from (names[short] for short in re.findall(r"(?<![.\w])#\w+", arguments.get(part, "")))


def _arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}"
