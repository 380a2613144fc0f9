"""Building and deploying the template into the embedded stack, and checking that it is there as written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from faultbridge.local import clients, fingerprint, promises, sam, template
from faultbridge.local.environment import tool_environment
from faultbridge.local.paths import TEMPLATE, StackFolder, project_root
from faultbridge.local.state import StackState

# What differs from AWS: probes come often enough to be watched, and nothing is protected from `down`.
# A killed worker's records come back after the visibility time; one poller serves a queue, so short is harmless.
PARAMETERS = {
    "ProbeSeconds": "1",
    "IngestTimeoutSeconds": "20",
    "RawRecordsVisibilitySeconds": "20",
    "ArchiveThrough": "objects",
    # A demonstration breaks more nodes an hour than anybody wants to be paged for.
    "MaxPagesPerHour": "1000",
    # The emulator names its account as the sender of everything.
    "SenderProof": "off",
    "TableDeletionProtection": "false",
    "TablePointInTimeRecovery": "false",
}
ARTIFACTS = "faultbridge-artifacts"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is to be deployed: a project with its template, and parameters (those that the template has)."""

    project: Path
    template: Path
    parameters: Mapping[str, str] = field(default_factory=lambda: dict(PARAMETERS))

    @classmethod
    def of_project(cls, **parameters: str) -> Deployment:
        """Return the product's own template, with the embedded stack's parameters and these on top."""
        project = project_root()
        return cls(project=project, template=project / TEMPLATE, parameters={**PARAMETERS, **parameters})

    def known_parameters(self) -> dict[str, str]:
        """Return the parameters that the template declares; CloudFormation refuses any other."""
        declared = template.read(self.template).get("Parameters", {})
        return {name: value for name, value in self.parameters.items() if name in declared}

    def fingerprint(self) -> str:
        """Tell what identifies the deployment; the same means that there is nothing to do."""
        return fingerprint.of_deployment(self.project, dict(self.parameters))


def bring_up_to_date(folder: StackFolder, state: StackState, wanted: Deployment, progress: Progress) -> StackState:
    """Deploy if anything changed since the last time; returns the state with the outputs."""
    print_ = wanted.fingerprint()
    if state.deployed == print_:
        progress("nothing changed since the last deployment")
        return state
    built = build(folder, state, wanted, progress)
    deploy(folder, state, wanted, progress)
    progress("checking that all is deployed as written")
    promises.check(state, template.read(built))
    return state.with_deployment(print_, clients.outputs(state))


def build(folder: StackFolder, state: StackState, wanted: Deployment, progress: Progress) -> Path:
    """Run `sam build` unless its result for these files is there; returns the built template."""
    built, mark = folder.build / "template.yaml", folder.root / "built"
    print_ = wanted.fingerprint()
    if built.exists() and mark.exists() and mark.read_text() == print_:
        progress("built already")
        return built
    progress("building the functions and their layer (sam build)")
    mark.unlink(missing_ok=True)
    sam.write_state_machines(wanted.project)
    sam.run(
        ["build", "--template", str(wanted.template), "--build-dir", str(folder.build), *_config(wanted)],
        project=wanted.project,
        environment=tool_environment(state.ports, folder),
        log=folder.log("sam-build"),
    )
    mark.write_text(print_)
    return built


def deploy(folder: StackFolder, state: StackState, wanted: Deployment, progress: Progress) -> None:
    """Run `sam deploy` of what was built; the project's SAM settings for deploying are meant for AWS and left out."""
    progress("deploying (sam deploy)")
    clients.ensure_bucket(state, ARTIFACTS)
    parameters = [f"{name}={value}" for name, value in wanted.known_parameters().items()]
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
    """Return the project's SAM settings for building, named because SAM looks for them beside the template."""
    settings = wanted.project / "samconfig.toml"
    return ["--config-file", str(settings)] if settings.exists() else []
