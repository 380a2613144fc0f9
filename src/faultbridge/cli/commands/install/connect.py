"""`faultbridge connect`: what a cluster needs before Faultbridge watches it, in one plan and one question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from faultbridge.cli.commands.options import YesOption, confirm
from faultbridge.cli.declare import EXIT_NOT_WELL, Argument, Exit, Group, Option, Text, Texts, command
from faultbridge.cli.render.output import Columns, fields, notice, print_line
from faultbridge.cli.stack.session import ChangingSession, Session
from faultbridge.decode.data import gpus_by_instance_type
from faultbridge.install import connect
from faultbridge.install.connect import Change, Installation
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.errors import Rejected
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.wiring.services import wire_registration

STEPS: Columns = fields("RESULT, CHANGE, OF=target")

ClusterNameOption = Annotated[
    Text, Option("--cluster CLUSTER", "Name in Faultbridge. Default: the name that is connected.")
]
GroupsOption = Annotated[Texts, Option("--group NAME", "Auto Scaling group with GPU instances. Repeatable.")]


@dataclass(frozen=True, slots=True)
class How:
    """The options that every connection has."""

    only_plan: Annotated[bool, Option("--plan", "Print the plan and change nothing.")] = False
    yes: YesOption = False


HowOptions = Annotated[How, Group(How)]


@command("connect asg", "gpu-workers --cluster train-a")
def connect_group(
    how: HowOptions,
    session: ChangingSession,
    name: Annotated[str, Argument("GROUP", "Name of an Auto Scaling group.")],
    cluster: ClusterNameOption = None,
) -> None:
    """Connect an EC2 Auto Scaling group: its tag, the permissions of its nodes, the cluster in `observe`, its nodes."""
    stack = installation(session)
    config = ClusterConfig(cluster or name)
    _run(session, stack, how, config, (name,), _group_changes(session, stack, [name]))


@command("connect eks", "gpu", "gpu --cluster train-a --plan")
def connect_eks(
    how: HowOptions,
    session: ChangingSession,
    name: Annotated[str, Argument("EKS_CLUSTER", "Name of an EKS cluster.")],
    cluster: ClusterNameOption = None,
    group: GroupsOption = None,
) -> None:
    """Connect an EKS cluster: access entries, tags and roles of GPU node groups, the cluster in `observe`, its nodes.

    Without --group, the managed node groups that may have GPUs are connected. Then install the chart with the printed
    values.
    """
    stack, clients = installation(session), session.clients
    found = connect.read_eks(
        clients, name, gpu_types=gpus_by_instance_type(), in_subnets=bool(stack.parameter("VpcSubnets"))
    )
    groups = group or list(found.groups)
    changes = [*connect.access_entries(clients, name, stack), *_group_changes(session, stack, groups)]
    seen = {change.target for change in changes}
    for role in found.roles:
        if f"role {role}" not in seen:
            changes += connect.permit_role(clients, role, stack)
    config = ClusterConfig(cluster or name, orchestrator="eks", eks_cluster=name)
    if not found.reachable:
        notice(
            f"{name} has no public endpoint, and the functions run outside its VPC; docs/eks.md names the parameters"
        )
    if not groups:
        notice(f"{name} has no managed node group that may have GPUs; name the Auto Scaling groups with --group")
    _run(session, stack, how, config, tuple(groups), changes, show=_chart_values)


@command("connect slurm", "train-s --group gpu-workers \\", "    --head-node i-0123456789abcdef0")
def connect_slurm(
    how: HowOptions,
    session: ChangingSession,
    name: Annotated[str, Argument("CLUSTER", "Name of the cluster in Faultbridge.")],
    head_node: Annotated[str, Option("ID", "Instance on which Slurm's commands run.")],
    group: GroupsOption = None,
) -> None:
    """Connect a Slurm cluster: tags of the head node and the groups, the cluster in `observe`, its nodes."""
    stack = installation(session)
    changes = [connect.tag_instance(session.clients, head_node, stack.tag)]
    changes += _group_changes(session, stack, group or [])
    config = ClusterConfig(name, orchestrator="slurm", slurm_head_node=head_node)
    _run(session, stack, how, config, tuple(group or ()), changes)


@command("connect hyperpod", "hp-train")
def connect_hyperpod(
    how: HowOptions,
    session: ChangingSession,
    name: Annotated[str, Argument("HYPERPOD_CLUSTER", "Name of a SageMaker HyperPod cluster.")],
    cluster: ClusterNameOption = None,
) -> None:
    """Connect a HyperPod cluster: permissions of its execution roles, the cluster in `observe`, its nodes."""
    stack, clients = installation(session), session.clients
    groups, roles = connect.roles_of_hyperpod(clients, name)
    changes = [one for role in roles for one in connect.permit_role(clients, role, stack, verified=False)]
    config = ClusterConfig(
        cluster or name, provider="hyperpod", hyperpod_cluster=name, verifier="hyperpod", restarter="hyperpod"
    )
    _run(session, stack, how, config, tuple(groups), changes)


def installation(session: Session) -> Installation:
    """Return what the changes and checks need to know about the stack."""
    session.settings  # noqa: B018 - finds the stack, which sets the AWS endpoint
    return Installation.read(session.clients, session.target.stack)


def _group_changes(session: Session, stack: Installation, groups: Iterable[str]) -> list[Change]:
    clients, changes, roles = session.clients, [], set()
    for group in groups:
        changes.append(connect.tag_group(clients, group, stack.tag))
        found = connect.roles_of_group(clients, group)
        if not found:
            notice(f"{group} has no instance with a role yet: repeat the command when it has one")
        roles.update(found)
    return [*changes, *(one for role in sorted(roles) for one in connect.permit_role(clients, role, stack))]


def _run(
    session: Session,
    stack: Installation,
    how: How,
    config: ClusterConfig,
    groups: Sequence[str],
    changes: Sequence[Change],
    show: Callable[[Installation, ClusterConfig], str] | None = None,
) -> None:
    """Show the plan, ask once, make the changes, register the cluster and its nodes, and print the agent's settings."""
    registration, cluster = wire_registration(session.application), config.cluster
    registered = registration.find_cluster(cluster)
    rows = [_row("made before" if one.made else "to do", one.what, one.target) for one in changes]
    rows.append(_row("made before" if registered else "to do", "register in observe", f"cluster {cluster}"))
    rows += [_row("to do", "register the nodes", f"group {group}") for group in groups]
    if how.only_plan:
        session.show(rows, STEPS)
        return
    pending = [row for row in rows if row["result"] == "to do"]
    for row in pending if not how.yes else ():
        notice(f"{row['change']}: {row['target']}")
    confirm(f"this makes {len(pending)} changes in the account of the {session.place}", yes=how.yes)
    done = [_row("made before", one.what, one.target) for one in changes if one.made]
    for change in changes:
        if not change.made:
            change.make()
            done.append(_row("made", change.what, change.target))
    config = registered or registration.add_cluster(config)
    done.append(_row("made before" if registered else "made", "register in observe", f"cluster {cluster}"))
    results = [_import(session, config, group) for group in groups]
    session.show([*done, *results], STEPS)
    if session.prints_table:
        print_line((show or _agent_settings)(stack, config))
        notice(f"next: install the agent with these settings, then `faultbridge doctor --cluster {cluster}`")
    if any(row["result"] == "refused" for row in results):
        raise Exit(EXIT_NOT_WELL)


