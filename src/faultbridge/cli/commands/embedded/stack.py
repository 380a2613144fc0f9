"""`faultbridge up`, `down`, `env`, `status` and `fleet`: the embedded stack and its fake nodes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from faultbridge import local
from faultbridge.cli.commands.options import ClusterArgument, ClusterOption, Format, StackName, confirm
from faultbridge.cli.commands.records.send import sender
from faultbridge.cli.declare import EXIT_UNREACHABLE, Argument, Exit, Group, Option, command
from faultbridge.cli.render.columns import NODES, node_document
from faultbridge.cli.render.output import Columns, Document, fields, notice, print_line, show_one
from faultbridge.cli.stack.locate import DEFAULT_STACK, Target, chosen_embedded_stack, require_embedded_stack
from faultbridge.cli.stack.session import Session, StackSession, use_session
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.errors import Misconfigured, Rejected, Transient
from faultbridge.model.names import expand_host_list
from faultbridge.model.nodes import Instance, NodeKey, NodeState
from faultbridge.model.values import replace
from faultbridge.record.entry_text import duration_text
from faultbridge.repair.registry.registration import NewNode, Registration
from faultbridge.serve.ingest.send import RawInput
from faultbridge.serve.ops.backlog import OVERDUE, BacklogItem
from faultbridge.serve.wiring.services import wire_backlog, wire_registration

YesOption = Annotated[bool, Option("--yes -y", "Do not ask on a terminal.")]

STARTED: Columns = fields(
    "Stack, Event plane=endpoint, Compute plane=compute_endpoint, Console, API, Bus, Queue, Logs"
) | {
    "API": lambda one: one["outputs"].get("ApiUrl"),
    "Bus": lambda one: one["outputs"].get("EventBusName"),
    "Queue": lambda one: one["outputs"].get("RawRecordsQueueUrl"),
    "Logs": lambda one: "\n".join(one["logs"].values()),
}
STOPPED: Columns = {"Stopped": lambda one: one["stack"] if one["stopped"] else "no stack was up"}


@command("up", "", "--fresh")
def start(
    fresh: Annotated[bool, Option(help="Delete all data and start an empty stack.")] = False,
    stack: StackName = DEFAULT_STACK,
    yes: YesOption = False,
    *,
    output: Format,
) -> None:
    """Start the embedded stack: two AWS emulators on 127.0.0.1, with the same template as on AWS.

    Without --fresh, the command changes nothing if the stack is running and up to date.
    """
    if fresh:
        confirm_deletion(stack, yes=yes)
    info = local.up(fresh, notice, stack=stack)
    show_one(info.as_json(), STARTED, output)


@command("down")
def stop(stack: StackName = DEFAULT_STACK, yes: YesOption = False, *, output: Format) -> None:
    """Stop the embedded stack and delete its data."""
    confirm_deletion(stack, yes=yes)
    stopped = local.down(stack=stack, progress=notice)
    show_one({"stack": stack, "stopped": stopped}, STOPPED, output)


def confirm_deletion(stack: str, *, yes: bool) -> None:
    """Require confirmation on a terminal before the data of a running stack is deleted."""
    if sys.stdin.isatty() and local.stack_info(stack=stack) is not None:
        confirm(f"this deletes all data of the stack {stack}", yes=yes)


@command("env", '$ eval "$(faultbridge env)"', "--json")
def print_environment(stack: StackName = DEFAULT_STACK, *, output: Format) -> None:
    """Print the variables that direct boto3, the AWS CLI or Terraform to the embedded stack."""
    found = require_embedded_stack(stack).environment
    if not output.for_people:
        show_one(found, {}, output)
        return
    for name, value in found.items():
        print_line(f"export {name}={shlex.quote(value)}")


_BACKLOG: Columns = fields("Queues, Overdue=stuck, Reports, Backlog") | {
    "Queues": lambda one: "\n".join(map(_queue_text, one["queues"])),
    "Reports": lambda one: "\n".join(
        f"{each['cluster']}: agents report from {each['reporting']} of {each['nodes']}" for each in one["reports"]
    ),
    "Backlog": lambda one: "\n".join(_backlog_lines(one["waiting"])),
}
EMBEDDED: Columns = fields("Stack, Up:yes, Emulators, Repairs running=executions_running") | {
    "Emulators": lambda one: "\n".join(
        f"{each['name']} {each['endpoint']} (pid {each['pid']}{'' if each['serving'] else ', does not respond'})"
        for each in one["emulators"]
    ),
    **_BACKLOG,
}
DEPLOYED: Columns = fields("Stack, Table, Bus") | {**_BACKLOG}
BACKLOG_TITLES = {
    "unpublished": "unpublished entries",
    "timers": "timers due",
    "records": "raw records",
    "rejects": "rejected records",
    "sweep": "last sweep",
    "canary": "last canary",
    "subscriptions": "subscribers",
}
COUNTED = frozenset({"unpublished", "timers", "records", "rejects", "subscriptions"})


@command("status", "", "--json", "--region us-east-1")
def show_status(session: StackSession) -> None:
    """Show what runs, queue depths, work that is overdue by 5 minutes, and the age of each backlog.

    Exit code 69: no stack is found.
    """
    if chosen_embedded_stack(session.target) is not None:
        _show_embedded(session)
        return
    try:
        session.settings  # noqa: B018 - finds the stack on AWS, as for every other command
    except Misconfigured as error:
        if session.target.selects_aws:
            raise
        _show_embedded(session, str(error))
        return
    session.show_one(_deployed_status(session), DEPLOYED)


def _show_embedded(session: Session, problem: str = "the embedded stack is not up; `faultbridge up` starts it") -> None:
    found = local.status(stack=session.target.stack, count_overdue=lambda: wire_backlog(session.application).overdue())
    outputs = found.outputs or {}
    aws = {"table": outputs.get("TableName"), "bus": outputs.get("EventBusName")}
    waiting = backlog(session) if found.up else []
    session.show_one(
        found.as_json() | aws | {"waiting": waiting, "reports": reports(session) if found.up else []}, EMBEDDED
    )
    if not found.up:
        notice(problem)
        raise Exit(EXIT_UNREACHABLE)


def reports(session: Session) -> list[dict[str, Any]]:
    """Return for each cluster from how many of its nodes reports arrive, as the sweep last found."""
    found = ((name, session.directory.cluster(name).coverage) for name in session.cluster_names())
    return [
        {"cluster": name, "nodes": one.nodes, "reporting": one.reporting, "never_reported": len(one.never)}
        for name, one in found
        if one is not None
    ]


def backlog(session: Session) -> list[dict[str, Any]]:
    """Return a document for each kind of waiting work, for the latest sweep, and for the latest canary.

    `seconds` is the age of the oldest item, None if nothing waits or the time is unknown. `stuck` is True if it is too
    long.
    """
    now = session.now()
    return [
        {
            "what": one.what,
            "count": one.count,
            "since": one.since,
            "seconds": int((now - one.since).total_seconds()) if one.since else None,
            "stuck": one.stuck,
            "note": one.note,
        }
        for one in (*wire_backlog(session.application).list(), _queued_records(session, now))
    ]


def _queued_records(session: Session, now: datetime) -> BacklogItem:
    from faultbridge.adapters.aws.messaging import queue_age

    count = session.ports.queue.depth().waiting
    age = queue_age(session.clients, session.settings.queue_url.rsplit("/", 1)[-1], now) if count else None
    note = "age unknown: CloudWatch has no data" if count and age is None else ""
    since = now - age if age is not None else None
    return BacklogItem("records", count, since, stuck=age is not None and age > OVERDUE, note=note)


def _deployed_status(session: Session) -> dict[str, Any]:
    from faultbridge.adapters.aws.messaging import SqsQueue

    settings = session.settings
    depth = SqsQueue(session.clients, settings.queue_url, settings.dead_letter_queue_url).depth()
    queues = [
        _queue(settings.queue_url.rsplit("/", 1)[-1], depth.waiting, depth.in_flight, dead_letters=False),
        _queue("dead letters", depth.dead, 0, dead_letters=True),
    ]
    for queue, name in zip(session.cloud_events or (), ("cloud events' dead letters", "cloud events"), strict=False):
        depth = queue.depth()
        queues.append(_queue(name, depth.waiting, depth.in_flight, dead_letters="dead" in name))
    found = local.StackStatus(settings.stack, up=True, stuck=wire_backlog(session.application).overdue()).as_json()
    aws = {"table": settings.table, "bus": settings.bus, "queues": queues, "executions_running": None}
    return found | aws | {"waiting": [*backlog(session), _subscriptions(session)], "reports": reports(session)}


def _subscriptions(session: Session) -> dict[str, Any]:
    """Return a row about the subscriptions of the urgent topic: without any, alarms and urgent pages are not seen."""
    from faultbridge.adapters.paging import confirmed_subscriptions

    row = {"what": "subscriptions", "since": None, "seconds": None}
    try:
        count = confirmed_subscriptions(session.clients, session.settings.urgent_topic)
    except (Misconfigured, Transient) as error:
        return row | {"count": 0, "stuck": False, "note": str(error)}
    note = "" if count else "the urgent topic has no confirmed subscription: subscribe the operators (docs/pages.md)"
    return row | {"count": count, "stuck": not count, "note": note}


def _queue(name: str, waiting: int, in_flight: int, *, dead_letters: bool) -> dict[str, Any]:
    return {"name": name, "logical_id": None, "waiting": waiting, "in_flight": in_flight, "dead_letters": dead_letters}


def _queue_text(one: Document) -> str:
    kind = " (dead letters)" if one["dead_letters"] and "dead letters" not in one["name"] else ""
    return f"{one['name']}{kind}: {one['waiting']} waiting, {one['in_flight']} in flight"


def _backlog_lines(rows: Iterable[Document]) -> Iterator[str]:
    width = max(map(len, BACKLOG_TITLES.values()))
    for one in rows:
        age = duration_text(one["seconds"] * 1000) if one["seconds"] is not None else ""
        count = str(one["count"]) if one["what"] in COUNTED else ""
        since = (f"oldest {age}" if count else f"{age} ago") if age else "" if count else "never"
        parts = [text for text in (count, since, "STUCK" if one["stuck"] else "", one["note"]) if text]
        yield f"{BACKLOG_TITLES[one['what']]:<{width}}  {', '.join(parts)}"


# The faults that `faultbridge fleet break` injects into nodes of the embedded stack.

# The link is listed as configured: an unused link may be down, and that is no fault.
_LINK = (
    '{"interfaces": [{"ifname": "ib0", "flags": ["BROADCAST", "UP"%s], "operstate": "%s", "link_type": "infiniband"}],'
    ' "configured": ["ib0"]}'
)
LINK_UP = _LINK % (', "LOWER_UP"', "UP")
"""A health snapshot of the links of a node in which no link is down."""


class FleetFault(StrEnum):
    """The names of the faults that can be injected into nodes of the embedded stack."""

    GPU_LOST = "gpu-lost"
    GPU_MEMORY = "gpu-memory"
    LINK_DOWN = "link-down"


class Injection(NamedTuple):
    """One injected fault: its record, whether diagnostics fail, and whether only until a `reset`."""

    source: str
    record: str
    fails_diagnostics: bool = True
    until: str | None = None


INJECTIONS: Mapping[FleetFault, Injection] = {
    FleetFault.GPU_LOST: Injection(
        "kernel-log", "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n"
    ),
    FleetFault.GPU_MEMORY: Injection(
        "kernel-log",
        "NVRM: Xid (PCI:0000:c1:00): 48, pid=1234, name=python, An uncorrectable double bit error (DBE) has been"
        " detected on GPU.\n",
        until="reset",
    ),
    FleetFault.LINK_DOWN: Injection("link-state", _LINK % ("", "DOWN"), fails_diagnostics=False),
}


NODE_NAME = "gpu-{}"
NO_PROVIDER = "none"
CHANGED: Columns = fields("NODE, INSTANCE=instance_id, CHANGE")
NodesArgument = Annotated[list[str], Argument("NODE...", "Nodes, or host lists such as gpu-[1-4].")]


def _embedded_session(output: Format, stack: StackName = DEFAULT_STACK) -> Session:
    require_embedded_stack(stack)
    return use_session(Session(Target(stack), output, embedded=True))


EmbeddedSession = Annotated[Session, Group(_embedded_session)]


@command("fleet create", "lab", "lab --nodes 16")
def create(
    session: EmbeddedSession,
    cluster: ClusterArgument,
    nodes: Annotated[int, Option("N", "Number of nodes: gpu-1 to gpu-N.", min=1, max=64)] = 8,
    mode: Annotated[Mode, Option(help="Mode of the cluster.")] = Mode.ACT,
) -> None:
    """Create a cluster of fake GPU nodes on the embedded stack, and register it.

    In the default mode `act`, Faultbridge repairs the nodes.
    """
    from faultbridge.adapters.ec2.inventory import Ec2Inventory

    registration = wire_registration(session.application)
    config = ClusterConfig(cluster, mode=mode, repair_owner=RepairOwner.FAULTBRIDGE)
    registration.add_cluster(replace(config, provider=NO_PROVIDER))
    local.create_fleet(cluster, nodes, stack=session.target.stack)
    add_fleet(registration, config, Ec2Inventory(session.clients).serving_instances(config, cluster))
    session.show(map(node_document, session.directory.nodes(cluster)), NODES)


def add_fleet(registration: Registration, config: ClusterConfig, instances: Iterable[Instance]) -> None:
    """Register instances as `gpu-1` and so on; the provider is set last, because its inventory would rename them."""
    for number, instance in enumerate(instances, 1):
        registration.add_node(config.cluster, replace(NewNode.of_instance(instance), name=NODE_NAME.format(number)))
    registration.set_cluster(config.cluster, {"provider": config.provider})


@command("fleet break", "gpu-1 --cluster lab", "'gpu-[1-4]' --cluster lab --fault link-down")
def break_nodes(
    session: EmbeddedSession,
    nodes: NodesArgument,
    cluster: ClusterOption,
    fault: Annotated[FleetFault, Option(help="Fault to inject.")] = FleetFault.GPU_LOST,
) -> None:
    """Break nodes of the embedded stack: each node reports the fault as a real node does.

    With gpu-lost and gpu-memory, the diagnostics of the instance also fail until the instance is replaced or the node
    is healed. A GPU reset also repairs gpu-memory. With link-down, the node reports that a network link is down.
    """
    chosen, endpoint = INJECTIONS[fault], require_embedded_stack(session.target.stack).compute_endpoint
    states = list(_states(session, cluster, nodes))
    for state in states:
        if chosen.fails_diagnostics:
            local.break_diagnostics(endpoint, _instance(state), until=chosen.until)
    _send(session, states, chosen.source, chosen.record)
    _show(session, states, f"{fault} injected and reported")


@command("fleet heal", "gpu-1 --cluster lab")
def heal_nodes(session: EmbeddedSession, nodes: NodesArgument, cluster: ClusterOption) -> None:
    """Heal the hardware of nodes: diagnostics pass again, and links are reported as up.

    The command returns no node to service. For a node with an escalated case, use `faultbridge node return`.
    """
    states = list(_states(session, cluster, nodes))
    for state in states:
        local.heal_instance(require_embedded_stack(session.target.stack).compute_endpoint, _instance(state))
    _send(session, states, "link-state", LINK_UP)
    _show(session, states, "healed")


def _states(session: Session, cluster: str, nodes: Iterable[str]) -> Iterator[NodeState]:
    for node in dict.fromkeys(one for given in nodes for one in expand_host_list(given)):
        yield session.directory.node(NodeKey(cluster, node))


def _instance(state: NodeState) -> str:
    instance = state.incarnation.instance_id if state.incarnation else None
    if instance is None:
        raise Rejected("no_instance", f"node has no instance: {state.key.node}")
    return instance


def _send(session: Session, states: Iterable[NodeState], source: str, record: str) -> None:
    body = record.encode()
    sender(session)(
        # As the agent does, a record names its instance: right after a replacement, the node alone is ambiguous.
        RawInput(source, state.key.cluster, body, node=state.key.node, instance_id=_instance(state))
        for state in states
    )


def _show(session: Session, states: Iterable[NodeState], change: str) -> None:
    rows = [
        {"cluster": state.key.cluster, "node": state.key.node, "instance_id": _instance(state), "change": change}
        for state in states
    ]
    session.show(rows, CHANGED)
    session.remark(f"`faultbridge timeline --cluster {rows[0]['cluster']} --follow` shows what happens next")
