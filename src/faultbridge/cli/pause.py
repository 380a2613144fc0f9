"""`faultbridge pause`: no repair of a cluster begins any more."""

from __future__ import annotations

from typing import Annotated

import typer

from faultbridge.cli.documents import CLUSTER, cluster_document
from faultbridge.cli.session import Session, on_stack

EPILOG = "Example: faultbridge pause --cluster train-a"


@on_stack
def command(session: Session, cluster: Annotated[str, typer.Option("--cluster", help="The cluster.")]) -> None:
    """Let no repair begin any more; what has passed its intent goes on."""
    session.application.controls.pause(cluster, paused=True, operator=session.operator)
    session.show_one(cluster_document(session.directory.cluster(cluster)), CLUSTER)
