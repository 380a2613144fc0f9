"""`faultbridge resume`: repairs of a cluster begin again."""

from __future__ import annotations

from typing import Annotated

import typer

from faultbridge.cli.documents import CLUSTER, cluster_document
from faultbridge.cli.session import Session, on_stack

EPILOG = "Example: faultbridge resume --cluster train-a"


@on_stack
def command(session: Session, cluster: Annotated[str, typer.Option("--cluster", help="The cluster.")]) -> None:
    """Let repairs begin again."""
    session.application.controls.pause(cluster, paused=False, operator=session.operator)
    session.show_one(cluster_document(session.directory.cluster(cluster)), CLUSTER)
