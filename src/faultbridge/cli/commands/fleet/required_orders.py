"""`faultbridge stuck`: lists the nodes and cases that wait for an operator's command."""

from __future__ import annotations

import typer

from faultbridge.cli.commands.options import AnyClusterOption
from faultbridge.cli.render.output import Columns, Document, examples
from faultbridge.cli.stack.command import stack_command
from faultbridge.cli.stack.session import Session
from faultbridge.ops.required_orders import StuckNode, StuckNodes

app = typer.Typer(rich_markup_mode=None)

STUCK: Columns = {
    "NODE": lambda one: one["node"],
    "STATUS": lambda one: one["status"],
    "COMMAND": lambda one: one["command"],
    "REASON": lambda one: one["reason"],
}


@app.command("stuck", epilog=examples("faultbridge stuck", "faultbridge stuck --cluster train-a --json"))
@stack_command
def list_stuck(
    session: Session,
    cluster: AnyClusterOption = None,
) -> None:
    """List the nodes and cases that wait for an operator's command, with the command.

    Everything that is not listed is final or continues by itself.
    """
    stuck_nodes = StuckNodes(session.directory, session.ports.clock)
    clusters = session.cluster_names(cluster)
    session.show((_document(one) for name in clusters for one in stuck_nodes(name)), STUCK)


def _document(stuck: StuckNode) -> Document:
    state, case = stuck.state, stuck.state.live_case
    return {
        "cluster": state.key.cluster,
        "node": state.key.node,
        "status": state.status.value if state.status else None,
        "case": case.id if case else None,
        "case_status": case.status.value if case else None,
        "reason": stuck.order.reason,
        "command": stuck.order.command,
    }
