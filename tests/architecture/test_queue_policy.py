"""Who may send raw records: the policies of the queue and of the bucket, evaluated for each kind of sender.

The evaluator supports only the condition operators of these policies. Keys and operators follow the IAM user guide: a
negated operator matches when its key is absent, and `Null` tests for the absence of a key.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest

from infra.docs.template import template

NODE_ROLE = "arn:aws:iam::111122223333:role/gpu-nodes"
INSTANCE = "arn:aws:ec2:us-west-2:111122223333:instance/i-0123456789abcdef0"
LISTED = "arn:aws:iam::111122223333:role/collectors-*"
ARNS = {
    "IntakeRole.Arn": "arn:aws:iam::111122223333:role/intake",
    "SweepRole.Arn": "arn:aws:iam::111122223333:role/sweep",
}
REFERENCES = {"OrganizationId": "o-1", "AWS::AccountId": "111122223333"}


def denies(context: dict[str, str], *, listed: str | None = LISTED) -> bool:
    """Return whether a statement of the policy denies `sqs:SendMessage` to a request with these condition keys."""
    statements = template()["Resources"]["QueuePolicy"]["Properties"]["PolicyDocument"]["Statement"]
    proof = [one["Fn::If"][1] for one in statements if one.get("Fn::If", [""])[0] == "ProvesSenders"]
    assert {(one["Effect"], one["Action"]) for one in proof} == {("Deny", "sqs:SendMessage")}
    return any(
        all(
            matches(operator, context.get(key), wanted if operator != "ArnNotLike" else roles(wanted, listed))
            for operator, keys in statement["Condition"].items()
            for key, wanted in keys.items()
        )
        for statement in proof
    )


def roles(split: dict[str, Any], listed: str | None) -> list[str]:
    """Return the ARNs that the functions of the template give; `listed` is the parameter SenderRoles."""
    _, parts = split["Fn::Split"][1]["Fn::Join"]
    *fixed, condition = parts
    last = listed if listed is not None else ARNS[condition["Fn::If"][2]["Fn::GetAtt"]]
    return ",".join([*(ARNS[one["Fn::GetAtt"]] for one in fixed), last]).split(",")


def matches(operator: str, given: str | None, wanted: Any) -> bool:
    match operator:
        case "Null":
            return (given is None) == (wanted == "true")
        case "Bool":
            return given == wanted
        case "StringLike":
            return given is not None and any(fnmatchcase(given, pattern) for pattern in wanted)
        case "StringEquals":
            return given == REFERENCES[wanted["Ref"]]
        case "StringNotEquals":
            return given != REFERENCES[wanted["Ref"]]
        case "ArnNotLike":
            return given is None or not any(fnmatchcase(given, pattern) for pattern in wanted)
    raise NotImplementedError(operator)


VICTIM = "i-0123456789abcdef0"
COLLECTOR = "arn:aws:iam::111122223333:role/collectors-dcgm"
WAYS: dict[str, dict[str, str]] = {
    "AssumeRole": {},
    "AssumeRoleWithWebIdentity": {"aws:FederatedProvider": "arn:aws:iam::111122223333:oidc-provider/oidc.eks/id/A1"},
    "PodIdentity": {"aws:PrincipalTag/kubernetes-service-account": "agent", "aws:PrincipalTag/eks-cluster-name": "a"},
    "HyperPod": {},
}
"""The condition keys that each way of getting credentials of a role adds to a request."""

SESSIONS = {
    "AssumeRole": "dcgm",
    "AssumeRoleWithWebIdentity": "botocore-session-1763800000",
    "PodIdentity": "eks-train-a-agent-0b1c2d3e-0000",
    "HyperPod": "SageMaker",
}
"""The session names that the AWS SDK, EKS and HyperPod give; with the first two ways the caller may choose another."""


def request(role: str, *, instance: str | None = None, session: str = "s", way: str = "AssumeRole") -> dict[str, str]:
    known = {"aws:PrincipalArn": role, "aws:PrincipalIsAWSService": "false", "aws:userid": f"AROAEXAMPLE:{session}"}
    return known | WAYS[way] | ({"ec2:SourceInstanceARN": instance} if instance else {})


def test_credentials_that_ec2_gave_to_an_instance_may_send() -> None:
    assert not denies(request(NODE_ROLE, instance=INSTANCE, session=VICTIM))


@pytest.mark.parametrize("session", [VICTIM, "mi-0123456789abcdef0", "anything"])
@pytest.mark.parametrize("way", WAYS)
def test_a_forged_session_of_a_node_role_may_not_send_whatever_its_name_is(way: str, session: str) -> None:
    assert denies(request(NODE_ROLE, way=way, session=session))
    assert denies(request(NODE_ROLE, way=way, session=session), listed=None)


def test_a_user_may_not_send() -> None:
    assert denies(request("arn:aws:iam::111122223333:user/mallory") | {"aws:userid": "AIDAEXAMPLE"})


@pytest.mark.parametrize("way", WAYS)
def test_a_listed_role_may_send_without_an_instance(way: str) -> None:
    collector = request(COLLECTOR, way=way, session=SESSIONS[way])
    assert not denies(collector)
    assert denies(collector, listed=None)


@pytest.mark.parametrize("session", [VICTIM, "mi-0123456789abcdef0"])
@pytest.mark.parametrize("way", WAYS)
def test_not_even_a_listed_role_may_name_its_session_like_an_instance(way: str, session: str) -> None:
    assert denies(request(COLLECTOR, way=way, session=session))


@pytest.mark.parametrize("role", sorted(ARNS.values()))
def test_the_functions_that_send_records_may_send(role: str) -> None:
    assert not denies(request(role))


def test_the_statement_applies_exactly_when_senders_are_proven() -> None:
    conditions = template()["Conditions"]
    assert conditions["ProvesSenders"] == {"Fn::Equals": [{"Ref": "SenderProof"}, "required"]}
    assert template()["Parameters"]["SenderProof"]["Default"] == "required"


REDRIVER = "arn:aws:iam::111122223333:role/redriver"
BY_EVENTBRIDGE = {"aws:PrincipalIsAWSService": "true"}


def fed_queue_denies(policy: str, context: dict[str, str], *, redriver: str = "") -> bool:
    """Return whether a queue that rules feed denies `sqs:SendMessage` over TLS to a request with these condition keys.

    `redriver` is the parameter RedriveRole.
    """
    secure = context | {"aws:SecureTransport": "true"}
    statements = template()["Resources"][policy]["Properties"]["PolicyDocument"]["Statement"]
    denials = [one for one in statements if one["Effect"] == "Deny"]
    assert {(one["Principal"], one["Action"]) for one in denials} == {("*", "sqs:SendMessage"), ("*", "sqs:*")}
    return any(
        all(
            matches(operator, secure.get(key), redrivers(wanted, redriver) if key == "aws:PrincipalArn" else wanted)
            for operator, keys in statement["Condition"].items()
            for key, wanted in keys.items()
        )
        for statement in denials
    )


def redrivers(chosen: dict[str, Any], redriver: str) -> list[str]:
    """Return the ARNs that the function of the template gives; without a parameter, the ARN belongs to no role."""
    condition, given, default = chosen["Fn::If"]
    assert (condition, given) == ("HasRedriver", {"Ref": "RedriveRole"})
    return [redriver or default["Fn::Sub"].replace("${AWS::Partition}", "aws")]


@pytest.mark.parametrize("policy", ["CloudEventsQueuePolicy", "InventoryEventsQueuePolicy", "PagesQueuePolicy"])
def test_only_eventbridge_may_send_to_the_queues_that_its_rules_feed(policy: str) -> None:
    assert not fed_queue_denies(policy, BY_EVENTBRIDGE)
    assert fed_queue_denies(policy, request(COLLECTOR))
    assert fed_queue_denies(policy, request(NODE_ROLE, instance=INSTANCE))


def test_only_the_role_that_redrives_may_send_to_the_queue_of_cloud_events_too() -> None:
    assert not fed_queue_denies("CloudEventsQueuePolicy", request(REDRIVER), redriver=REDRIVER)
    assert fed_queue_denies("CloudEventsQueuePolicy", request(COLLECTOR), redriver=REDRIVER)
    assert fed_queue_denies("CloudEventsQueuePolicy", request(REDRIVER))
    assert fed_queue_denies("PagesQueuePolicy", request(REDRIVER), redriver=REDRIVER)
    assert not fed_queue_denies("CloudEventsQueuePolicy", BY_EVENTBRIDGE, redriver=REDRIVER)


def bucket_statement() -> dict[str, Any]:
    """Return the statement of the bucket policy that applies only with an organization."""
    statements = template()["Resources"]["RawBucketPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    (of_organization,) = (one["Fn::If"] for one in statements if "Fn::If" in one)
    assert of_organization[0] == "HasOrganization"
    assert of_organization[2] == {"Ref": "AWS::NoValue"}
    statement: dict[str, Any] = of_organization[1]
    return statement


def test_other_accounts_may_only_write_bodies_of_records_and_output_of_diagnostics() -> None:
    statement = bucket_statement()
    assert (statement["Effect"], statement["Action"]) == ("Allow", "s3:PutObject")
    resources = [one["Fn::Sub"] for one in statement["Resource"]]
    assert resources == ["${RawBucket.Arn}/raw/*", "${RawBucket.Arn}/verify/*"]


@pytest.mark.parametrize(
    ("organization", "account", "instance", "allowed"),
    [
        ("o-1", "444455556666", "arn:aws:ec2:us-east-1:444455556666:instance/i-1", True),
        ("o-1", "444455556666", None, False),
        ("o-2", "444455556666", "arn:aws:ec2:us-east-1:444455556666:instance/i-1", False),
        (None, "444455556666", "arn:aws:ec2:us-east-1:444455556666:instance/i-1", False),
        ("o-1", "111122223333", "arn:aws:ec2:us-east-1:111122223333:instance/i-1", False),
    ],
    ids=["another account", "no instance", "another organization", "no organization", "this account"],
)
def test_the_bucket_policy_allows_only_instances_of_other_accounts_of_the_organization(
    organization: str | None, account: str, instance: str | None, *, allowed: bool
) -> None:
    context = {
        "aws:PrincipalOrgID": organization,
        "aws:PrincipalAccount": account,
        "ec2:SourceInstanceARN": instance,
    }
    conditions = bucket_statement()["Condition"].items()
    found = all(
        matches(operator, context[key], wanted) for operator, keys in conditions for key, wanted in keys.items()
    )
    assert found == allowed
