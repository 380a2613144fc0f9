"""`faultbridge node`: which nodes a cluster has, who sits there, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from faultbridge.cli.documents import NODE, NODES, node_document
from faultbridge.cli.failures import EXIT_NOT_WELL
from faultbridge.cli.output import Columns, notice
from faultbridge.cli.progress import progress
from faultbridge.cli.seats import read_seats
from faultbridge.cli.session import Session, on_stack
from faultbridge.cli.times import COMING, coming
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.errors import Rejected
from faultbridge.registry.registration import NewNode
from faultbridge.repair.case_orders import CaseOrder

app = typer.Typer(rich_markup_mode=None)

Cluster = Annotated[str, typer.Option("--cluster", help="The cluster.")]
Named = Annotated[str, typer.Argument(metavar="NODE", help="The node.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, in a few words; it goes on the record.")]
IMPORTED: Columns = {
    "NODE": lambda one: one["node"],
    "OUTCOME": lambda one: one["outcome"],
    "INSTANCE": lambda one: one["instance_id"],
    "REASON": lambda one: one["reason"],
}


@app.command("list", epilog="Example: faultbridge node list --cluster train-a --status degraded")
@on_stack
def list_nodes(
    session: Session,
    cluster: Cluster,
    status: Annotated[list[NodeStatus] | None, typer.Option(help="Only nodes of this status; repeatable.")] = None,
) -> None:
    """List the nodes of a cluster."""
    nodes = (state for state in session.directory.nodes(cluster) if not status or state.status in status)
    session.show(map(node_document, nodes), NODES)


@app.command("show", epilog="Example: faultbridge node show ip-10-0-0-7 --cluster train-a")
@on_stack
def show_node(session: Session, node: Named, cluster: Cluster) -> None:
    """Show a node: who sits there, what is wrong with it, its case."""
    session.show_one(node_document(session.directory.node(NodeKey(cluster, node))), NODE)


@app.command(
    "add", epilog="Example: faultbridge node add --cluster train-a --node n-7 --instance-id i-0123456789abcdef0"
)
@on_stack
def add_node(
    session: Session,
    cluster: Cluster,
    node: Annotated[str, typer.Option(help="What the node is called: its host name.")],
    instance_id: Annotated[str | None, typer.Option(help="Who sits there; without one the node is empty.")] = None,
    group: Annotated[str | None, typer.Option(help="The Auto Scaling group or launch template of the node.")] = None,
    instance_type: Annotated[str | None, typer.Option(help="Such as p5.48xlarge.")] = None,
    domain: Annotated[str | None, typer.Option(help="What shares its fate: a rack, a switch, a zone.")] = None,
    alias: Annotated[list[str] | None, typer.Option(help="Another name that records use; repeatable.")] = None,
) -> None:
    """Register a node. With an instance it serves at once, though it was never verified."""
    new = NewNode(node, instance_id, group, instance_type, domain, tuple(alias or ()))
    session.show_one(node_document(session.application.registration.add_node(cluster, new)), NODE)


@app.command("import", epilog="Example: faultbridge node import --cluster train-a --group gpu-workers")
@on_stack
def import_nodes(
    session: Session,
    cluster: Cluster,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE|-]", help="CSV or JSON lines: node, instance_id, group, ...")
    ] = None,
    group: Annotated[str | None, typer.Option(help="Take the instances of a group of the provider.")] = None,
) -> None:
    """Register a running fleet; a node that is refused does not stop the others. Exit code 1 when one was."""
    if (file is None) == (group is None):
        raise typer.BadParameter("give either a file or --group")
    seats = read_seats(file) if file is not None else _of_group(session, cluster, str(group))
    registered = session.application.registration.add_nodes(cluster, seats)
    with progress("registering nodes", len(seats)) as advance:
        rows = [_row(placement, one, advance(1)) for placement, one in zip(seats, registered, strict=True)]
    session.show(rows, IMPORTED)
    refused = sum(row["outcome"] == "refused" for row in rows)
    if session.for_people:
        notice(f"{len(rows) - refused} of {len(rows)} nodes are registered")
    if refused:
        raise typer.Exit(EXIT_NOT_WELL)


def _ordered(word: str, does: str, example: str) -> None:
    """Add a command by which a person orders something about a node."""

    @app.command(word, epilog=f"Example: faultbridge node {word} n-7 --cluster train-a --reason '{example}'", help=does)
    @on_stack
    def order(session: Session, node: Named, cluster: Cluster, reason: Reason = "") -> None:
        taken = session.application.node_orders
        orders: dict[str, Callable[[NodeKey, CaseOrder], NodeState]] = {
            "replace": taken.replace,
            "quarantine": taken.quarantine,
            "return": taken.give_back,
            "retire": session.application.retire,
        }
        session.show_one(node_document(orders[word](NodeKey(cluster, node), CaseOrder(session.operator, reason))), NODE)


_ordered("replace", "Have a node replaced, within the budget, the windows and the breakers.", "burnt smell")
_ordered("quarantine", "Keep work off a node until you return it or have it replaced.", "cable to be changed")
_ordered("return", "Give a node back that a person had: it is verified, and serves again.", "cable changed")
_ordered("retire", "Take a node out of its cluster; its record stays.", "rack given up")


@app.command("ignore", epilog="Example: faultbridge node ignore n-7 --cluster train-a --until 4h")
@on_stack
def ignore_node(
    session: Session,
    node: Named,
    cluster: Cluster,
    reason: Reason = "",
    until: Annotated[str | None, typer.Option(help=f"Until when ({COMING}); without it until --end.")] = None,
    end: Annotated[bool, typer.Option("--end", help="Look after it again.")] = False,
) -> None:
    """Leave a node alone: what happens to it is recorded, and nothing is done about it."""
    key, order, ignore = NodeKey(cluster, node), CaseOrder(session.operator, reason), session.application.ignore
    at = coming(until, session.now())
    if at is not None and end:
        raise typer.BadParameter("--until goes without --end")
    session.show_one(node_document(ignore.end(key, order) if end else ignore(key, order, at)), NODE)


def _of_group(session: Session, cluster: str, group: str) -> list[NewNode]:
    config = session.application.registration.cluster(cluster)
    inventory = session.application.inventories().get(config.provider)
    if inventory is None:
        raise typer.BadParameter(f"nothing lists the machines of provider {config.provider!r}; give a file")
    return [NewNode.of_machine(machine) for machine in inventory.machines(config, group)]


def _row(placement: NewNode, registered: NodeState | Rejected, _advanced: None) -> dict[str, str | None]:
    refused = registered if isinstance(registered, Rejected) else None
    return {
        "node": placement.name,
        "instance_id": placement.instance_id,
        "outcome": "refused" if refused else "registered",
        "reason": (refused.detail or refused.reason) if refused else None,
    }
