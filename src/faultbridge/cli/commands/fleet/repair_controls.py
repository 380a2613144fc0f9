"""`faultbridge pause`, `resume` and `breaker`: control whether repairs of a cluster may start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from faultbridge.cli.commands.options import ClusterOption, YesOption, confirm
from faultbridge.cli.render.columns import CLUSTER, cluster_document
from faultbridge.cli.render.output import Columns, Document, examples
from faultbridge.cli.render.times import json_time, short_time
from faultbridge.cli.stack.command import stack_command
from faultbridge.cli.stack.session import Session
from faultbridge.domain.cluster.breakers import domain_of

if TYPE_CHECKING:
    from faultbridge.domain.cluster.state import Control

app = typer.Typer(rich_markup_mode=None)

BREAKERS: Columns = {
    "SCOPE": lambda one: one["domain"] or "cluster",
    "STATE": lambda one: one["state"],
    "SINCE": lambda one: short_time(one["since"]),
    "FAILING": lambda one: f"{one['failing']} of {one['of']}",
}


CONTROL: Columns = {
    "Cluster": lambda one: one["cluster"],
    "Paused": CLUSTER["Paused"],
    "Repairs running": CLUSTER["Repairs running"],
}


@app.command("pause", epilog=examples("faultbridge pause --cluster train-a"))
@stack_command
def pause(session: Session, cluster: ClusterOption) -> None:
    """Pause new repairs in a cluster. A repair whose intent is recorded continues."""
    _set_paused(session, cluster, paused=True)


@app.command("resume", epilog=examples("faultbridge resume --cluster train-a"))
@stack_command
def resume(session: Session, cluster: ClusterOption) -> None:
    """Resume repairs in a cluster after a pause."""
    _set_paused(session, cluster, paused=False)


@app.command(
    "breaker", epilog=examples("faultbridge breaker --cluster train-a", "faultbridge breaker --cluster train-a --close")
)
@stack_command
def show_breakers(
    session: Session,
    cluster: ClusterOption,
    close: Annotated[
        bool, typer.Option("--close", help="Close the breakers although nodes are still failing.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Show or close the repair breakers of a cluster.

    A breaker opens when too many nodes fail at once. While it is open, no node is taken out of service.
    """
    if close:
        confirm(f"repairs of {cluster} start again although nodes are still failing", yes=yes)
    controls = session.application.repair.controls
    control = controls.close_breakers(cluster, session.operator) if close else controls.read(cluster)
    session.show(breaker_documents(control), BREAKERS)


def _set_paused(session: Session, cluster: str, *, paused: bool) -> None:
    session.application.repair.controls.pause(cluster, paused=paused, operator=session.operator)
    session.show_one(cluster_document(session.directory.cluster(cluster)), CONTROL)


def breaker_documents(control: Control) -> list[Document]:
    """Return the tripped breakers of a cluster."""
    return [
        {
            "cluster": control.cluster,
            "domain": domain_of(name),
            "state": breaker.state.value,
            "since": json_time(breaker.since),
            "failing": breaker.failing,
            "of": breaker.of,
            "stays_open": breaker.stays_open,
        }
        for name, breaker in sorted(control.breakers.items())
    ]
