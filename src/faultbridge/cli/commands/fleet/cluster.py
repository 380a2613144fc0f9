"""`faultbridge cluster`: registers, shows and changes clusters."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from faultbridge.cli.commands.fleet.cluster_template import TEMPLATE_EXAMPLES, set_template
from faultbridge.cli.commands.fleet.declared_domains import DomainOption, declared_domains
from faultbridge.cli.commands.options import ClusterArgument
from faultbridge.cli.render.columns import CLUSTER, CLUSTERS, cluster_document
from faultbridge.cli.render.output import examples, notice
from faultbridge.cli.render.times import FUTURE_HELP, parse_future_time
from faultbridge.cli.stack.command import stack_command, with_options
from faultbridge.cli.stack.session import Session
from faultbridge.domain.cluster.config import ClusterConfig, Mode, ProviderRole, RepairOwner

MIN_EXTERNAL_ID, MAX_EXTERNAL_ID = 2, 1224  # the limits of IAM
ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]{1,512}")
ROLE_ID = re.compile(r"AROA[A-Z0-9]{12,124}")
SENDER = re.compile(r"A[A-Z0-9]{3,127}(?::[\w+=,.@-]{2,64}|:\*)?")

app = typer.Typer(rich_markup_mode=None)

ModeOption = Annotated[
    Mode | None, typer.Option(help="observe: record only; dry_run: also record planned repairs; act: repair.")
]
OwnerOption = Annotated[RepairOwner | None, typer.Option(help="Who repairs nodes; observe: no automation repairs.")]
ProviderOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Provider: ec2-auto-scaling, ec2-launch-template or hyperpod.")
]
OrchestratorOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Orchestrator that cordons and drains nodes: none or eks.")
]
VerifierOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Verifier that runs GPU diagnostics: ssm-dcgm.")
]
RestarterOption = Annotated[str | None, typer.Option(metavar="NAME", help="Restarter for GPU resets and reboots: ssm.")]
TrustOption = Annotated[
    list[str] | None,
    typer.Option(
        "--trusted-sender",
        metavar="ROLE_ID:SESSION",
        help="Sender that may report any node of the cluster; ROLE_ID:* for every session. Repeatable.",
    ),
]
NodeRoleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node-role",
        metavar="ROLE_ID",
        help="Id (AROA...) of a role of the cluster's instances; other roles prove no instance. Repeatable.",
    ),
]
EksOption = Annotated[str | None, typer.Option(metavar="NAME", help="Name of the EKS cluster.")]
HyperPodOption = Annotated[str | None, typer.Option(metavar="NAME|ARN", help="Name or ARN of the HyperPod cluster.")]
RoleOption = Annotated[
    str | None, typer.Option(metavar="ARN", help="Role to assume for a provider in another AWS account.")
]
ExternalIdOption = Annotated[
    str | None, typer.Option(metavar="ID", help="External id of the role's trust policy, 2 to 1224 characters.")
]
PolicyOption = Annotated[
    str | None, typer.Option(metavar="VERSION", help="Policy version to use. Default: the current version.")
]


def _settings(
    mode: ModeOption = None,
    repair_owner: OwnerOption = None,
    provider: ProviderOption = None,
    orchestrator: OrchestratorOption = None,
    verifier: VerifierOption = None,
    restarter: RestarterOption = None,
    policy: PolicyOption = None,
    trusted_sender: TrustOption = None,
    node_role: NodeRoleOption = None,
    eks_cluster: EksOption = None,
    hyperpod_cluster: HyperPodOption = None,
    provider_role: RoleOption = None,
    external_id: ExternalIdOption = None,
    domain: DomainOption = None,
) -> dict[str, Any]:
    """Return the cluster settings that the options of `cluster add` and `cluster set` give."""
    given = {
        "mode": mode,
        "repair_owner": repair_owner,
        "provider": provider,
        "orchestrator": orchestrator,
        "verifier": verifier,
        "restarter": restarter,
        "policy": policy,
        "trusted_senders": _senders(trusted_sender),
        "node_roles": _roles(node_role),
        "eks_cluster": eks_cluster,
        "hyperpod_cluster": hyperpod_cluster,
        "provider_role": _role(provider_role, external_id),
        "domains": declared_domains(domain),
    }
    return {name: value for name, value in given.items() if value is not None}


@app.command("list", epilog=examples("faultbridge cluster list", "faultbridge cluster list --json"))
@stack_command
def list_clusters(session: Session) -> None:
    """List every cluster."""
    session.show((cluster_document(view) for view in session.directory.clusters()), CLUSTERS)


@app.command("show", epilog=examples("faultbridge cluster show train-a"))
@stack_command
def show_cluster(session: Session, cluster: ClusterArgument) -> None:
    """Show settings, status and repairs of a cluster."""
    session.show_one(cluster_document(session.directory.cluster(cluster)), CLUSTER)


@app.command(
    "add",
    epilog=examples(
        "faultbridge cluster add train-a",
        "faultbridge cluster add train-a --mode act --repair-owner faultbridge \\",
        "    --provider ec2-auto-scaling --verifier ssm-dcgm",
    ),
)
@stack_command
@with_options(settings=_settings)
def add_cluster(
    session: Session,
    cluster: ClusterArgument,
    settings: dict[str, Any],
    shards: Annotated[
        int, typer.Option(metavar="N", help="Index shards: 1 up to 500 nodes, 16 above. Cannot be changed later.")
    ] = 1,
) -> None:
    """Register a cluster. The default mode is observe: Faultbridge records and repairs nothing."""
    _check_parts(session, settings)
    session.application.registry.registration.add_cluster(ClusterConfig(cluster, shards=shards, **settings))
    _show_registered(session, cluster)


@app.command(
    "set",
    epilog=examples(
        "faultbridge cluster set train-a --mode dry_run",
        "faultbridge cluster set train-a --mode act --repair-owner faultbridge",
    ),
)
@stack_command
@with_options(settings=_settings)
def set_cluster(
    session: Session,
    cluster: ClusterArgument,
    settings: dict[str, Any],
    expected: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Expected number of nodes in the cluster.")
    ] = None,
) -> None:
    """Change settings of a cluster. Settings that are not given stay the same."""
    changes = settings if expected is None else {**settings, "expected": expected}
    if not changes:
        raise typer.BadParameter("no setting given; see `faultbridge cluster set --help`")
    _check_parts(session, changes)
    session.application.registry.registration.set_cluster(cluster, changes)
    _show_registered(session, cluster)


@app.command(
    "maintain",
    epilog=examples("faultbridge cluster maintain train-a --until 4h", "faultbridge cluster maintain train-a --end"),
)
@stack_command
def maintain_cluster(
    session: Session,
    cluster: ClusterArgument,
    until: Annotated[str | None, typer.Option(metavar="TIME", help=f"End of the maintenance: {FUTURE_HELP}.")] = None,
    end: Annotated[bool, typer.Option("--end", help="End the maintenance now.")] = False,
) -> None:
    """Start or end maintenance of a cluster. Faults are recorded, and repairs wait until the end."""
    at = parse_future_time(until, session.now())
    if (at is None) is not end:
        raise typer.BadParameter("give one of --until and --end")
    session.application.registry.registration.set_cluster(cluster, {"maintenance_until": at or session.now()})
    session.show_one(cluster_document(session.directory.cluster(cluster)), CLUSTER)


app.command("template", epilog=TEMPLATE_EXAMPLES)(set_template)


def _senders(given: list[str] | None) -> tuple[str, ...] | None:
    """Check the trusted senders. One empty text removes them all."""
    if given is None:
        return None
    wrong = [one for one in given if not SENDER.fullmatch(one)]
    if any(wrong) and given != [""]:
        raise typer.BadParameter(f"invalid --trusted-sender: {wrong[0]!r}; allowed: ROLE_ID:SESSION or ROLE_ID:*")
    return tuple(dict.fromkeys(filter(None, given)))


def _roles(given: list[str] | None) -> tuple[str, ...] | None:
    """Check the node roles. One empty text removes them all."""
    if given is None:
        return None
    wrong = [one for one in given if not ROLE_ID.fullmatch(one)]
    if any(wrong) and given != [""]:
        raise typer.BadParameter(f"invalid --node-role: {wrong[0]!r}; allowed: a role id such as AROAEXAMPLEID123456")
    return tuple(dict.fromkeys(filter(None, given)))


def _role(arn: str | None, external_id: str | None) -> ProviderRole | None:
    """Check the role and the external id, and combine them."""
    if arn is None:
        if external_id is not None:
            raise typer.BadParameter("--external-id without --provider-role; give both")
        return None
    if not ROLE_ARN.fullmatch(arn):
        raise typer.BadParameter(f"invalid --provider-role: {arn!r}; give the ARN of an IAM role")
    if external_id is not None and not MIN_EXTERNAL_ID <= len(external_id) <= MAX_EXTERNAL_ID:
        raise typer.BadParameter(
            f"invalid --external-id: {len(external_id)} characters; allowed: {MIN_EXTERNAL_ID} to {MAX_EXTERNAL_ID}"
        )
    return ProviderRole(arn, external_id)


def _check_parts(session: Session, changes: dict[str, Any]) -> None:
    """Check the names of provider, orchestrator, verifier and restarter."""
    ports = session.ports
    for name, allowed in (
        ("provider", {**session.application.ports.inventories, **ports.providers}),
        ("orchestrator", ports.orchestrators),
        ("verifier", ports.verifiers),
        ("restarter", ports.restarters),
    ):
        if name in changes and changes[name] not in allowed:
            raise typer.BadParameter(f"unknown --{name}: {changes[name]!r}; allowed: {', '.join(allowed)}")


def _show_registered(session: Session, cluster: str) -> None:
    """Print the cluster, and for people whether Faultbridge repairs it."""
    document = cluster_document(session.directory.cluster(cluster))
    if session.prints_table:
        acts = document["mode"] != Mode.OBSERVE and document["repair_owner"] == RepairOwner.FAULTBRIDGE
        state = (
            "repairs are enabled" if acts else "observe only; enable repairs with --mode act --repair-owner faultbridge"
        )
        notice(f"cluster {cluster} is registered: {state}")
    session.show_one(document, CLUSTER)
