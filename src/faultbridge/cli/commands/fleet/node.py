"""`faultbridge node`: registers and shows nodes, and accepts an operator's orders for them."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from io import StringIO
from typing import Annotated, Any

import typer

from faultbridge.cli.commands.options import (
    ClusterOption,
    NodeArgument,
    ReasonOption,
    YesOption,
    confirm,
    read_text,
    with_options,
)
from faultbridge.cli.errors import EXIT_NOT_WELL
from faultbridge.cli.render.columns import NODE, NODE_HISTORY, NODE_WITHOUT_REPAIR, NODES, node_document
from faultbridge.cli.render.output import Columns, examples, fields, filled, notice, progress
from faultbridge.cli.render.times import FUTURE_HELP, parse_future_time
from faultbridge.cli.stack.command import WaitOption, show_awaited, stack_command
from faultbridge.cli.stack.session import Session
from faultbridge.model.enums import CaseStatus, NodeStatus, WaitingFor
from faultbridge.model.errors import Rejected
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.documents import Node, shown_node_document
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.wiring.repairing import wire_node_orders
from faultbridge.serve.wiring.services import wire_registration, wire_retirement

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
    if session.prints_table:
        notice(_next_text(state))


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


IMPORT_EXAMPLES = examples(
    "faultbridge node import --cluster train-a --group gpu-workers",
    "faultbridge node import --cluster train-a nodes.csv",
)
FIELDS = ("node", "instance_id", "group", "instance_type", "domain", "aliases")
ALIAS_SEPARATOR = ";"


@dataclass(frozen=True, slots=True)
class InvalidRow:
    """A line of the file that is not a valid node: the line number, the node name and the problem."""

    number: int
    node: str | None
    problem: str


IMPORTED: Columns = fields("NODE", "OUTCOME", "INSTANCE=instance_id", "REASON")


@stack_command
def import_nodes(
    session: Session,
    cluster: ClusterOption,
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help=f"CSV or JSON lines with {', '.join(FIELDS)}; - reads standard input."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="Register the instances of this provider group.")
    ] = None,
) -> None:
    """Register many nodes. If one node is rejected, the others are still registered.

    Exit code 1: a node was rejected.
    """
    if (file is None) == (group is None):
        raise typer.BadParameter("give one of FILE and --group")
    read = read_nodes(file) if file is not None else _nodes_of_group(session, cluster, str(group))
    registration, nodes = wire_registration(session.application), [one for one in read if isinstance(one, NewNode)]
    if file is not None:
        registration.pin_roles_of(cluster, nodes)
    results = iter(registration.add_nodes(cluster, nodes))
    rows = []
    with progress("registering nodes", len(read)) as advance:
        for one in read:
            rows.append(_row(one, next(results)) if isinstance(one, NewNode) else _invalid(one))
            advance(1)
    session.show(rows, IMPORTED)
    rejected = sum(row["outcome"] == "refused" for row in rows)
    if session.prints_table:
        notice(f"registered {len(rows) - rejected} of {len(rows)} nodes")
    if rejected:
        raise typer.Exit(EXIT_NOT_WELL)


def read_nodes(file: str) -> list[NewNode | InvalidRow]:
    """Read the nodes in a file, or in standard input for `-`; a file without nodes is a usage error."""
    text = read_text(file).removeprefix("\ufeff")
    rows = list(_json_rows(text) if text.lstrip().startswith("{") else _csv_rows(text))
    if not rows:
        raise typer.BadParameter(f"no nodes in the file: {file}; give one node per line")
    return [row if isinstance(row, InvalidRow) else _node(row, number) for number, row in rows]


def _json_rows(text: str) -> Iterator[tuple[int, Mapping[str, Any] | InvalidRow]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        yield number, row if isinstance(row, dict) else InvalidRow(number, None, "not a JSON object")


def _csv_rows(text: str) -> Iterator[tuple[int, Mapping[str, Any] | InvalidRow]]:
    reader = csv.DictReader(StringIO(text))
    try:
        unknown = sorted(set(reader.fieldnames or ()) - set(FIELDS))
        if unknown:
            raise typer.BadParameter(f"unknown column: {', '.join(unknown)}; allowed: {', '.join(FIELDS)}")
        for row in reader:
            number, extra = reader.line_num, None in row
            yield number, InvalidRow(number, row.get("node"), "more fields than the heading line") if extra else row
    except csv.Error as error:
        raise Rejected("not_csv", f"the file is not CSV: {error}") from error


def _node(row: Mapping[str, Any], number: int) -> NewNode | InvalidRow:
    name, aliases = row.get("node"), row.get("aliases") or ()
    listed = aliases.split(ALIAS_SEPARATOR) if isinstance(aliases, str) else aliases
    texts = {field: row.get(field) or None for field in FIELDS[:-1]}
    unknown = sorted(set(row) - set(FIELDS))
    if unknown:
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
        raise typer.BadParameter(f"no inventory for provider: {config.provider!r}; give a file instead of --group")
    instances = inventory.serving_instances(config, group)
    serving = sum(one.serving for one in inventory.list_members(config, [group]).get(group, {}).values())
    if serving > len(instances):
        notice(
            f"{serving - len(instances)} of {serving} instances of {group} were left out: one import reads at most "
            f"{len(instances)}; the inventory registers the others at its next runs"
        )
    wire_registration(session.application).pin_roles(config, instances)
    return [NewNode.of_instance(instance) for instance in instances]


def _row(node: NewNode, result: NodeState | Rejected) -> dict[str, str | None]:
    rejected = result if isinstance(result, Rejected) else None
    return {
        "node": node.name,
        "instance_id": node.instance_id,
        "outcome": "refused" if rejected else "registered",
        "reason": (rejected.detail or rejected.reason) if rejected else None,
    }


def _invalid(row: InvalidRow) -> dict[str, str | None]:
    return {"node": row.node, "instance_id": None, "outcome": "refused", "reason": f"line {row.number}: {row.problem}"}


app = typer.Typer(rich_markup_mode=None)


@app.command(
    "list",
    epilog=examples(
        "faultbridge node list --cluster train-a", "faultbridge node list --cluster train-a --status degraded --json"
    ),
)
@stack_command
def list_nodes(
    session: Session,
    cluster: ClusterOption,
    status: Annotated[
        list[NodeStatus] | None,
        typer.Option(metavar="STATUS", help=f"Only this status: {', '.join(NodeStatus)}. Repeatable."),
    ] = None,
    wait: WaitOption = 0,
) -> None:
    """List the nodes of a cluster."""

    def read() -> Iterator[Node]:
        nodes = session.directory.nodes(cluster)
        return (node_document(state) for state in nodes if not status or state.status in status)

    show_awaited(session, read, NODES, wait)


@app.command("show", epilog=examples("faultbridge node show ip-10-0-0-7 --cluster train-a"))
@stack_command
def show_node(session: Session, node: NodeArgument, cluster: ClusterOption) -> None:
    """Show the instance, the active faults and the case of a node.

    If a node in service has faults and no live case, the command also shows why no repair starts.
    """
    state = session.directory.node(NodeKey(cluster, node))
    shown = shown_node_document(state, session.directory.cluster(cluster).config, session.now())
    session.show_one(shown, NODE_WITHOUT_REPAIR if shown.no_repair else NODE)


@app.command("history", epilog=examples("faultbridge node history ip-10-0-0-7 --cluster train-a"))
@stack_command
def show_history(session: Session, node: NodeArgument, cluster: ClusterOption) -> None:
    """Show the instances and devices of a node, and their faults and cases, in the order of recording."""
    from faultbridge.record.history import NodeHistory

    key = session.directory.node(NodeKey(cluster, node)).key
    session.show(NodeHistory(session.ports.table)(key), NODE_HISTORY)


@app.command(
    "add",
    epilog=examples(
        "faultbridge node add --cluster train-a --node n-7 \\",
        "    --instance-id i-0123456789abcdef0 --group gpu-workers",
    ),
)
@stack_command
def add_node(
    session: Session,
    cluster: ClusterOption,
    node: Annotated[str, typer.Option(metavar="NODE", help="Name of the node: its host name.")],
    instance_id: Annotated[
        str | None, typer.Option(metavar="ID", help="EC2 instance id. Default: the node has no instance yet.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="Auto Scaling group or launch template of the node.")
    ] = None,
    instance_type: Annotated[str | None, typer.Option(metavar="TYPE", help="EC2 instance type (p5.48xlarge).")] = None,
    domain: Annotated[
        str | None, typer.Option(metavar="NAME", help="Failure domain, such as a rack, switch or zone.")
    ] = None,
    alias: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Another name of the node in records. Repeatable.")
    ] = None,
) -> None:
    """Register a node. A node with an instance is in service immediately, marked as never verified."""
    new = NewNode(node, instance_id, group, instance_type, domain, tuple(alias or ()))
    registration = wire_registration(session.application)
    registration.pin_roles_of(cluster, [new])
    document = node_document(registration.add_node(cluster, new))
    session.show_one(document, filled(NODE, document))


app.command("import", epilog=IMPORT_EXAMPLES)(import_nodes)


def _confirmed_by_option(yes: YesOption = False) -> bool:
    return yes


def _needs_no_confirmation() -> bool:
    return True


def _instance_by_option(
    instance: Annotated[
        str | None, typer.Option(metavar="ID", help="Instance to replace. Default: the instance of the node now.")
    ] = None,
) -> str | None:
    return instance


def _names_no_instance() -> None:
    return None


def _add_order(verb: str, summary: str, reason: str, effect: str = "") -> None:
    """Add the command `faultbridge node VERB` for an operator's order; an `effect` must be confirmed."""

    @app.command(
        verb, epilog=examples(f"faultbridge node {verb} n-7 --cluster train-a --reason '{reason}'"), help=summary
    )
    @stack_command
    @with_options(
        instance=_instance_by_option if verb == "replace" else _names_no_instance,
        yes=_confirmed_by_option if effect else _needs_no_confirmation,
    )
    def give_order(
        session: Session,
        node: NodeArgument,
        cluster: ClusterOption,
        reason: ReasonOption = "",
        *,
        instance: str | None,
        yes: bool,
    ) -> None:
        state = session.directory.node(NodeKey(cluster, node))
        key, backing = state.key, state.incarnation.instance_id if state.incarnation else None
        shown = instance or backing
        confirm(f"{effect}: {cluster}/{node}{f' ({shown})' if shown else ''}", yes=yes)
        node_orders = wire_node_orders(session.application)
        orders: dict[str, Callable[[NodeKey, OperatorOrder], NodeState]] = {
            "replace": partial(node_orders.replace, instance=shown),
            "quarantine": node_orders.quarantine,
            "return": node_orders.return_node,
            "retire": wire_retirement(session.application).retire,
        }
        ordered = orders[verb](key, OperatorOrder(session.operator, reason))
        show_effect(session, ordered)


