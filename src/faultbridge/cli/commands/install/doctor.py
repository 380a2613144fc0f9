"""`faultbridge doctor`: looks for what keeps faults from arriving or pages from being read, each with its command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any

from msgspec import Struct

from faultbridge.adapters.aws.errors import AWS_ERRORS
from faultbridge.cli.commands.install.connect import installation
from faultbridge.cli.commands.options import AnyClusterOption
from faultbridge.cli.commands.policy.policy import History, packaged_document, policy_store, reports
from faultbridge.cli.declare import EXIT_NOT_WELL, Exit, Option, command
from faultbridge.cli.render.output import Columns, fields
from faultbridge.cli.stack.session import Session, StackSession
from faultbridge.decode.data import gpus_by_instance_type
from faultbridge.install import connect
from faultbridge.install.connect import Installation
from faultbridge.model.cluster.config import HYPERPOD, PARALLEL_CLUSTER, ClusterConfig, Mode, RepairOwner
from faultbridge.model.enums import NodeStatus
from faultbridge.model.errors import FaultbridgeError, Rejected
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace
from faultbridge.repair.registry.registration import check_repair_owner
from faultbridge.serve.ingest.canary import CLUSTER as CANARY_CLUSTER
from faultbridge.serve.wiring.services import wire_heartbeat_log, wire_rejects

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
        checks: Mapping[str, Callable[[], Iterator[Finding]]] = {
            "nodes": lambda: _nodes(config, nodes),  # noqa: B023 - called in this turn
            "heartbeat": lambda: _heartbeats(session, config, nodes),  # noqa: B023 - as above
            "clock": lambda: _clocks(config, nodes),  # noqa: B023 - as above
            "records": lambda: _rejects(session, config),  # noqa: B023 - as above
            "tag and role": lambda: _groups(session, stack, config, nodes),  # noqa: B023 - as above
            "endpoint": lambda: _endpoint(session, stack, config),  # noqa: B023 - as above
            "scheduler": lambda: scheduler_findings(stack, config),  # noqa: B023 - as above
            "rival": lambda: _rival(session, config),  # noqa: B023 - as above
        }
        for check, look in checks.items():
            yield from _checked(check, name, look)


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


def _nodes(config: ClusterConfig, nodes: tuple[NodeState, ...]) -> Iterator[Finding]:
    if not nodes:
        command = f"faultbridge node import --cluster {config.cluster} --group GROUP"
        yield Finding("nodes", config.cluster, "no node is registered", command)


def _heartbeats(session: Session, config: ClusterConfig, nodes: tuple[NodeState, ...]) -> Iterator[Finding]:
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


def _clocks(config: ClusterConfig, nodes: tuple[NodeState, ...]) -> Iterator[Finding]:
    wrong = [one.key.node for one in nodes if any(it.code == "host.clock" for it in one.conditions.values())]
    if wrong:
        found = f"the clock is wrong on {len(wrong)} nodes: {_some(wrong)}"
        yield Finding("clock", config.cluster, found, "chronyc makestep, on the node")


def _rejects(session: Session, config: ClusterConfig) -> Iterator[Finding]:
    found = list(wire_rejects(session.application).list(config.cluster))
    if found:
        reasons = _some(sorted({one.reason for one in found}))
        command = f"faultbridge reject list --cluster {config.cluster}"
        yield Finding("records", config.cluster, f"{len(found)} records were rejected: {reasons}", command)


def _groups(
    session: Session, stack: Installation, config: ClusterConfig, nodes: tuple[NodeState, ...]
) -> Iterator[Finding]:
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


def _endpoint(session: Session, stack: Installation, config: ClusterConfig) -> Iterator[Finding]:
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


def _rival(session: Session, config: ClusterConfig) -> Iterator[Finding]:
    acting = replace(config, mode=Mode.ACT, repair_owner=_owner(config))
    try:
        check_repair_owner(session.ports.inventories, acting)
    except Rejected as rival:
        yield Finding(
            "rival", config.cluster, rival.detail or rival.reason, "docs/runbooks/provider.md has the choices"
        )


def _owner(config: ClusterConfig) -> RepairOwner:
    return RepairOwner.FAULTBRIDGE if config.repair_owner is RepairOwner.OBSERVE else config.repair_owner


def _would_have_done(session: Session, name: str) -> Iterator[dict[str, Any]]:
    config = session.directory.cluster(name).config
    policy = policy_store(session).current() or packaged_document()
    command = f"faultbridge cluster set {name} --mode act --repair-owner {_owner(config)}"
    for one in reports(session, History(name, PERIOD), policy, None):
        counted = {title: one["replayed"][title] for title in ("cases", "actions", "escalated")}
        yield {"cluster": name, "mode": str(config.mode), **counted, "command": command}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
