"""`faultbridge node`: registers and shows nodes, and accepts an operator's orders for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from faultbridge.cli.commands.fleet.node_effect import show_effect
from faultbridge.cli.commands.fleet.node_import import IMPORT_EXAMPLES, import_nodes
from faultbridge.cli.commands.options import ClusterOption, NodeArgument, ReasonOption, YesOption, confirm
from faultbridge.cli.render.columns import NODE, NODE_HISTORY, NODE_WITHOUT_REPAIR, NODES, node_document
from faultbridge.cli.render.format_options import with_options
from faultbridge.cli.render.output import Document, examples, filled
from faultbridge.cli.render.times import FUTURE_HELP, parse_future_time
from faultbridge.cli.stack.command import stack_command
from faultbridge.cli.stack.session import Session
from faultbridge.cli.stack.waiting import WaitOption, show_awaited
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.registry.registration import NewNode
from faultbridge.registry.shown_node import shown_node_document
from faultbridge.repair.case_orders import OperatorOrder

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

    def read() -> Iterator[Document]:
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
    session.show_one(shown, NODE_WITHOUT_REPAIR if shown["no_repair"] else NODE)


@app.command("history", epilog=examples("faultbridge node history ip-10-0-0-7 --cluster train-a"))
@stack_command
def show_history(session: Session, node: NodeArgument, cluster: ClusterOption) -> None:
    """Show the instances and devices of a node, and their faults and cases, in the order of recording."""
    from faultbridge.ledger.history.node_history import NodeHistory

    key = session.directory.node(NodeKey(cluster, node)).key
    session.show((asdict(event) for event in NodeHistory(session.ports.table)(key)), NODE_HISTORY)


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
    registration = session.application.registry.registration
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
    """Add the command `faultbridge node VERB`, which records an operator's order for a node.

    - `summary`: the help text of the command
    - `reason`: the value of `--reason` in the example that the help shows
    - `effect`: what the operator must confirm, for example with `--yes`; "" if the order needs no confirmation
    """

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
        node_orders = session.application.repair.node_orders
        orders: dict[str, Callable[[NodeKey, OperatorOrder], NodeState]] = {
            "replace": partial(node_orders.replace, instance=shown),
            "quarantine": node_orders.quarantine,
            "return": node_orders.return_node,
            "retire": session.application.registry.retirement,
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
    key, order, ignore = (
        NodeKey(cluster, node),
        OperatorOrder(session.operator, reason),
        session.application.repair.opt_out,
    )
    at = parse_future_time(until, session.now())
    if at is not None and end:
        raise typer.BadParameter("conflicting options: --until and --end; give one of them")
    session.show_one(node_document(ignore.end(key, order) if end else ignore(key, order, at)), NODE)