_add_order(
    "replace", "Replace the instance of a node within all repair limits.", "burnt smell", "this releases the instance"
)
_add_order("quarantine", "Take a node out of service until it is returned or replaced.", "bad cable")
_add_order("return", "Return a fixed node. It is verified before it serves again.", "cable changed")
_add_order("retire", "Remove a node from its cluster. Its timeline stays.", "rack removed", "this removes the node")


@app.command(
    "ignore",
    epilog=examples(
        "faultbridge node ignore n-7 --cluster train-a --until 4h",
        "faultbridge node ignore n-7 --cluster train-a --end",
    ),
)
@stack_command
def ignore_node(
    session: Session,
    node: NodeArgument,
    cluster: ClusterOption,
    reason: ReasonOption = "",
    until: Annotated[str | None, typer.Option(metavar="TIME", help=f"End: {FUTURE_HELP}. Default: no end.")] = None,
    end: Annotated[bool, typer.Option("--end", help="Stop ignoring the node now.")] = False,
) -> None:
    """Ignore a node: its faults are recorded, and no repair starts."""
    key, order = NodeKey(cluster, node), OperatorOrder(session.operator, reason)
    orders = wire_node_orders(session.application)
    at = parse_future_time(until, session.now())
    if at is not None and end:
        raise typer.BadParameter("conflicting options: --until and --end; give one of them")
    session.show_one(node_document(orders.end_ignore(key, order) if end else orders.ignore(key, order, at)), NODE)
