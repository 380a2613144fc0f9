"""`faultbridge deploy` and `faultbridge destroy`: create, update and remove an installation on AWS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct, field

from faultbridge.cli.commands.options import YesOption, confirm
from faultbridge.cli.declare import BadParameter, Option, Text, Texts, command
from faultbridge.cli.render.output import Columns, fields, notice
from faultbridge.cli.stack.locate import chosen_embedded_stack
from faultbridge.cli.stack.session import Session, StackSession
from faultbridge.install import cloudformation
from faultbridge.install.cloudformation import Deployer, FoundStack
from faultbridge.install.packaging import BUCKET_PARAMETER, Packaged, read_packaged, require_running_code
from faultbridge.model.enums import CaseStatus
from faultbridge.model.errors import FaultbridgeError, Misconfigured, Rejected
from faultbridge.model.names import did_you_mean

if TYPE_CHECKING:
    from faultbridge.adapters.aws.clients import Clients

_MEGABYTE = 1_000_000
SET_BY_DEPLOY = (BUCKET_PARAMETER, "PythonRuntime")
RETAINED: Mapping[str, str] = {
    "Table": "nodes, cases and entries: the record of what was done",
    "RawBucket": "raw records, log bundles and output of verifications",
    "ArchiveBucket": "all entries by cluster and day",
    "VaultBucket": "locked anchors and manifests, which prove that the record was not changed",
}
"""What each resource contains that stays after the removal. A test compares the names with the template."""

DEPLOYED: Columns = fields("Stack, Account, Region, Result, API=api, Next")
PLAN: Columns = fields("Account, Region, Stack, Action, Bucket, Upload, Resources, Parameters") | {
    "Parameters": lambda one: "\n".join(f"{name}={value}" for name, value in one.parameters.items())
}
STAYS: Columns = fields("RESOURCE, NAME, WHY, TO DELETE IT=command")


class Plan(Struct, frozen=True, kw_only=True):
    """What a deployment will do."""

    account: str
    region: str
    stack: str
    action: str
    bucket: str
    upload: str
    resources: str
    parameters: dict[str, str] = field(default_factory=dict)


class Staying(Struct, frozen=True):
    """A resource that a removal keeps."""

    resource: str
    name: str
    why: str
    command: str


@command(
    "deploy",
    "--region us-west-2",
    "--set ConsoleUrl=https://faults.example.com \\",
    "    --set VaultMode=GOVERNANCE",
    "--plan",
)
def deploy(
    session: StackSession,
    given: Annotated[Texts, Option("--set NAME=VALUE", "Set a parameter; others keep their value. Repeatable.")] = None,
    bucket: Annotated[Text, Option("NAME", "Bucket for the archives. Default: one per account and region.")] = None,
    only_plan: Annotated[bool, Option("--plan", "Print the plan and change nothing.")] = False,
    yes: YesOption = False,
) -> None:
    """Create or update an installation on AWS: upload the archives of this version, and deploy its template.

    The command prints its plan and asks once. An interrupted command can be repeated: it continues.
    """
    packaged = read_packaged()
    require_running_code(packaged)
    stack = session.target.stack
    if len(stack) > cloudformation.MAX_STACK_NAME:
        raise BadParameter(f"invalid --stack: {stack!r}; at most {cloudformation.MAX_STACK_NAME} characters")
    chosen, clients = _parameters(packaged, given or ()), _aws_clients(session)
    account, region = clients.sts.get_caller_identity()["Account"], str(clients.region)
    place = bucket or f"faultbridge-artifacts-{account}-{region}"
    parameters = {**chosen, "PythonRuntime": f"python{packaged.python}"}
    found = cloudformation.find_stack(clients.cloudformation, stack)
    plan = Plan(
        account=account,
        region=region,
        stack=stack,
        action=_action(found),
        bucket=place if cloudformation.has_bucket(clients.s3, place, account) else f"{place} (will be created)",
        upload=_upload(clients, place, packaged, account),
        resources=_resources(clients, stack, found, packaged),
        parameters=parameters,
    )
    if only_plan:
        session.show_one(plan, PLAN)
        return
    if not yes:
        for title, value in PLAN.items():
            notice(f"{title.lower()}: {str(value(plan)).replace(chr(10), ', ')}")
    confirm(f"this changes the account {account}, as listed", yes=yes)
    cloudformation.upload(clients.s3, place, packaged, account, region)
    url = cloudformation.template_url(clients.s3, place, packaged)
    deployed = Deployer(clients.cloudformation, stack, notice).deploy(packaged, url, place, parameters)
    session.show_one(_result(plan, deployed, found), DEPLOYED)


def _aws_clients(session: Session) -> Clients:
    """Return the clients of an account and a region; a running embedded stack of the name is a usage error."""
    if chosen_embedded_stack(session.target) is not None:
        name = session.target.stack
        raise BadParameter(
            f"{name} is an embedded stack; give --region or --profile for AWS, or run `faultbridge down`"
        )
    if session.clients.region is None:
        raise Misconfigured("no AWS region is set; set AWS_REGION, or give --region REGION")
    return session.clients


def _parameters(packaged: Packaged, given: Sequence[str]) -> dict[str, str]:
    """Return the parameters of `--set`; an unknown name or one that this command sets is a usage error."""
    known = [name for name in packaged.template["Parameters"] if name not in SET_BY_DEPLOY]
    chosen: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or name not in known:
            raise BadParameter(f"invalid --set: {one!r}; give NAME=VALUE{did_you_mean(name, known)}")
        chosen[name] = value
    return chosen


def _action(found: FoundStack | None) -> str:
    if found is None or not (found.exists or found.in_progress or found.was_never_created):
        return "create the stack"
    if found.was_never_created:
        return f"delete the stack, whose creation failed ({found.status}), and create it"
    return f"wait for {found.status}, then update the stack" if found.in_progress else "update the stack"


def _upload(clients: Clients, bucket: str, packaged: Packaged, account: str) -> str:
    missing = cloudformation.missing_artifacts(clients.s3, bucket, packaged, account)
    size = sum(len(one.content) for one in missing) / _MEGABYTE
    return f"{len(missing)} files, {size:.1f} MB" if missing else "nothing: the bucket has every file"


def _resources(clients: Clients, stack: str, found: FoundStack | None, packaged: Packaged) -> str:
    """Return how many resources of the template are new, different or gone, compared with the deployed template."""
    new: dict[str, Any] = packaged.template["Resources"]
    old: Any = {}
    if found is not None and found.exists:
        answer: Any = clients.cloudformation.get_template(StackName=stack, TemplateStage="Original")
        body = answer["TemplateBody"]
        # SAM and this command deploy other texts of the same template: only JSON of this command can be compared.
        old = body.get("Resources", {}) if isinstance(body, dict) else {}
        if not old:
            return f"{len(new)} in the template; CloudFormation changes those that differ"
    changed = sum(1 for name in new if name in old and new[name] != old[name])
    counts = {"added": len(new.keys() - old.keys()), "changed": changed, "removed": len(old.keys() - new.keys())}
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "none differs"


def _result(plan: Plan, deployed: FoundStack, before: FoundStack | None) -> dict[str, Any]:
    created = before is None or not before.exists
    return {
        "stack": plan.stack,
        "account": plan.account,
        "region": plan.region,
        "result": "created" if created else "up to date",
        "api": deployed.outputs.get("ApiUrl"),
        "outputs": dict(deployed.outputs),
        "next": f"faultbridge connect --help; faultbridge doctor --stack {plan.stack}",
    }


@command("destroy", "--stack faultbridge --region us-west-2")
def destroy(
    session: StackSession,
    only_plan: Annotated[bool, Option("--plan", "Print what stays and change nothing.")] = False,
    yes: YesOption = False,
) -> None:
    """Remove an installation from AWS. The record stays: the command lists what it keeps, why, and how to delete it.

    Refused while a repair is running, because it would be left half done.
    """
    clients, stack = _aws_clients(session), session.target.stack
    found = cloudformation.find_stack(clients.cloudformation, stack)
    if found is None:
        raise Misconfigured(f"stack not found: {stack!r}; check the account, region and stack name")
    staying = _staying(clients, stack)
    if only_plan:
        session.show(staying, STAYS)
        return
    if found.exists:
        _require_no_repair(session)
    for one in staying:
        notice(f"stays: {one.resource} {one.name}: {one.why}")
    confirm(f"this deletes the {session.place} and everything in it but the {len(staying)} resources above", yes=yes)
    Deployer(clients.cloudformation, stack, notice).delete()
    session.show(staying, STAYS)


def _require_no_repair(session: Session) -> None:
    try:
        names = session.cluster_names()
        running = [one.case.id for name in names for one in session.directory.cases(name, (CaseStatus.IN_PROGRESS,))]
    except FaultbridgeError as error:
        notice(f"the cases cannot be read, so a repair may be running: {error}")
        return
    if running:
        shown = ", ".join(running[:3])
        raise Rejected(
            "repair_running", f"{len(running)} repairs are running: {shown}; first `faultbridge pause --all`, then wait"
        )


def _staying(clients: Clients, stack: str) -> list[Staying]:
    pages = clients.cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack)
    found = [one for page in pages for one in page["StackResourceSummaries"] if one["LogicalResourceId"] in RETAINED]
    named = ((one["LogicalResourceId"], one["ResourceType"], one.get("PhysicalResourceId", "")) for one in found)
    return [Staying(logical, name, RETAINED[logical], _deletion(kind, name)) for logical, kind, name in named if name]


def _deletion(kind: str, name: str) -> str:
    if kind == "AWS::DynamoDB::Table":
        return (
            f"aws dynamodb update-table --table-name {name} --no-deletion-protection-enabled; "
            f"aws dynamodb delete-table --table-name {name}"
        )
    return f"empty all versions in the S3 console; aws s3 rb s3://{name}"
