"""`faultbridge cluster`: which clusters there are and how each is run."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from faultbridge.cli.clustertemplate import EXAMPLE, set_template
from faultbridge.cli.documents import CLUSTER, CLUSTERS, cluster_document
from faultbridge.cli.output import notice
from faultbridge.cli.session import Session, on_stack
from faultbridge.cli.times import COMING, coming
from faultbridge.domain.clusters import ClusterConfig, Mode, ProviderRole, RepairOwner

MIN_EXTERNAL_ID, MAX_EXTERNAL_ID = 2, 1224  # as IAM has it
ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]{1,512}")
SENDER = re.compile(r"A[A-Z0-9]{3,127}(?::[\w+=,.@-]{2,64}|:\*)?")

app = typer.Typer(rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="CLUSTER", help="The cluster's name.")]
ModeOption = Annotated[Mode | None, typer.Option(help="Only look, say what would be done, or do it.")]
OwnerOption = Annotated[RepairOwner | None, typer.Option(help="Who repairs: Faultbridge, the provider, or nobody.")]
ProviderOption = Annotated[
    str | None, typer.Option(help="What has the machines: ec2-auto-scaling, ec2-launch-template, hyperpod.")
]
OrchestratorOption = Annotated[str | None, typer.Option(help="What cordons and drains: none, eks.")]
VerifierOption = Annotated[str | None, typer.Option(help="What proves a node good: ssm-dcgm.")]
RestarterOption = Annotated[str | None, typer.Option(help="What resets GPUs and reboots: ssm.")]
TrustOption = Annotated[
    list[str] | None,
    typer.Option("--trusted-sender", help="ROLE_ID:SESSION or ROLE_ID:*, may speak of all its nodes; repeatable."),
]
EksOption = Annotated[str | None, typer.Option(help="What Amazon EKS calls it, where it is an EKS cluster.")]
HyperPodOption = Annotated[str | None, typer.Option(help="Its name or ARN in SageMaker HyperPod.")]
RoleOption = Annotated[str | None, typer.Option(help="ARN of the role that reaches it in another account.")]
ExternalIdOption = Annotated[str | None, typer.Option(help="The external id that the role's trust asks for.")]
PolicyOption = Annotated[str | None, typer.Option(help="A policy version; the current one if not given.")]


@app.command("list", epilog="Example: faultbridge cluster list --json")
@on_stack
def list_clusters(session: Session) -> None:
    """List every cluster."""
    session.show((cluster_document(view) for view in session.directory.clusters()), CLUSTERS)


@app.command("show", epilog="Example: faultbridge cluster show train-a")
@on_stack
def show_cluster(session: Session, cluster: Name) -> None:
    """Show how a cluster is registered, how it is doing and what is being repaired."""
    session.show_one(cluster_document(session.directory.cluster(cluster)), CLUSTER)


@app.command("add", epilog="Example: faultbridge cluster add train-a --mode act --repair-owner faultbridge")
@on_stack
def add_cluster(
    session: Session,
    cluster: Name,
    mode: ModeOption = None,
    repair_owner: OwnerOption = None,
    provider: ProviderOption = None,
    orchestrator: OrchestratorOption = None,
    verifier: VerifierOption = None,
    restarter: RestarterOption = None,
    policy: PolicyOption = None,
    trusted_sender: TrustOption = None,
    eks_cluster: EksOption = None,
    hyperpod_cluster: HyperPodOption = None,
    provider_role: RoleOption = None,
    external_id: ExternalIdOption = None,
    shards: Annotated[int, typer.Option(help="1 up to 500 nodes, 16 above; for ever.")] = 1,
) -> None:
    """Register a cluster. It is only observed unless told otherwise."""
    changes = _given(
        mode=mode,
        repair_owner=repair_owner,
        provider=provider,
        orchestrator=orchestrator,
        verifier=verifier,
        restarter=restarter,
        policy=policy,
        trusted_senders=_senders(trusted_sender),
        eks_cluster=eks_cluster,
        hyperpod_cluster=hyperpod_cluster,
        provider_role=_role(provider_role, external_id),
    )
    _known_parts(session, changes)
    session.application.registration.add_cluster(ClusterConfig(cluster, shards=shards, **changes))
    _done(session, cluster)


@app.command("set", epilog="Example: faultbridge cluster set train-a --mode dry_run")
@on_stack
def set_cluster(
    session: Session,
    cluster: Name,
    mode: ModeOption = None,
    repair_owner: OwnerOption = None,
    provider: ProviderOption = None,
    orchestrator: OrchestratorOption = None,
    verifier: VerifierOption = None,
    restarter: RestarterOption = None,
    policy: PolicyOption = None,
    trusted_sender: TrustOption = None,
    eks_cluster: EksOption = None,
    hyperpod_cluster: HyperPodOption = None,
    provider_role: RoleOption = None,
    external_id: ExternalIdOption = None,
    expected: Annotated[int | None, typer.Option(min=0, help="How many nodes it has.")] = None,
) -> None:
    """Change how a cluster is run; what is not named stays."""
    changes = _given(
        mode=mode,
        repair_owner=repair_owner,
        provider=provider,
        orchestrator=orchestrator,
        verifier=verifier,
        restarter=restarter,
        policy=policy,
        trusted_senders=_senders(trusted_sender),
        eks_cluster=eks_cluster,
        hyperpod_cluster=hyperpod_cluster,
        provider_role=_role(provider_role, external_id),
        expected=expected,
    )
    if not changes:
        raise typer.BadParameter("nothing is to be changed")
    _known_parts(session, changes)
    session.application.registration.set_cluster(cluster, changes)
    _done(session, cluster)


@app.command("maintain", epilog="Example: faultbridge cluster maintain train-a --until 4h")
@on_stack
def maintain_cluster(
    session: Session,
    cluster: Name,
    until: Annotated[str | None, typer.Option(help=f"Until when: {COMING}.")] = None,
    end: Annotated[bool, typer.Option("--end", help="It is over now.")] = False,
) -> None:
    """Leave all nodes of a cluster alone for a while: what happens is recorded, and caught up with afterwards."""
    at = coming(until, session.now())
    if (at is None) is not end:
        raise typer.BadParameter("give either --until or --end")
    registration = session.application.registration
    registration.set_cluster(cluster, {"maintenance_until": at or session.now()})
    session.show_one(cluster_document(session.directory.cluster(cluster)), CLUSTER)


app.command("template", epilog=EXAMPLE)(set_template)


def _given(**options: Any) -> dict[str, Any]:  # noqa: ANN401 - each option has its own type
    return {name: value for name, value in options.items() if value is not None}


def _senders(given: list[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    wrong = [one for one in given if not SENDER.fullmatch(one)]
    if any(wrong) and given != [""]:
        raise typer.BadParameter(f"--trusted-sender {wrong[0]!r} is neither ROLE_ID:SESSION nor ROLE_ID:*")
    return tuple(dict.fromkeys(filter(None, given)))


def _role(arn: str | None, external_id: str | None) -> ProviderRole | None:
    if arn is None:
        if external_id is not None:
            raise typer.BadParameter("--external-id goes with --provider-role")
        return None
    if not ROLE.fullmatch(arn):
        raise typer.BadParameter(f"--provider-role {arn!r} is no ARN of a role")
    if external_id is not None and not MIN_EXTERNAL_ID <= len(external_id) <= MAX_EXTERNAL_ID:
        raise typer.BadParameter(f"--external-id has {MIN_EXTERNAL_ID} to {MAX_EXTERNAL_ID} characters")
    return ProviderRole(arn, external_id)


def _known_parts(session: Session, changes: dict[str, Any]) -> None:
    ports = session.ports
    for name, known in (
        ("provider", {**session.application.inventories(), **ports.providers}),
        ("orchestrator", ports.orchestrators),
        ("verifier", ports.verifiers),
        ("restarter", ports.restarters),
    ):
        if name in changes and changes[name] not in known:
            raise typer.BadParameter(f"--{name} {changes[name]!r} is none of {', '.join(known)}")


def _done(session: Session, cluster: str) -> None:
    document = cluster_document(session.directory.cluster(cluster))
    if session.for_people:
        acts = document["mode"] != Mode.OBSERVE and document["repair_owner"] == RepairOwner.FAULTBRIDGE
        does = "repairs it" if acts else "only observes it; --mode act --repair-owner faultbridge lets it repair"
        notice(f"{cluster} is registered; Faultbridge {does}")
    session.show_one(document, CLUSTER)
