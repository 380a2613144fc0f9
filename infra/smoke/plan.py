"""The plan of a smoke test: its resources, its AWS calls, its maximum cost and its maximum duration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from infra.smoke.steps import Step

TAG = "faultbridge:smoke"
"""The cost allocation tag on everything that a run creates; its value is the name of the stack."""

INSTANCE_TYPE: Final = "t4g.nano"
NODES, SOAK_NODES = 2, 40
"""The instances of a run, and of one that lasts hours."""

STEP_SECONDS = 900
CLEANUP_SECONDS = 280
MAX_SECONDS = STEP_SECONDS + CLEANUP_SECONDS

PARAMETERS: Mapping[str, str] = {
    "ArchiveThrough": "objects",  # a delivery stream takes minutes to create and to delete
    "TableDeletionProtection": "false",
    "TablePointInTimeRecovery": "false",
    "VaultDays": "1",
    "LogRetentionDays": "1",
    "CloudEvents": "DISABLED",
    "ProbeSeconds": "5",
    "VerifySeconds": "120",
}

RESOURCES: Mapping[str, str] = {
    "CloudFormation stack NAME": "everything in infra/template.yaml",
    "S3 bucket NAME-artifacts-ACCOUNT": "the built functions",
    "IAM role and instance profile NAME-node": "for the instances: Systems Manager, and records to the queue",
    "EC2 launch template NAME-nodes": f"{INSTANCE_TYPE}, Amazon Linux 2023, a script instead of dcgmi",
    "Auto Scaling group NAME-nodes": "NODES instances in the default subnets, and one successor",
    "SQS queue NAME-pages": "subscribed to both page topics",
}

_CALLS = """
autoscaling:CreateAutoScalingGroup autoscaling:DeleteAutoScalingGroup autoscaling:DescribeAutoScalingGroups
cloudformation:CreateChangeSet cloudformation:DeleteChangeSet cloudformation:DeleteStack
cloudformation:DescribeChangeSet cloudformation:DescribeStackEvents cloudformation:DescribeStacks
cloudformation:ExecuteChangeSet cloudwatch:GetMetricStatistics dynamodb:DeleteTable dynamodb:ListTables
ec2:CreateLaunchTemplate ec2:DeleteLaunchTemplate ec2:DescribeInstanceTypeOfferings ec2:DescribeInstances
ec2:DescribeLaunchTemplates ec2:DescribeSubnets ec2:TerminateInstances events:PutEvents
iam:AddRoleToInstanceProfile iam:AttachRolePolicy iam:CreateInstanceProfile iam:CreateRole iam:DeleteInstanceProfile
iam:DeleteRole iam:DeleteRolePolicy iam:DetachRolePolicy iam:GetInstanceProfile iam:GetRole
iam:ListAttachedRolePolicies iam:ListRolePolicies iam:ListRoleTags iam:PutRolePolicy
iam:RemoveRoleFromInstanceProfile logs:DeleteLogGroup logs:DescribeLogGroups
resource-groups-tagging-api:GetResources s3:CreateBucket s3:DeleteBucket s3:DeleteObjects s3:GetBucketTagging
s3:HeadBucket s3:HeadObject s3:ListBuckets s3:ListObjectVersions s3:PutBucketTagging
s3:PutObject s3:PutPublicAccessBlock sns:Subscribe sqs:CreateQueue sqs:DeleteMessage
sqs:DeleteQueue sqs:GetQueueAttributes sqs:GetQueueUrl sqs:ListQueueTags sqs:ReceiveMessage
sqs:SetQueueAttributes ssm:DescribeInstanceInformation ssm:GetParameter sts:GetCallerIdentity
"""
CALLS = tuple(_CALLS.split())
"""The calls of the test itself; the `faultbridge` commands make their own."""


@dataclass(frozen=True, slots=True)
class Charge:
    """One line of the cost bound: `quantity` units at `price` USD each."""

    name: str
    quantity: float
    price: float

    @property
    def usd(self) -> float:
        """Return the cost in USD: the quantity times the price."""
        return self.quantity * self.price


MONTH_HOURS = 730
CHARGES = (  # list prices of us-east-1; each is billed by the second, or here as one full hour
    Charge("hours of t4g.nano (two nodes, up to two successors)", 4, 0.0042),
    Charge("hours of a public IPv4 address", 4, 0.005),
    Charge("hours of 8 GB gp3", 4 * 8, 0.08 / MONTH_HOURS),
    Charge("hours of an alarm", 30, 0.10 / MONTH_HOURS),
    Charge("hours of a custom metric", 200, 0.30 / MONTH_HOURS),
    Charge("hours of a dashboard", 1, 3.0 / MONTH_HOURS),
    Charge("table write units", 20_000, 6.25e-7),
    Charge("table read units", 50_000, 1.25e-7),
    Charge("invocations of 0.5 GB for 1 s", 3_000, 2e-7 + 0.5 * 1.66667e-5),
    Charge("state transitions", 500, 2.5e-5),
    Charge("requests to SQS, SNS, S3 and EventBridge", 30_000, 5e-6),
    Charge("GB of logs", 0.1, 0.50),
)


def nodes_of(hours: float) -> int:
    """Return the number of instances of a run that keeps a fleet for so many hours."""
    return SOAK_NODES if hours else NODES


def charges(hours: float = 0) -> tuple[Charge, ...]:
    """Return the lines of the cost bound; `hours` is how long a fleet with agents runs after the test."""
    if not hours:
        return CHARGES
    each = (hours + 1) * (SOAK_NODES + 1)
    messages = 4 * SOAK_NODES * 60 * (hours + 1)  # a node sends at most one message in 30 s, and each is billed thrice
    fixed = tuple(replace(one, quantity=one.quantity * (hours + 1)) for one in CHARGES if "hours of a" in one.name)
    return (
        *(one for one in fixed if "IPv4" not in one.name),
        *(one for one in CHARGES if "hours of" not in one.name),
        Charge("hours of t4g.nano", each, 0.0042),
        Charge("hours of a public IPv4 address", each, 0.005),
        Charge("hours of 8 GB gp3", each * 8, 0.08 / MONTH_HOURS),
        Charge("requests of the agents to SQS", 3 * messages, 4e-7),
        Charge("units of the table for them", 6 * messages, 6.25e-7),
        Charge("invocations of 1 GB for 0.2 s for them", messages, 2e-7 + 0.2 * 1.33334e-5),
    )


def cost_bound(hours: float = 0) -> float:
    """Return the cost of a run in USD, at most, without free tiers."""
    return sum(charge.usd for charge in charges(hours))


def plan_lines(
    name: str, parameters: Mapping[str, str], steps: tuple[Step, ...], hours: float = 0, *, emulated: bool
) -> Iterator[str]:
    """Yield the lines of the plan."""
    nodes = str(nodes_of(hours))
    yield f"Smoke test of Faultbridge in the stack {name}{' on emulators' if emulated else ''}"
    yield "\nIt creates, tags with " + f"{TAG}={name}, and removes:"
    yield from (f"  {what.replace('NAME', name)}: {why.replace('NODES', nodes)}" for what, why in RESOURCES.items())
    yield "\nParameters: " + " ".join(f"{key}={value}" for key, value in parameters.items())
    yield "\nSteps:"
    yield from (f"  {step.name:<13}{step.shows}{' (only on AWS)' if step.only_on_aws else ''}" for step in steps)
    yield "  cleanup      removes everything that was created, also after a failure"
    yield "\nOnly on AWS: denials by IAM and resource policies, the agent of Systems Manager, the scripted dcgmi, the"
    yield "tags that CloudFormation adds to resources of the stack."
    yield "\nCalls besides those of `sam deploy` and `faultbridge`; the role of the instances also needs iam:PassRole:"
    yield "  " + " ".join(CALLS)
    yield f"\nCost: at most {cost_bound(hours):.2f} USD:"
    yield from (f"  {charge.usd:8.4f}  {charge.quantity:g} {charge.name}" for charge in charges(hours))
    yield f"Time: at most {MAX_SECONDS / 60:.1f} minutes: {STEP_SECONDS} s for the steps, {CLEANUP_SECONDS} s to remove"
    if hours:
        yield f"and {hours:g} hours in which {nodes} nodes run the agent"
