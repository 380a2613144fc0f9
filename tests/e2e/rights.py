"""What each call on the wire needs of IAM, and what each deployed role allows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import Any

from faultbridge.local.environment import ACCOUNT, REGION
from tests.e2e.wire import Call
from tests.local.stack import PrivateStack

_TRANSACTED = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}
_ACTIONS = {"s3:ListObjectVersions": "s3:ListBucketVersions", "s3:ListObjects": "s3:ListBucket"}
_ON_ALL = frozenset(
    {
        "autoscaling:DescribeAutoScalingGroups",
        "ec2:DescribeInstances",
        "ec2:DescribeInstanceTopology",
        "ssm:GetCommandInvocation",
        "ssm:ListCommands",
    }
)
"""Calls that cannot be bound to a resource."""

TAG = "faultbridge:stack"


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
    if operator == "ForAllValues:StringLike":
        return all(any(fnmatchcase(one, pattern) for pattern in wanted) for one in given or ())
    raise NotImplementedError(operator)


def _listed(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


@dataclass(frozen=True)
class Needs:
    """Reads calls; the stack is asked for what a call does not say itself."""

    stack: PrivateStack
    _tags: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def of(self, call: Call) -> Iterator[Need]:
        """What the caller's role must allow for a call to succeed."""
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
                yield self._on_table(call, _TRANSACTED[kind], write["TableName"], _partitions(write))
        elif call.operation == "BatchGetItem":
            for table, asked in arguments["RequestItems"].items():
                yield self._on_table(call, call.operation, table, tuple(key["pk"]["S"] for key in asked["Keys"]))
        else:
            table = arguments["TableName"]
            index = f"/index/{arguments['IndexName']}" if "IndexName" in arguments else ""
            yield self._on_table(call, call.operation, f"{table}{index}", _partitions(arguments))

    def _on_table(self, call: Call, operation: str, table: str, partitions: tuple[str, ...]) -> Need:
        context = {"dynamodb:LeadingKeys": partitions}
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
        # A task token belongs to an execution of the only machine there is.
        machine = self.stack.outputs["StateMachineArn"]
        yield Need(
            call.function, call.name, arguments.get("executionArn") or arguments.get("stateMachineArn") or machine
        )

    def _s3(self, call: Call, arguments: Mapping[str, Any]) -> Iterator[Need]:
        bucket = f"arn:aws:s3:::{arguments['Bucket']}"
        action = _ACTIONS.get(call.name, call.name)
        if not arguments["Key"]:
            yield Need(call.function, action, bucket)
            return
        yield Need(call.function, action, f"{bucket}/{arguments['Key']}")
        if call.status == HTTPStatus.NOT_FOUND:
            # Without this right S3 says that it is forbidden, not that it is missing.
            yield Need(call.function, "s3:ListBucket", bucket)

    def _autoscaling(self, call: Call, arguments: Mapping[str, Any]) -> Iterator[Need]:
        # The call names the instance, IAM asks about its group.
        resource = _arn("autoscaling", "autoScalingGroup:its-id:autoScalingGroupName/its-name")
        yield Need(call.function, call.name, resource, {f"aws:ResourceTag/{TAG}": self._tag(arguments["InstanceId"])})

    def _ssm(self, call: Call, arguments: Mapping[str, Any]) -> Iterator[Need]:
        for instance in arguments["InstanceIds"]:
            resource = _arn("ec2", f"instance/{instance}")
            yield Need(call.function, call.name, resource, {f"ssm:resourceTag/{TAG}": self._tag(instance)})
        document = f"arn:aws:ssm:{REGION}::document/{arguments['DocumentName']}"
        yield Need(call.function, call.name, document)

    def _eks(self, call: Call, arguments: Mapping[str, Any]) -> Iterator[Need]:
        yield Need(call.function, call.name, _arn("eks", f"cluster/{arguments['name']}"))

    def _secretsmanager(self, call: Call, arguments: Mapping[str, Any]) -> Iterator[Need]:
        # A reference to a secret is its ARN on AWS and its name here, in the role and in the call alike.
        yield Need(call.function, call.name, arguments["SecretId"])

    def _tag(self, instance: str) -> tuple[str, ...]:
        """The value of an instance's tag, which it has from its group; the emulator remembers those that are gone."""
        if instance not in self._tags:
            found = self.stack.client("ec2").describe_instances(InstanceIds=[instance])
            tags = found["Reservations"][0]["Instances"][0].get("Tags", [])
            self._tags[instance] = tuple(tag["Value"] for tag in tags if tag["Key"] == TAG)
        return self._tags[instance]


def _partitions(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The partition keys that a call names."""
    key = arguments.get("Item") or arguments.get("Key")
    if key is not None:
        return (key["pk"]["S"],)
    values = arguments.get("ExpressionAttributeValues", {})
    return tuple(value["S"] for value in list(values.values())[:1] if "S" in value)


def _arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}"


def described(need: Need) -> str:
    """A need in one line."""
    return f"{need.function}: {need.action} on {need.resource} {json.dumps(need.context)}"
