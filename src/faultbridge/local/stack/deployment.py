"""Build the template and deploy it into the embedded stack, if deployed files or parameters changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from faultbridge.local import clients
from faultbridge.local.environment import endpoint, host_architecture, tool_environment
from faultbridge.local.stack import deployment_check, fingerprint, sam
from faultbridge.local.stack.files import TEMPLATE, StackFolder, StackState, project_root

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
    """The project, template and parameters of a deployment.

    Parameters that the template does not declare are ignored.
    """

    project: Path
    template: Path
    parameters: Mapping[str, str] = field(default_factory=lambda: dict(PARAMETERS))

    @classmethod
    def of_project(cls, **parameters: str) -> Deployment:
        """Return the deployment of Faultbridge's own template; `parameters` override the default parameters."""
        project = project_root()
        return cls(project=project, template=project / TEMPLATE, parameters={**PARAMETERS, **parameters})

    def declared_parameters(self, defaults: Mapping[str, str]) -> dict[str, str]:
        """Return `defaults` and the parameters of this deployment, but only those that the template declares.

        The parameters of this deployment override `defaults`. CloudFormation rejects parameters that are not declared.
        """
        declared = sam.read_template(self.template).get("Parameters", {})
        return {name: value for name, value in {**defaults, **self.parameters}.items() if name in declared}

    def fingerprint(self) -> str:
        """Return a hash of the deployed files and the parameters; a changed hash requires a new deployment."""
        return fingerprint.of_deployment(self.project, dict(self.parameters))


def bring_up_to_date(folder: StackFolder, state: StackState, wanted: Deployment, progress: Progress) -> StackState:
    """Build and deploy if the deployed files or the parameters changed; else return `state` unchanged.

    The returned state has the fingerprint and the CloudFormation outputs of the latest deployment.
    """
    current = wanted.fingerprint()
    if state.deployed == current:
        progress("nothing changed since the last deployment")
        return state
    built = build(folder, state, wanted, progress)
    deploy(folder, state, wanted, progress)
    progress("comparing the deployed resources with the template")
    deployment_check.check(state, sam.read_template(built))
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
    sam.write_state_machines(wanted.project)
    sam.run(
        ["build", "--template", str(wanted.template), "--build-dir", str(folder.build), *_config(wanted)],
        project=wanted.project,
        environment=tool_environment(state.ports, folder),
        log=folder.log("sam-build"),
    )
    marker.write_text(current)
    return built


def deploy(folder: StackFolder, state: StackState, wanted: Deployment, progress: Progress) -> None:
    """Run `sam deploy` with the built template.

    The deploy settings of the project are not used, because they are for AWS.
    """
    progress("deploying (sam deploy)")
    clients.ensure_bucket(state, ARTIFACTS)
    own = {
        "ConsoleUrl": f"{endpoint(state.ports.event_plane)}/console",
        "JobTopicArn": clients.ensure_topic(state, JOB_TOPIC),
        "Architecture": host_architecture(),
    }
    declared = wanted.declared_parameters(own)
    for name in filter(None, map(declared.get, SECRETS)):
        clients.ensure_secret(state, name, "{}")
    parameters = [f"{name}={value}" for name, value in declared.items()]
    sam.run(
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


def _config(wanted: Deployment) -> list[str]:
    """Return the `sam` option that names the settings file of the project; empty without such a file.

    Without the option, SAM reads the file beside the template.
    """
    settings = wanted.project / "samconfig.toml"
    return ["--config-file", str(settings)] if settings.exists() else []
