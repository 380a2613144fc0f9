"""`faultbridge connect` and `doctor`: what a cluster needs to be watched, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Annotated, Any

from msgspec import Struct

from faultbridge.adapters.aws.errors import AWS_ERRORS
from faultbridge.cli.commands.options import AnyClusterOption, YesOption, confirm
from faultbridge.cli.declare import EXIT_NOT_WELL, Argument, Exit, Group, Option, Text, Texts, command
from faultbridge.cli.render.output import Columns, fields, notice, print_line
from faultbridge.cli.stack.session import ChangingSession, Session, StackSession
from faultbridge.decode.data import gpus_by_instance_type
from faultbridge.install import connect
from faultbridge.install.connect import Change, Installation
from faultbridge.model.cluster.config import HYPERPOD, PARALLEL_CLUSTER, ClusterConfig, Mode, RepairOwner
from faultbridge.model.enums import NodeStatus
from faultbridge.model.errors import FaultbridgeError, Rejected
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace
from faultbridge.repair.registry.registration import NewNode, check_repair_owner
from faultbridge.serve.ingest.canary import CLUSTER as CANARY_CLUSTER
from faultbridge.serve.wiring.services import wire_heartbeat_log, wire_registration, wire_rejects

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
    if session.output.for_people:
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


LATE = timedelta(minutes=10)
"""A node whose last heartbeat is older than this is named; an agent sends one every 140 s."""

PERIOD = "7d"
_SHOWN = 3

FINDINGS: Columns = fields("CHECK, OF, FINDING, COMMAND")
READY: Columns = fields("CLUSTER, MODE, CASES, WOULD HAVE DONE, ESCALATED, TO ACT=command") | {
    "WOULD HAVE DONE": lambda one: (
        ", ".join(f"{count} {name}" for name, count in one["actions"].items() if count) or "nothing"
    )
}


class Finding(Struct, frozen=True):
    """Something that is missing or wrong: the check, what it is about, the problem, and the command against it."""

    check: str
    of: str
    finding: str
    command: str


@command("doctor", "", "--cluster train-a", "--ready")
def doctor(
    session: StackSession,
    cluster: AnyClusterOption = None,
    ready: Annotated[
        bool, Option(help="Show what would have been repaired in the last 7 days, and how to begin.")
    ] = False,
) -> None:
    """Look for what is missing: tags, roles, endpoints, agents, topics without subscribers, rivals.

    Exit code 1: there is a finding. With --ready, the policy in use decides again about the recorded history, as if
    Faultbridge had owned the repairs.
    """
    names = [one for one in session.cluster_names(cluster) if one != CANARY_CLUSTER]
    if ready:
        session.show([one for name in names for one in _would_have_done(session, name)], READY)
        return
    found = list(_findings(session, names))
    session.show(found, FINDINGS)
    if found:
        raise Exit(EXIT_NOT_WELL)
    session.remark("nothing is missing; `faultbridge doctor --ready` shows what would have been repaired")


def _findings(session: Session, names: list[str]) -> Iterator[Finding]:
    stack = installation(session)
    yield from _checked("topics", session.target.stack, lambda: _topics(session, stack))
    yield from _checked("queue", session.target.stack, lambda: _dead_letters(session, stack))
    if not names:
        yield Finding("clusters", session.target.stack, "no cluster is registered", "faultbridge connect --help")
    for name in names:
        config, nodes = session.directory.cluster(name).config, session.directory.nodes(name)
        if not nodes:
            command = f"faultbridge node import --cluster {name} --group GROUP"
            yield Finding("nodes", name, "no node is registered", command)
        for check, look in CHECKS.items():
            yield from _checked(check, name, partial(look, session, stack, config, nodes))


def _checked(check: str, of: str, look: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Return what a check finds; a check that fails is a finding too, because what it would find is unknown."""
    try:
        return list(look())
    except (FaultbridgeError, *AWS_ERRORS) as error:
        return [Finding(check, of, f"not checked: {error}", "grant the permission, or try again")]


def _topics(session: Session, stack: Installation) -> Iterator[Finding]:
    channels = ("PagerDutyRoutingKey", "ChatWebhooks")
    if any(stack.parameter(name) for name in channels):
        return
    for name, output in (("urgent pages", "UrgentTopicArn"), ("notices", "NoticeTopicArn")):
        arn = stack.outputs[output]
        answer = session.clients.sns.list_subscriptions_by_topic(TopicArn=arn)
        if not any(one["SubscriptionArn"].startswith("arn:") for one in answer["Subscriptions"]):
            command = f"aws sns subscribe --topic-arn {arn} --protocol email --notification-endpoint YOU@EXAMPLE.COM"
            yield Finding("topics", name, "no confirmed subscription: the pages reach no operator", command)


def _dead_letters(session: Session, stack: Installation) -> Iterator[Finding]:
    attributes: Any = ["ApproximateNumberOfMessages"]
    answer = session.clients.sqs.get_queue_attributes(
        QueueUrl=stack.outputs["RawRecordsDeadLettersUrl"], AttributeNames=attributes
    )
    count = int(answer["Attributes"]["ApproximateNumberOfMessages"])
    if count:
        yield Finding("queue", "raw records", f"{count} records failed repeatedly", "faultbridge redrive")


Nodes = tuple[NodeState, ...]


