"""The steps of the smoke test, in order. Each raises SmokeFailed if its check fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from faultbridge.adapters.aws.errors import code_of
from faultbridge.adapters.aws.stack import stack_outputs
from faultbridge.install.cloudformation import Deployer, template_url, upload
from faultbridge.install.packaging import read_packaged
from faultbridge.local.environment import host_architecture
from infra.smoke import fleet
from infra.smoke.plan import TAG
from infra.smoke.run import POLL_SECONDS, Smoke, SmokeFailed, emulated
from infra.smoke.soak import WHEEL, measure, soak

FAULT = b"NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n"


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its name, what its success shows, and its function, which returns one line for the report."""

    name: str
    shows: str
    run: Callable[[Smoke], str]
    only_on_aws: bool = False


def deploy(smoke: Smoke) -> str:
    """Create the bucket for the built functions and deploy the template."""
    account = smoke.clients.sts.get_caller_identity()["Account"]
    bucket = smoke.bucket
    packaged = read_packaged(smoke.packaged)
    upload(smoke.clients.s3, bucket, packaged, account, smoke.region)
    smoke.clients.s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": smoke.tags})
    if smoke.hours:
        smoke.clients.s3.upload_file(str(agent_wheel()), bucket, WHEEL)
    parameters = {
        "PythonRuntime": f"python{packaged.python}",
        "Architecture": host_architecture() if emulated() else "arm64",
        **smoke.parameters,
        "SenderRoles": sender_roles(smoke.clients.sts.get_caller_identity()["Arn"]),
    }
    deployer = Deployer(smoke.clients.cloudformation, smoke.name, lambda _line: None, POLL_SECONDS, smoke.tags)
    found = deployer.deploy(packaged, template_url(smoke.clients.s3, bucket, packaged), bucket, parameters)
    return f"{len(found.outputs)} outputs"


def agent_wheel() -> Path:
    """Return the wheel that `make dist` built; raises SmokeFailed without one."""
    wheels = sorted(Path("dist").glob("faultbridge-*.whl"))
    if not wheels:
        raise SmokeFailed("no wheel with the agent in dist; run `make dist`")
    return wheels[-1]


def sender_roles(arn: str) -> str:
    """Return the value of SenderRoles that lists the caller: its user, or its role with any path."""
    prefix, _, resource = arn.rpartition(":")
    kind, _, rest = resource.partition("/")
    if kind != "assumed-role":
        return arn
    role = f"{prefix.replace(':sts:', ':iam:')}:role"
    name = rest.partition("/")[0]
    return f"{role}/{name},{role}/*/{name}"


def create_fleet(smoke: Smoke) -> str:
    """Create the instances and wait until they can be used."""
    outputs = stack_outputs(smoke.clients, smoke.name)
    smoke.found["role_id"] = fleet.create_role(smoke, outputs)
    fleet.create_group(smoke, outputs)
    ready = smoke.wait_for("the instances are in service and their agents online", lambda: fleet.ready_instances(smoke))
    return " ".join(ready)


def subscribe(smoke: Smoke) -> str:
    """Create the queue of pages."""
    smoke.found["pages"] = fleet.create_page_queue(smoke, stack_outputs(smoke.clients, smoke.name))
    return "both topics"


def register(smoke: Smoke) -> str:
    """Register the cluster with the caller as a trusted sender, and its nodes."""
    role, is_role, _ = smoke.clients.sts.get_caller_identity()["UserId"].partition(":")
    options = [
        "--mode",
        "act",
        "--repair-owner",
        "faultbridge",
        *(["--trusted-sender", f"{role}:*"] if is_role else []),
    ]
    smoke.faultbridge("cluster", "add", smoke.group, *options, "--node-role", smoke.found["role_id"])
    nodes = smoke.faultbridge("node", "import", "--cluster", smoke.group, "--group", smoke.group)
    smoke.found |= {"node": nodes[0]["node"], "instance": nodes[0]["instance_id"]}
    return f"{len(nodes)} nodes"


def forged_event(smoke: Smoke) -> str:
    """Try to publish an event with our source, which the policy of the bus denies to all but the functions."""
    outputs = stack_outputs(smoke.clients, smoke.name)
    entry: Any = {
        "Source": outputs["EventSource"],
        "DetailType": "Smoke",
        "Detail": "{}",
        "EventBusName": outputs["EventBusName"],
    }
    try:
        answer = smoke.clients.events.put_events(Entries=[entry])
    except ClientError as error:
        return _denied(code_of(error))
    return _denied(answer["Entries"][0].get("ErrorCode", "accepted"))


def _denied(code: str) -> str:
    if "AccessDenied" not in code and "NotAuthorized" not in code:
        raise SmokeFailed(f"an event with a forged source was not denied: {code}")
    return code


def send(smoke: Smoke) -> str:
    """Send one fatal fault of the first node."""
    options = ("--source", "kernel-log", "--cluster", smoke.group, "--node", smoke.found["node"])
    sent = smoke.faultbridge("send", *options, "--instance-id", smoke.found["instance"], stdin=FAULT)
    if sent["accepted"] != 1 or not sent["receipted"]:
        raise SmokeFailed(f"the queue did not accept the record: {sent}")
    return smoke.found["node"]


