"""`faultbridge node`: registers and shows nodes, and accepts an operator's orders for them."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from io import StringIO
from typing import Annotated, NamedTuple

from faultbridge.cli.commands.options import (
    AnyClusterOption,
    ClusterOption,
    NodeArgument,
    ReasonOption,
    YesOption,
    confirm,
    read_text,
)
from faultbridge.cli.commands.selection import Facts, SelectionOptions, node_facts, selected, show_selected
from faultbridge.cli.declare import EXIT_NOT_WELL, Argument, BadParameter, Exit, Option, Text, Texts, command
from faultbridge.cli.render.columns import NODE, NODE_HISTORY, NODES, SHOWN_NODE, by_cluster, node_document
from faultbridge.cli.render.output import Columns, Shown, fields, filled, notice, progress
from faultbridge.cli.render.times import FUTURE_HELP, PAST_HELP, parse_future_time, parse_time
from faultbridge.cli.stack.session import ChangingSession, Session, StackSession, WaitOption
from faultbridge.model.enums import CaseStatus, NodeStatus, WaitingFor
from faultbridge.model.errors import Rejected
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.record.history import NodeHistory
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.documents import Node, shown_node_document
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.wiring.services import wire_node_orders, wire_registration, wire_retirement

POLL_SECONDS = 0.5
MAX_POLLS = 20
_UNDECIDED = frozenset({None, WaitingFor.ADMISSION})


def show_effect(session: Session, state: NodeState) -> None:
    """Wait up to 10 seconds until an order has taken effect, then print the node."""
    for _ in range(MAX_POLLS):
        if not _pending(state):
            break
        wait()
        state = session.directory.node(state.key)
    session.show_one(node_document(state), NODE)
    session.remark(_next_text(state))


def wait() -> None:
    """Wait half a second, until the next poll of the node."""
    time.sleep(POLL_SECONDS)


def _pending(state: NodeState) -> bool:
    """Return whether an operator's order has not taken effect on the node yet."""
    case = state.live_case
    if case is None or state.status is None:
        return False
    undecided = case.status in {CaseStatus.OPEN, CaseStatus.QUEUED} and case.waiting_for in _UNDECIDED
    return undecided or state.status.in_service


def _next_text(state: NodeState) -> str:
    case = state.live_case
    if case is None:
        return "the order is recorded"
    if case.status is CaseStatus.ESCALATED:
        return f"the node waits for `faultbridge node return {state.key.node} --cluster {state.key.cluster}`"
    waits = f" and waits for {case.waiting_for}" if case.waiting_for else ""
    return f"the order is recorded{waits}; `faultbridge case watch {case.id}` shows what happens next"


FIELDS = ("node", "instance_id", "group", "instance_type", "domain", "aliases")
ALIAS_SEPARATOR = ";"


class InvalidRow(NamedTuple):
    """A line of the file that is not a valid node: the line number, the node name and the problem."""

    number: int
    node: str | None
    problem: str


IMPORTED: Columns = fields("NODE, OUTCOME, INSTANCE=instance_id, REASON")


@command("node import", "--cluster train-a --group gpu-workers", "--cluster train-a nodes.csv")
def import_nodes(
    session: ChangingSession,
    cluster: ClusterOption,
    file: Annotated[
        Text, Argument("FILE", f"CSV or JSON lines with {', '.join(FIELDS)}; - reads standard input.")
    ] = None,
    group: Annotated[Text, Option("NAME", "Register the instances of this provider group.")] = None,
) -> None:
    """Register many nodes. If one node is rejected, the others are still registered.

    Exit code 1: a node was rejected.
    """
    if (file is None) == (group is None):
        raise BadParameter("give one of FILE and --group")
    read = read_nodes(file) if file is not None else _nodes_of_group(session, cluster, str(group))
    registration, nodes = wire_registration(session.application), [one for one in read if isinstance(one, NewNode)]
    if file is not None:
        registration.pin_roles_of(cluster, nodes)
    results = iter(registration.add_nodes(cluster, nodes))
    rows = []
    with progress("registering nodes", len(read)) as advance:
        for one in read:
            rows.append(_row(one, next(results) if isinstance(one, NewNode) else None))
            advance(1)
    session.show(rows, IMPORTED)
    rejected = sum(row["outcome"] == "refused" for row in rows)
    session.remark(f"registered {len(rows) - rejected} of {len(rows)} nodes")
    if rejected:
        raise Exit(EXIT_NOT_WELL)


