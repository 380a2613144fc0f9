"""Package the template and deploy it into the embedded stack, if deployed files or parameters changed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faultbridge.install import packaging
from faultbridge.install.cloudformation import Deployer, template_url, upload
from faultbridge.install.packaging import LAYERS, Packaged, Template, read_template, resources
from faultbridge.local import clients
from faultbridge.local.environment import ACCOUNT, endpoint, host_architecture, host_python
from faultbridge.local.stack import files
from faultbridge.local.stack.files import TEMPLATE, StackFolder, StackState, project_root
from faultbridge.model.errors import Misconfigured

# The template's state machines are written in YAML; this script converts them to the deployed JSON.
STATE_MACHINES = Path("infra") / "build_state_machine.py"

_KEPT_PACKAGES = 4
_POLL_SECONDS = 0.2


def write_state_machines(project: Path) -> None:
    """Convert a project's state machines from YAML to JSON; raises `Misconfigured` for an invalid one."""
    if not (project / STATE_MACHINES).exists():
        return
    command = [sys.executable, str(project / STATE_MACHINES)]
    ended = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        reason = (ended.stderr.strip() or "no error output").splitlines()[-1]
        raise Misconfigured(f"invalid state machine: {reason}; run `make machines`")


# The emulated CloudFormation reports success even if it ignores a setting. This check finds missing dead-letter queues,
# tables without expiry of items, and functions that do not start. Without the check, a missing dead-letter queue is
# noticed only at the first bad record.

_FUNCTION = ("AWS::Lambda::Function", "AWS::Serverless::Function")


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


def _wanted(
    template: Template, kind: str, setting: str, physical_ids: dict[str, str]
) -> Iterator[tuple[str, str, Any]]:
    """Yield the logical id, the physical id and the value of a setting of each deployed resource that has it."""
    for logical_id, properties in resources(template, kind):
        if setting in properties and logical_id in physical_ids:
            yield logical_id, physical_ids[logical_id], properties[setting]


def _queues(state: StackState, template: Template, physical_ids: dict[str, str]) -> Iterator[str]:
    sqs = clients.stack_client("sqs", state)
    for logical_id, url, _ in _wanted(template, "AWS::SQS::Queue", "RedrivePolicy", physical_ids):
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        if "deadLetterTargetArn" not in clients.json_attribute(found.get("RedrivePolicy", "")):
            yield f"{logical_id} has no dead-letter queue"


def _tables(state: StackState, template: Template, physical_ids: dict[str, str]) -> Iterator[str]:
    dynamodb = clients.stack_client("dynamodb", state)
    for logical_id, table, setting in _wanted(
        template, "AWS::DynamoDB::Table", "TimeToLiveSpecification", physical_ids
    ):
        wanted = setting.get("AttributeName")
        name = dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"].get("AttributeName")
        # A name from a template parameter cannot be compared here; only its presence is checked.
        if wanted and (not name or (isinstance(wanted, str) and name != wanted)):
            yield f"{logical_id} does not expire items by {wanted}"


def _subscriptions(state: StackState, template: Template, physical_ids: dict[str, str]) -> Iterator[str]:
    sns = clients.stack_client("sns", state)
    for logical_id, arn, _ in _wanted(template, "AWS::SNS::Subscription", "RedrivePolicy", physical_ids):
        if not sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"].get("RedrivePolicy"):
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
    """The project, template and parameters of a deployment; undeclared parameters are ignored.

    Without a project, it is the template in the wheel.
    """

    project: Path | None
    template: Path
    parameters: Mapping[str, str] = field(default_factory=lambda: dict(PARAMETERS))

    @classmethod
    def of_project(cls, **parameters: str) -> Deployment:
        """Return the deployment of Faultbridge's own template; `parameters` override the default parameters."""
        project = project_root()
        template = project / TEMPLATE if project else packaging.PACKAGED / packaging.TEMPLATE_NAME
        return cls(project=project, template=template, parameters={**PARAMETERS, **parameters})

    def fingerprint(self) -> str:
        """Return a hash of the deployed files and the parameters; a changed hash requires a new deployment."""
        return files.of_deployment(self.project or packaging.PACKAGED, dict(self.parameters))


def bring_up_to_date(folder: StackFolder, state: StackState, wanted: Deployment, progress: Progress) -> StackState:
    """Build and deploy if files or parameters changed, and return the state of the latest deployment."""
    current = wanted.fingerprint()
    if state.deployed == current:
        progress("nothing changed since the last deployment")
        return state
    packaged = build(folder, wanted, progress)
    deploy(state, packaged, wanted, progress)
    progress("comparing the deployed resources with the template")
    check(state, packaged.template)
    return state.with_deployment(current, clients.outputs(state))


def build(folder: StackFolder, wanted: Deployment, progress: Progress) -> Packaged:
    """Package what is deployed, unless a stack of this home has packaged the same files before."""
    place = folder.packages / files.of_deployment(wanted.project or packaging.PACKAGED, {})
    try:
        packaged = packaging.read_packaged(place)
    except Misconfigured:
        progress("packaging the functions and their layers")
    else:
        progress("skipping the build: it is up to date")
        place.touch()
        return packaged
    packaged = _packaged(wanted)
    draft = place.with_name(f"{place.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    packaged.write(draft)
    shutil.rmtree(place, ignore_errors=True)
    draft.rename(place)
    by_age = sorted(folder.packages.iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)
    for old in by_age[_KEPT_PACKAGES:]:
        shutil.rmtree(old, ignore_errors=True)
    return packaged


def _packaged(wanted: Deployment) -> Packaged:
    if wanted.project is None:
        return packaging.with_installed_layers(packaging.read_packaged())
    write_state_machines(wanted.project)
    layers = {
        name: packaging.installed_layer(
            packaging.locked_names((wanted.project / "requirements" / f"{LAYERS[name]}.txt").read_text())
        )
        for name, _ in resources(read_template(wanted.template), "AWS::Serverless::LayerVersion")
    }
    return packaging.package(wanted.project, wanted.template, layers)


def deploy(state: StackState, packaged: Packaged, wanted: Deployment, progress: Progress) -> None:
    """Create or update the stack in the emulators, as `faultbridge deploy` does on AWS."""
    progress("deploying")
    own = {
        "ConsoleUrl": f"{endpoint(state.ports.event_plane)}/console",
        "JobTopicArn": clients.ensure_topic(state, JOB_TOPIC),
        "Architecture": host_architecture(),
        "PythonRuntime": f"python{host_python()}",
    }
    declared = packaged.template.get("Parameters", {})
    parameters = {name: value for name, value in {**own, **wanted.parameters}.items() if name in declared}
    for name in filter(None, map(parameters.get, SECRETS)):
        clients.ensure_secret(state, name, "{}")
    s3, cloudformation = clients.stack_client("s3", state), clients.stack_client("cloudformation", state)
    upload(s3, ARTIFACTS, packaged, ACCOUNT, state.region)
    deployer = Deployer(cloudformation, state.stack, lambda _line: None, _POLL_SECONDS)
    deployer.deploy(packaged, template_url(s3, ARTIFACTS, packaged), ARTIFACTS, parameters)