def replacement(smoke: Smoke) -> str:
    """Wait for the end of the case: another, verified instance backs the node."""
    cases = ("case", "list", "--cluster", smoke.group, *(f"--status={status}" for status in ("resolved", "escalated")))
    ended = smoke.wait_for("the case of the node has ended", lambda: smoke.faultbridge(*cases))
    nodes = smoke.faultbridge("node", "list", "--cluster", smoke.group)
    node = next(one for one in nodes if one["node"] == smoke.found["node"])
    smoke.found["case"] = ended[0]["case_id"]
    serves = (node["status"], node["unverified"]) == ("healthy", False)
    if ended[0]["resolution"] != "replaced" or not serves or node["instance_id"] == smoke.found["instance"]:
        raise SmokeFailed(f"not replaced by a verified instance: {json.dumps(ended[0])}")
    return f"{smoke.found['instance']} -> {node['instance_id']}"


def page(smoke: Smoke) -> str:
    """Wait for the page about the case and for its resolve."""
    states: dict[str, str] = {}

    def both() -> bool:
        states.update(
            (page["state"], page["subject"]) for page in _pages(smoke) if page["case_id"] == smoke.found["case"]
        )
        return {"triggered", "resolved"} <= set(states)

    smoke.wait_for("a page about the case and its resolve", both)
    return states["triggered"]


def _pages(smoke: Smoke) -> list[Mapping[str, Any]]:
    """Receive and delete pages."""
    sqs, url = smoke.clients.sqs, smoke.found["pages"]
    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages", [])
    for message in messages:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return [json.loads(message["Body"]) for message in messages]


def audit(smoke: Smoke) -> str:
    """Compare the records sent with those that have an outcome."""
    found = smoke.faultbridge("audit", "--since", "1h", "--wait", "120")
    if found["sent"] != 1 and not (smoke.hours and found["sent"]):
        raise SmokeFailed(f"sent records in the audit: {found['sent']}, not 1")
    return ", ".join(f"{number} {outcome}" for outcome, number in found["outcomes"].items() if number)


def verify(smoke: Smoke) -> str:
    """Check the sequences and hash chains of the cluster."""
    found = smoke.faultbridge("verify", "--cluster", smoke.group)
    return f"{found['entries']} entries"


def cost_tag(smoke: Smoke) -> str:
    """Check the cost tag on what the test created itself, and on the stack."""
    clients, name = smoke.clients, smoke.name
    group = clients.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[smoke.group])["AutoScalingGroups"][
        0
    ]
    mine: Any = [{"Name": f"tag:{TAG}", "Values": [name]}]
    templates = clients.ec2.describe_launch_templates(Filters=mine)["LaunchTemplates"]
    instances = clients.ec2.describe_instances(Filters=mine)["Reservations"]
    account = clients.sts.get_caller_identity()["Account"]
    tagged: dict[str, Any] = {
        "stack": clients.cloudformation.describe_stacks(StackName=name)["Stacks"][0].get("Tags", []),
        "bucket": clients.s3.get_bucket_tagging(Bucket=f"{name}-artifacts-{account}")["TagSet"],
        "role": clients.iam.list_role_tags(RoleName=smoke.role)["Tags"],
        "instance profile": clients.iam.get_instance_profile(InstanceProfileName=smoke.role)["InstanceProfile"]["Tags"],
        "group": group["Tags"],
        "launch template": smoke.tags if templates else [],
        "instances": smoke.tags if instances else [],
        "queue": [
            {"Key": k, "Value": v}
            for k, v in clients.sqs.list_queue_tags(QueueUrl=smoke.found["pages"])["Tags"].items()
        ],
    }
    untagged = [
        what for what, tags in tagged.items() if (TAG, name) not in [(tag["Key"], tag["Value"]) for tag in tags]
    ]
    if untagged:
        raise SmokeFailed(f"without the cost tag: {', '.join(untagged)}")
    return f"{len(tagged)} kinds of resources"


def stack_tags(smoke: Smoke) -> str:
    """Check that CloudFormation added the tag to the resources of the stack that cost most."""
    api: Any = smoke.clients.session.create_client("resourcegroupstaggingapi", region_name=smoke.region)
    pages = api.get_paginator("get_resources").paginate(TagFilters=[{"Key": TAG, "Values": [smoke.name]}])
    arns = [one["ResourceARN"] for result in pages for one in result["ResourceTagMappingList"]]
    missing = [
        kind for kind in ("dynamodb", "s3", "lambda", "sqs", "sns") if not any(f":{kind}:" in arn for arn in arns)
    ]
    if missing:
        raise SmokeFailed(f"no tagged resource of: {', '.join(missing)}")
    return f"{len(arns)} resources"


STEPS = (
    Step("deploy", "the template deploys into a new stack", deploy),
    Step("fleet", "instances start and the agents of Systems Manager register", create_fleet),
    Step("subscribe", "a queue may subscribe to the page topics", subscribe),
    Step("register", "the cluster and the nodes of its group are registered", register),
    Step("forged event", "the policy of the bus denies events with a forged source", forged_event, only_on_aws=True),
    Step("send", "the queue accepts a fault from a listed sender", send),
    Step("replacement", "the instance is replaced by one that passed diagnostics", replacement),
    Step("page", "the page about the repair and its resolve arrive", page),
    Step("audit", "every record that was sent has an outcome", audit),
    Step("verify", "sequences and hash chains are intact", verify),
    Step("cost tag", "everything that the test created has the cost tag", cost_tag),
    Step("stack tags", "the resources of the stack have the cost tag", stack_tags, only_on_aws=True),
)
"""The steps in order."""

SOAK_STEPS = (
    Step("soak", "40 nodes with the agent report for the hours of the run", soak, only_on_aws=True),
    Step("measure", "what the cost of a fleet assumes, as CloudWatch counted it", measure, only_on_aws=True),
)
"""The further steps of a run with hours."""