def read_nodes(file: str) -> list[NewNode | InvalidRow]:
    """Read the nodes in a file, or in standard input for `-`; a file without nodes is a usage error."""
    text = read_text(file).removeprefix("\ufeff")
    rows = list(_json_rows(text) if text.lstrip().startswith("{") else _csv_rows(text))
    if not rows:
        raise BadParameter(f"no nodes in the file: {file}; give one node per line")
    return [_node(row, number) for number, row in rows]


def _json_rows(text: str) -> Iterator[tuple[int, object]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError:
                yield number, None


def _csv_rows(text: str) -> Iterator[tuple[int, object]]:
    reader = csv.DictReader(StringIO(text))
    try:
        unknown = sorted(set(reader.fieldnames or ()) - set(FIELDS))
        if unknown:
            raise BadParameter(f"unknown column: {', '.join(unknown)}; allowed: {', '.join(FIELDS)}")
        yield from ((reader.line_num, row) for row in reader)
    except csv.Error as error:
        raise Rejected("not_csv", f"the file is not CSV: {error}") from error


def _node(row: object, number: int) -> NewNode | InvalidRow:
    if not isinstance(row, dict):
        return InvalidRow(number, None, "not a JSON object")
    name, aliases = row.get("node"), row.get("aliases") or ()
    listed = aliases.split(ALIAS_SEPARATOR) if isinstance(aliases, str) else aliases
    texts = {field: row.get(field) or None for field in FIELDS[:-1]}
    unknown = sorted(set(row) - {*FIELDS, None})
    if None in row:
        problem = "more fields than the heading line"
    elif unknown:
        problem = f"unknown field: {', '.join(unknown)}; allowed: {', '.join(FIELDS)}"
    elif not name:
        problem = "no node name; fill the field `node`"
    elif not isinstance(listed, list | tuple) or not all(
        isinstance(one, str) for one in (*filter(None, texts.values()), *listed)
    ):
        problem = "value is not text; aliases are a list of texts, or joined by `;`"
    else:
        named = tuple(one.strip() for one in listed if one.strip())
        return NewNode(
            str(name), texts["instance_id"], texts["group"], texts["instance_type"], texts["domain"], aliases=named
        )
    return InvalidRow(number, name if isinstance(name, str) else None, problem)


def _nodes_of_group(session: Session, cluster: str, group: str) -> list[NewNode | InvalidRow]:
    """Return the instances of a provider group as nodes, and register their IAM roles, which prove records."""
    config = wire_registration(session.application).cluster(cluster)
    inventory = session.application.ports.inventories.get(config.provider)
    if inventory is None:
        raise BadParameter(f"no inventory for provider: {config.provider!r}; give a file instead of --group")
    instances = inventory.serving_instances(config, group)
    serving = sum(one.serving for one in inventory.list_members(config, [group]).get(group, {}).values())
    if serving > len(instances):
        notice(
            f"{serving - len(instances)} of {serving} instances of {group} were left out: one import reads at most "
            f"{len(instances)}; the inventory registers the others at its next runs"
        )
    wire_registration(session.application).pin_roles(config, instances)
    return [NewNode.of_instance(instance) for instance in instances]


def _row(node: NewNode | InvalidRow, result: NodeState | Rejected | None) -> dict[str, str | None]:
    if isinstance(node, InvalidRow):
        name, instance_id, problem = node.node, None, f"line {node.number}: {node.problem}"
    else:
        name, instance_id = node.name, node.instance_id
        problem = (result.detail or result.reason) if isinstance(result, Rejected) else ""
    outcome = "refused" if problem else "registered"
    return {"node": name, "instance_id": instance_id, "outcome": outcome, "reason": problem or None}


@command(
    "node list",
    "--cluster train-a",
    "--cluster train-a --status degraded --json",
    "--not-healthy --by rack",
    "--cluster train-a --never-reported",
)
def list_nodes(
    session: StackSession,
    selection: SelectionOptions,
    cluster: AnyClusterOption = None,
    status: Annotated[
        list[NodeStatus] | None, Option("STATUS", f"Only this status: {', '.join(NodeStatus)}. Repeatable.")
    ] = None,
    not_healthy: Annotated[bool, Option(help="Only nodes that are neither healthy nor retired.")] = False,
    never_reported: Annotated[bool, Option(help="Only nodes from which no report ever arrived.")] = False,
    since: Annotated[Text, Option("TIME", f"Only nodes with a fault since then. {PAST_HELP}")] = None,
    wait: WaitOption = 0,
) -> None:
    """List the nodes of a cluster, or of all clusters."""
    names, begin = session.cluster_names(cluster), parse_time(since, session.now())

    def read() -> Iterator[tuple[Shown, Facts]]:
        found = (one for name in names for one in _documents(session, name, not_healthy=not_healthy))
        unseen = (
            one for one in found if not never_reported or (one.last_report is None and one.status != NodeStatus.RETIRED)
        )
        wanted = (one for one in unseen if not status or one.status in status)
        recent = (one for one in wanted if begin is None or any(each.since >= begin for each in one.conditions))
        return selected(recent, node_facts, selection)

    show_selected(session, read, selection, by_cluster(NODES, names), wait)


def _documents(session: Session, cluster: str, *, not_healthy: bool) -> Iterator[Node]:
    view = session.directory.cluster(cluster)
    states = session.directory.unhealthy(cluster) if not_healthy else session.directory.nodes(cluster)
    reports = session.directory.reports(view, session.now())
    return (node_document(state, view.config, reports) for state in states)


@command("node show", "ip-10-0-0-7 --cluster train-a")
def show_node(session: StackSession, node: NodeArgument, cluster: ClusterOption) -> None:
    """Show the instance, the active faults and the case of a node.

    It also shows what Faultbridge does next with the node, and what an operator should do.
    """
    state = session.directory.node(NodeKey(cluster, node))
    view, now = session.directory.cluster(cluster), session.now()
    shown = shown_node_document(state, view, now, session.directory.reports(view, now))
    session.show_one(shown, SHOWN_NODE)


@command("node history", "ip-10-0-0-7 --cluster train-a")
def show_history(session: StackSession, node: NodeArgument, cluster: ClusterOption) -> None:
    """Show the instances and devices of a node, and their faults and cases, in the order of recording."""
    key = session.directory.node(NodeKey(cluster, node)).key
    session.show(NodeHistory(session.ports.table)(key), NODE_HISTORY)


@command("node add", "--cluster train-a --node n-7 \\", "    --instance-id i-0123456789abcdef0 --group gpu-workers")
def add_node(
    session: ChangingSession,
    cluster: ClusterOption,
    node: Annotated[str, Option("NODE", "Name of the node: its host name.")],
    instance_id: Annotated[Text, Option("ID", "EC2 instance id. Default: the node has no instance yet.")] = None,
    group: Annotated[Text, Option("NAME", "Auto Scaling group or launch template of the node.")] = None,
    instance_type: Annotated[Text, Option("TYPE", "EC2 instance type (p5.48xlarge).")] = None,
    domain: Annotated[Text, Option("NAME", "Failure domain, such as a rack, switch or zone.")] = None,
    alias: Annotated[Texts, Option("NAME", "Another name of the node in records. Repeatable.")] = None,
) -> None:
    """Register a node. A node with an instance is in service immediately, marked as never verified."""
    new = NewNode(node, instance_id, group, instance_type, domain, tuple(alias or ()))
    registration = wire_registration(session.application)
    registration.pin_roles_of(cluster, [new])
    document = node_document(registration.add_node(cluster, new))
    session.show_one(document, filled(NODE, document))


def _give(session: Session, state: NodeState, reason: str, give: Callable[[NodeKey, OperatorOrder], NodeState]) -> None:
    show_effect(session, give(state.key, session.order(reason)))


def _state(session: Session, cluster: str, node: str) -> NodeState:
    return session.directory.node(NodeKey(cluster, node))


def _named(state: NodeState, instance: str | None = None) -> str:
    shown = instance or (state.incarnation.instance_id if state.incarnation else None)
    return f"{state.key.stream} ({shown})" if shown else state.key.stream


@command("node replace", "n-7 --cluster train-a --reason 'burnt smell'")
def replace_node(
    session: ChangingSession,
    node: NodeArgument,
    cluster: ClusterOption,
    instance: Annotated[Text, Option("ID", "Instance to replace. Default: the instance of the node now.")] = None,
    reason: ReasonOption = "",
    yes: YesOption = False,
) -> None:
    """Replace the instance of a node within all repair limits."""
    state = _state(session, cluster, node)
    confirm(f"this releases the instance: {_named(state, instance)}", yes=yes)
    named = instance or (state.incarnation.instance_id if state.incarnation else None)
    _give(session, state, reason, partial(wire_node_orders(session.application).replace, instance=named))


@command("node quarantine", "n-7 --cluster train-a --reason 'bad cable'")
def quarantine(session: ChangingSession, node: NodeArgument, cluster: ClusterOption, reason: ReasonOption = "") -> None:
    """Take a node out of service until it is returned or replaced."""
    _give(session, _state(session, cluster, node), reason, wire_node_orders(session.application).quarantine)


@command("node return", "n-7 --cluster train-a --reason 'cable changed'")
def give_back(session: ChangingSession, node: NodeArgument, cluster: ClusterOption, reason: ReasonOption = "") -> None:
    """Return a fixed node. It is verified before it serves again."""
    _give(session, _state(session, cluster, node), reason, wire_node_orders(session.application).return_node)


@command("node retire", "n-7 --cluster train-a --reason 'rack removed'")
def retire_node(
    session: ChangingSession,
    node: NodeArgument,
    cluster: ClusterOption,
    reason: ReasonOption = "",
    yes: YesOption = False,
) -> None:
    """Remove a node from its cluster. Its timeline stays."""
    state = _state(session, cluster, node)
    confirm(f"this removes the node: {_named(state)}", yes=yes)
    _give(session, state, reason, wire_retirement(session.application).retire)


@command("node ignore", "n-7 --cluster train-a --until 4h", "n-7 --cluster train-a --end")
def ignore_node(
    session: ChangingSession,
    node: NodeArgument,
    cluster: ClusterOption,
    reason: ReasonOption = "",
    until: Annotated[Text, Option("TIME", f"End: {FUTURE_HELP}. Default: no end.")] = None,
    end: Annotated[bool, Option(help="Stop ignoring the node now.")] = False,
) -> None:
    """Ignore a node: its faults are recorded, and no repair starts."""
    key, order = NodeKey(cluster, node), session.order(reason)
    orders = wire_node_orders(session.application)
    at = parse_future_time(until, session.now())
    if at is not None and end:
        raise BadParameter("conflicting options: --until and --end; give one of them")
    state = orders.end_ignore(key, order) if end else orders.ignore(key, order, at)
    session.show_one(node_document(state), NODE)
    case = state.live_case
    if case is None or end or not session.output.for_people:
        return
    for page in session.directory.pages(case.id):
        if page.page_state == "triggered":
            text = f"the page `{page.kind}` of case {case.id} stays open and, if it is urgent, is repeated"
            notice(f"{text}; `faultbridge ack {case.id}` takes the case over and ends the repetition")