def _import(session: Session, config: ClusterConfig, group: str) -> dict[str, Any]:
    registration = wire_registration(session.application)
    inventory = session.application.ports.inventories[config.provider]
    instances = list(inventory.serving_instances(config, group))
    registration.pin_roles(config, instances)
    results = list(registration.add_nodes(config.cluster, [NewNode.of_instance(one) for one in instances]))
    refused = [one for one in results if isinstance(one, Rejected)]
    reason = f"; {len(refused)} refused: {refused[0].detail or refused[0].reason}" if refused else ""
    what = f"register {len(results) - len(refused)} of {len(results)} nodes{reason}"
    return _row("refused" if refused else "made", what, f"group {group}")


def _row(result: str, change: str, target: str) -> dict[str, Any]:
    return {"result": result, "change": change, "target": target}


def _agent_settings(stack: Installation, config: ClusterConfig) -> str:
    return (
        "\n# /etc/faultbridge/agent.toml on each node\n"
        f'cluster = "{config.cluster}"\n'
        f'queue_url = "{stack.outputs["RawRecordsQueueUrl"]}"\n'
        f'bucket = "{stack.outputs["RawBucketName"]}"'
    )


def _chart_values(stack: Installation, config: ClusterConfig) -> str:
    return (
        f"\n# {config.cluster}.yaml, the values of the chart\n"
        f"cluster: {config.cluster}\n"
        f"queueUrl: {stack.outputs['RawRecordsQueueUrl']}\n"
        f"bucket: {stack.outputs['RawBucketName']}\n"
        "image: {repository: IMAGE}  # your copy of the image"
    )
