"""`faultbridge breaker`: whether too many nodes fail at once for anything to be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from faultbridge.cli.output import Columns, Document
from faultbridge.cli.session import Session, on_stack
from faultbridge.cli.times import short
from faultbridge.domain.breakers import domain_of
from faultbridge.domain.times import to_text

if TYPE_CHECKING:
    from faultbridge.domain.clusters import Control

EPILOG = "Example: faultbridge breaker --cluster train-a --close"

BREAKERS: Columns = {
    "SCOPE": lambda one: one["domain"] or "the cluster",
    "STATE": lambda one: one["state"],
    "SINCE": lambda one: short(one["since"]),
    "FAILING": lambda one: f"{one['failing']} of {one['of']}",
}


@on_stack
def command(
    session: Session,
    cluster: Annotated[str, typer.Option("--cluster", help="The cluster.")],
    close: Annotated[bool, typer.Option("--close", help="Close them in spite of the nodes that fail now.")] = False,
) -> None:
    """Show the breakers of a cluster that ever tripped, or close them."""
    controls = session.application.controls
    control = controls.close_breakers(cluster, session.operator) if close else controls.read(cluster)
    session.show(_documents(control), BREAKERS)


def _documents(control: Control) -> list[Document]:
    return [
        {
            "cluster": control.cluster,
            "domain": domain_of(name),
            "state": breaker.state.value,
            "since": to_text(breaker.since),
            "failing": breaker.failing,
            "of": breaker.of,
        }
        for name, breaker in sorted(control.breakers.items())
    ]
