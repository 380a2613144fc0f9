"""Define the options of `cluster add` and `cluster set`, and check their values."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from faultbridge.cli.commands.fleet.declared_domains import DomainOption, declared_domains
from faultbridge.domain.cluster.config import OWN_PARTS, Mode, ProviderRole, RepairOwner
from faultbridge.domain.names import instance_id, rest_address

MIN_EXTERNAL_ID, MAX_EXTERNAL_ID = 2, 1224  # the limits of IAM
ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]{1,512}")
ROLE_ID = re.compile(r"AROA[A-Z0-9]{12,124}")
SENDER = re.compile(r"A[A-Z0-9]{3,127}(?::[\w+=,.@-]{2,64}|:\*)?")

ModeOption = Annotated[
    Mode | None, typer.Option(help="observe: record only; dry_run: also record planned repairs; act: repair.")
]
OwnerOption = Annotated[RepairOwner | None, typer.Option(help="Who repairs nodes; observe: no automation repairs.")]
ProviderOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Provider: ec2-auto-scaling, ec2-launch-template or hyperpod.")
]
OrchestratorOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Orchestrator that cordons and drains nodes: none, eks or slurm.")
]
VerifierOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Verifies nodes: ssm-dcgm, ssm-deep, ssm-pair, hyperpod.")
]
RestarterOption = Annotated[str | None, typer.Option(metavar="NAME", help="Resets and reboots: ssm or hyperpod.")]
TrustOption = Annotated[
    list[str] | None,
    typer.Option(
        "--trusted-sender",
        metavar="ROLE_ID:SESSION",
        help="Sender that may report any node of the cluster; ROLE_ID:* for every session. Repeatable. "
        'Replaces all; "" removes all.',
    ),
]
NodeRoleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node-role",
        metavar="ROLE_ID",
        help="Id (AROA...) of a role of the cluster's instances; other roles prove no instance. Repeatable. "
        'Replaces all; "" removes all.',
    ),
]
HeadNodeOption = Annotated[
    str | None,
    typer.Option("--slurm-head-node", metavar="ID", help='Instance on which Slurm\'s commands run; "" removes it.'),
]
SlurmRestOption = Annotated[
    str | None,
    typer.Option("--slurm-rest", metavar="URL", help='Address of slurmrestd, used where it is set; "" removes it.'),
]
RequeueOption = Annotated[
    bool | None,
    typer.Option("--slurm-requeue/--no-slurm-requeue", help="Requeue jobs that allow it when a node is drained."),
]
CallbackOption = Annotated[
    list[str] | None,
    typer.Option(
        "--job-callback",
        metavar="NAME",
        help="Callback for jobs that may resume: webhook, sns, slurm-requeue or kubernetes-annotation. "
        'Repeatable. Replaces all; "" removes all.',
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
    str | None,
    typer.Option(metavar="VERSION", help='Policy version to use; "" removes it. Default: the current version.'),
]


def cluster_settings(
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
    slurm_head_node: HeadNodeOption = None,
    slurm_rest: SlurmRestOption = None,
    slurm_requeue: RequeueOption = None,
    job_callback: CallbackOption = None,
    provider_role: RoleOption = None,
    external_id: ExternalIdOption = None,
    domain: DomainOption = None,
) -> dict[str, Any]:
    """Return the settings given as options. Provider `hyperpod` adds its verifier and restarter."""
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
        **_slurm(slurm_head_node, slurm_rest, requeue=slurm_requeue),
        "job_callbacks": None if job_callback is None else tuple(dict.fromkeys(filter(None, job_callback))),
        "provider_role": _role(provider_role, external_id),
        "domains": declared_domains(domain),
    }
    own = OWN_PARTS.get(provider or "", {})
    return {**own, **{name: value for name, value in given.items() if value is not None}}


def _slurm(head_node: str | None, rest: str | None, *, requeue: bool | None) -> dict[str, Any]:
    """Check the options for access to Slurm, and return their values by the name of the setting.

    - `head_node` is the instance id of the head node.
    - `rest` is the address of the REST API of Slurm.
    - `requeue` states whether jobs are requeued when a node is drained.

    None means that the option was not given. An empty text removes the stored setting.
    """
    checked_node = instance_id(head_node) if head_node else head_node
    checked_rest = rest_address(rest) if rest else rest
    return {"slurm_head_node": checked_node, "slurm_rest": checked_rest, "slurm_requeue": requeue}


def _senders(given: list[str] | None) -> tuple[str, ...] | None:
    """Check the trusted senders, and return them without duplicates; None if none were given.

    One empty text removes all trusted senders of the cluster.
    """
    if given is None:
        return None
    wrong = [one for one in given if not SENDER.fullmatch(one)]
    if any(wrong) and given != [""]:
        raise typer.BadParameter(f"invalid --trusted-sender: {wrong[0]!r}; allowed: ROLE_ID:SESSION or ROLE_ID:*")
    return tuple(dict.fromkeys(filter(None, given)))


def _roles(given: list[str] | None) -> tuple[str, ...] | None:
    """Check the node roles, and return them without duplicates; None if none were given.

    One empty text removes all node roles of the cluster.
    """
    if given is None:
        return None
    wrong = [one for one in given if not ROLE_ID.fullmatch(one)]
    if any(wrong) and given != [""]:
        raise typer.BadParameter(f"invalid --node-role: {wrong[0]!r}; allowed: a role id such as AROAEXAMPLEID123456")
    return tuple(dict.fromkeys(filter(None, given)))


def _role(arn: str | None, external_id: str | None) -> ProviderRole | None:
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
