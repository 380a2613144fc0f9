"""Build the template and deploy it into the embedded stack, if deployed files or parameters changed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from faultbridge.local import clients
from faultbridge.local.environment import endpoint, host_architecture, host_python, tool_environment
from faultbridge.local.stack import files
from faultbridge.local.stack.files import TEMPLATE, StackFolder, StackState, project_root
from faultbridge.model.errors import Misconfigured, Transient

# The template's state machines are written in YAML; this script converts them to the deployed JSON.
STATE_MACHINES = Path("infra") / "build_state_machine.py"

# A failure of SAM is explained on lines that contain one of these texts.
_ERROR_TEXTS = ("Error:", "CREATE_FAILED", "UPDATE_FAILED", "Failed to")


def executable() -> str:
    """Return the path of `sam`, beside this Python or on `PATH`; raises `Misconfigured` without it."""
    beside = Path(sys.executable).with_name("sam")
    found = str(beside) if beside.exists() else shutil.which("sam")
    if found is None:
        raise Misconfigured("SAM CLI is not installed; run `make setup`")
    return found


def run(arguments: Sequence[str], *, project: Path, environment: Mapping[str, str], log: Path) -> None:
    """Run a SAM command and log its output; raises `Transient` with the error line if the command fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    path = f"{Path(sys.executable).parent}:{environment.get('PATH', '')}"
    with log.open("w") as output:
        ended = subprocess.run(
            [executable(), *arguments],
            cwd=project,
            env={**environment, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if ended.returncode != 0:
        raise Transient(f"`sam {arguments[0]}` failed: {error_line(log)}; see {log}")


def write_state_machines(project: Path) -> None:
    """Convert a project's state machines from YAML to JSON; raises `Misconfigured` for an invalid one."""
    if not (project / STATE_MACHINES).exists():
        return
    command = [sys.executable, str(project / STATE_MACHINES)]
    ended = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        reason = (ended.stderr.strip() or "no error output").splitlines()[-1]
        raise Misconfigured(f"invalid state machine: {reason}; run `make machines`")


def error_line(log: Path) -> str:
    """Return the last line of a log that shows an error, else the last line, or `no output`."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if any(text in line for text in _ERROR_TEXTS)]
    return (errors or lines or ["no output"])[-1]


class _Loader(yaml.SafeLoader):
    """A YAML loader that accepts short CloudFormation intrinsic functions such as `!Ref`."""


def _intrinsic(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
        return {name: value.split(".", 1) if suffix == "GetAtt" else value}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    if isinstance(node, yaml.MappingNode):
        return {name: loader.construct_mapping(node, deep=True)}
    raise yaml.constructor.ConstructorError(None, None, f"unknown kind of value after !{suffix}", node.start_mark)


_Loader.add_multi_constructor("!", _intrinsic)


def read_template(path: Path) -> dict[str, Any]:
    """Return a CloudFormation template as plain data, with `!Ref` and similar in their long form."""
    document = yaml.load(path.read_text(), Loader=_Loader)  # noqa: S506 - a SafeLoader with intrinsics
    return document if isinstance(document, dict) else {}


def resources(template: dict[str, Any], *types: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the logical id and the properties of each resource of the given types in a template."""
    for logical_id, resource in template.get("Resources", {}).items():
        if resource.get("Type") in types:
            yield logical_id, resource.get("Properties", {})


# The emulated CloudFormation reports success even if it ignores a setting. This check finds missing dead-letter queues,
# tables without expiry of items, and functions that do not start. Without the check, a missing dead-letter queue is
# noticed only at the first bad record.

_FUNCTION = ("AWS::Lambda::Function", "AWS::Serverless::Function")

Template = dict[str, Any]


def check(state: StackState, template: Template) -> None:
    """Raise `Misconfigured` for the first missing queue policy or expiry, or function that cannot start."""
    types = {resource["Type"] for resource in template.get("Resources", {}).values()}
    physical_ids = dict(clients.resources(state, *types))
    differences = [
        *_queues(state, template, physical_ids),
        *_tables(state, template, physical_ids),
        *_subscriptions(state, template, physical_ids),
        *_functions(state),
    ]
    if differences:
        more = f", and {len(differences) - 1} more" if len(differences) > 1 else ""
        raise Misconfigured(
            f"the deployed stack differs from the template: {differences[0]}{more}; fix the template or local/gaps"
        )


def _queues(state: StackState, template: Template, physical_ids: dict[str, str]) -> Iterator[str]:
    sqs = clients.stack_client("sqs", state)
    for logical_id, properties in resources(template, "AWS::SQS::Queue"):
        if "RedrivePolicy" in properties and logical_id in physical_ids:
            url = physical_ids[logical_id]
            found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
            policy = clients.json_attribute(found.get("RedrivePolicy", ""))
            if "deadLetterTargetArn" not in policy:
                yield f"{logical_id} has no dead-letter queue"


def _tables(state: StackState, template: Template, physical_ids: dict[str, str]) -> Iterator[str]:
    dynamodb = clients.stack_client("dynamodb", state)
    for logical_id, properties in resources(template, "AWS::DynamoDB::Table"):
        wanted = properties.get("TimeToLiveSpecification", {}).get("AttributeName")
        if wanted and logical_id in physical_ids:
            found = dynamodb.describe_time_to_live(TableName=physical_ids[logical_id])["TimeToLiveDescription"]
            name = found.get("AttributeName")
            # A name from a template parameter cannot be compared here; only its presence is checked.
            if not name or (isinstance(wanted, str) and name != wanted):
                yield f"{logical_id} does not expire items by {wanted}"


def _subscriptions(state: StackState, template: Template, physical_ids: dict[str, str]) -> Iterator[str]:
    sns = clients.stack_client("sns", state)
    for logical_id, properties in resources(template, "AWS::SNS::Subscription"):
        if "RedrivePolicy" in properties and logical_id in physical_ids:
            found = sns.get_subscription_attributes(SubscriptionArn=physical_ids[logical_id])["Attributes"]
            if not found.get("RedrivePolicy"):
                yield f"{logical_id} has no dead-letter queue"


def _functions(state: StackState) -> Iterator[str]:
    """Start every function, which stays ready, and yield a line of text for each that fails."""
    names = [name for _, name in clients.resources(state, *_FUNCTION)]
    with ThreadPoolExecutor(max_workers=4) as pool:
        for name, error in zip(names, pool.map(lambda name: _start_worker(state, name), names), strict=True):
            if error:
                yield f"{name} cannot be started: {error}"


def _start_worker(state: StackState, name: str) -> str:
    event_plane = next(one for one in state.emulators if one.name == "event-plane")
    url = f"{event_plane.endpoint}/_faultbridge/warm"
    return str(clients.http_call(url, {"function": name}, timeout=60.0)["error"])


# Differences from AWS: probes are frequent enough to watch, and nothing blocks `down`.
# A killed worker's records return after the visibility time. One poller reads each queue, so a short time is safe.
PARAMETERS = {
    "ProbeSeconds": "1",
    "IngestTimeoutSeconds": "20",
    "RawRecordsVisibilitySeconds": "20",
    "ArchiveThrough": "objects",
    # A demonstration breaks more nodes an hour than the default page limit allows.
    "MaxPagesPerHour": "1000",
    # The emulator reports its own account as the sender of every message.
    "SenderProof": "off",
    "WebhookSenders": "faultbridge-webhook-senders",
    "JobCallbacks": "faultbridge-job-callbacks",
    "TableDeletionProtection": "false",
    "TablePointInTimeRecovery": "false",
}
SECRETS = ("WebhookSenders", "JobCallbacks")
"""The parameters that name a secret, which exists before the first deployment."""

JOB_TOPIC = "faultbridge-jobs"
"""The topic of jobs that may resume, which exists before the first deployment."""

ARTIFACTS = "faultbridge-artifacts"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Deployment:
    """The project, template and parameters of a deployment; undeclared parameters are ignored."""

    project: Path
    template: Path
    parameters: Mapping[str, str] = field(default_factory=lambda: dict(PARAMETERS))

    @classmethod
    def of_project(cls, **parameters: str) -> Deployment:
        """Return the deployment of Faultbridge's own template; `parameters` override the default parameters."""
        project = project_root()
        return cls(project=project, template=project / TEMPLATE, parameters={**PARAMETERS, **parameters})

    def declared_parameters(self, defaults: Mapping[str, str]) -> dict[str, str]:
        """Return `defaults`, overridden by the parameters, as far as the template declares them."""
        declared = read_template(self.template).get("Parameters", {})
        return {name: value for name, value in {**defaults, **self.parameters}.items() if name in declared}

    def fingerprint(self) -> str:
        """Return a hash of the deployed files and the parameters; a changed hash requires a new deployment."""
        return files.of_deployment(self.project, dict(self.parameters))


def bring_up_to_date(folder: StackFolder, state: StackState, wanted: Deployment, progress: Progress) -> StackState:
    """Build and deploy if files or parameters changed, and return the state of the latest deployment."""
    current = wanted.fingerprint()
    if state.deployed == current:
        progress("nothing changed since the last deployment")
        return state
    built = build(folder, state, wanted, progress)
    deploy(folder, state, wanted, progress)
    progress("comparing the deployed resources with the template")
    check(state, read_template(built))
    return state.with_deployment(current, clients.outputs(state))


def build(folder: StackFolder, state: StackState, wanted: Deployment, progress: Progress) -> Path:
    """Run `sam build`, unless the last build is up to date; return the path of the built template."""
    built, marker = folder.build / "template.yaml", folder.root / "built"
    current = wanted.fingerprint()
    if built.exists() and marker.exists() and marker.read_text() == current:
        progress("skipping the build: it is up to date")
        return built
    progress("building the functions and their layer (sam build)")
    marker.unlink(missing_ok=True)
    # Without the option, SAM reads the file beside the template.
    settings = wanted.project / "samconfig.toml"
    config = ["--config-file", str(settings)] if settings.exists() else []
    write_state_machines(wanted.project)
    run(
        ["build", "--template", str(wanted.template), "--build-dir", str(folder.build), *config],
        project=wanted.project,
        environment=tool_environment(state.ports, folder),
        log=folder.log("sam-build"),
    )
    marker.write_text(current)
    return built


def deploy(folder: StackFolder, state: StackState, wanted: Deployment, progress: Progress) -> None:
    """Run `sam deploy` with the built template, without the project's settings, which are for AWS."""
    progress("deploying (sam deploy)")
    clients.ensure_bucket(state, ARTIFACTS)
    own = {
        "ConsoleUrl": f"{endpoint(state.ports.event_plane)}/console",
        "JobTopicArn": clients.ensure_topic(state, JOB_TOPIC),
        "Architecture": host_architecture(),
        "PythonRuntime": f"python{host_python()}",
    }
    declared = wanted.declared_parameters(own)
    for name in filter(None, map(declared.get, SECRETS)):
        clients.ensure_secret(state, name, "{}")
    parameters = [f"{name}={value}" for name, value in declared.items()]
    run(
        [
            "deploy",
            *("--template-file", str(folder.build / "template.yaml")),
            *("--stack-name", state.stack),
            *("--s3-bucket", ARTIFACTS),
            *("--region", state.region),
            *("--capabilities", "CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"),
            *("--no-confirm-changeset", "--no-fail-on-empty-changeset", "--no-progressbar"),
            *(["--parameter-overrides", *parameters] if parameters else []),
        ],
        project=wanted.project,
        environment=tool_environment(state.ports, folder),
        log=folder.log("sam-deploy"),
    )