def _heartbeats(session: Session, _stack: Installation, config: ClusterConfig, nodes: Nodes) -> Iterator[Finding]:
    read = wire_heartbeat_log(session.application).read(config)
    watched = [one.key.node for one in nodes if one.status is not NodeStatus.PROVISIONING]
    missing = [name for name in watched if name not in read.last]
    late = [name for name in watched if name in read.last and read.last[name] < read.read_at - LATE]
    command = "systemctl status faultbridge-agent, on the node"
    if config.orchestrator == "eks":
        command = "kubectl --namespace faultbridge get pods --output wide"
    for names, text in ((missing, "never sent a heartbeat"), (late, f"sent none for {LATE.seconds // 60} minutes")):
        if names:
            found = f"{len(names)} of {len(watched)} nodes {text}: {_some(names)}"
            yield Finding("heartbeat", config.cluster, found, command)


def _clocks(_session: Session, _stack: Installation, config: ClusterConfig, nodes: Nodes) -> Iterator[Finding]:
    wrong = [one.key.node for one in nodes if any(it.code == "host.clock" for it in one.conditions.values())]
    if wrong:
        found = f"the clock is wrong on {len(wrong)} nodes: {_some(wrong)}"
        yield Finding("clock", config.cluster, found, "chronyc makestep, on the node")


def _rejects(session: Session, _stack: Installation, config: ClusterConfig, _nodes: Nodes) -> Iterator[Finding]:
    found = list(wire_rejects(session.application).list(config.cluster))
    if found:
        reasons = _some(sorted({one.reason for one in found}))
        command = f"faultbridge reject list --cluster {config.cluster}"
        yield Finding("records", config.cluster, f"{len(found)} records were rejected: {reasons}", command)


def _groups(session: Session, stack: Installation, config: ClusterConfig, nodes: Nodes) -> Iterator[Finding]:
    if config.provider != "ec2-auto-scaling":
        return
    for group in sorted({one.placement.group for one in nodes if one.placement.group}):
        changes = [connect.tag_group(session.clients, group, stack.tag)]
        for role in connect.roles_of_group(session.clients, group):
            changes += connect.permit_role(session.clients, role, stack)
        for change in changes:
            if not change.made:
                command = f"faultbridge connect asg {group} --cluster {config.cluster}"
                yield Finding("tag and role", change.target, f"missing: {change.what}", command)


def _endpoint(session: Session, stack: Installation, config: ClusterConfig, _nodes: Nodes) -> Iterator[Finding]:
    if config.orchestrator != "eks" or not config.eks_cluster:
        return
    name, command = config.eks_cluster, f"faultbridge connect eks {config.eks_cluster} --cluster {config.cluster}"
    found = connect.read_eks(
        session.clients, name, gpu_types=gpus_by_instance_type(), in_subnets=bool(stack.parameter("VpcSubnets"))
    )
    if not found.reachable:
        text = "the endpoint is private, and the functions run outside its VPC"
        yield Finding(
            "endpoint", name, text, "faultbridge deploy --set VpcSubnets=SUBNETS --set VpcSecurityGroups=GROUPS"
        )
    for change in connect.access_entries(session.clients, name, stack):
        if not change.made:
            yield Finding("endpoint", change.target, f"missing: {change.what}", command)


def scheduler_findings(stack: Installation, config: ClusterConfig) -> Iterator[Finding]:
    """Yield what keeps Faultbridge from draining or rebooting the nodes of a cluster through its scheduler."""
    name = config.cluster
    if config.provider == HYPERPOD and config.orchestrator == "none":
        text = (
            "no scheduler is drained, so the jobs of a repaired node end with it; Slurm needs a slurmrestd on its "
            "controller, which SSM Run Command does not reach"
        )
        yield Finding("scheduler", name, text, f"faultbridge cluster set {name} --orchestrator slurm --slurm-rest URL")
    if config.provider == PARALLEL_CLUSTER and not config.slurm_head_node:
        text = "no head node: no node can be rebooted, and no job requeued"
        yield Finding("scheduler", name, text, f"faultbridge cluster set {name} --slurm-head-node ID")
    if config.slurm_rest and not stack.parameter("SlurmTokens"):
        text = "the stack has no token of slurmrestd, so no node is drained"
        yield Finding("scheduler", name, text, "faultbridge deploy --set SlurmTokens=ARN")


def _rival(session: Session, _stack: Installation, config: ClusterConfig, _nodes: Nodes) -> Iterator[Finding]:
    acting = replace(config, mode=Mode.ACT, repair_owner=_owner(config))
    try:
        check_repair_owner(session.ports.inventories, acting)
    except Rejected as rival:
        yield Finding(
            "rival", config.cluster, rival.detail or rival.reason, "docs/runbooks/provider.md has the choices"
        )


CHECKS: Mapping[str, Callable[[Session, Installation, ClusterConfig, Nodes], Iterator[Finding]]] = {
    "heartbeat": _heartbeats,
    "clock": _clocks,
    "records": _rejects,
    "tag and role": _groups,
    "endpoint": _endpoint,
    "scheduler": lambda _session, stack, config, _nodes: scheduler_findings(stack, config),
    "rival": _rival,
}
"""The checks of one cluster, in the order of the output."""


def _owner(config: ClusterConfig) -> RepairOwner:
    return RepairOwner.FAULTBRIDGE if config.repair_owner is RepairOwner.OBSERVE else config.repair_owner


def _would_have_done(session: Session, name: str) -> Iterator[dict[str, Any]]:
    from faultbridge.cli.commands.policy.policy import History, packaged_document, policy_store, reports

    config = session.directory.cluster(name).config
    policy = policy_store(session).current() or packaged_document()
    command = f"faultbridge cluster set {name} --mode act --repair-owner {_owner(config)}"
    for one in reports(session, History(name, PERIOD), policy, None):
        counted = {title: getattr(one.replayed, title) for title in ("cases", "actions", "escalated")}
        yield {"cluster": name, "mode": str(config.mode), **counted, "command": command}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
