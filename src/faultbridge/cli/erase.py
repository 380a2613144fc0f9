"""`faultbridge erase`: delete what the table holds of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from faultbridge.cli.output import Columns
from faultbridge.cli.session import Session, on_stack

EPILOG = "Example: faultbridge erase train-a --yes"
ERASED: Columns = {"Cluster": lambda one: one["cluster"], "Items deleted": lambda one: one["erased"]}


@on_stack
def command(
    session: Session,
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="The cluster.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do it; nothing brings it back but a backup.")] = False,
) -> None:
    """Delete a cluster and its record from the table. Its archive is deleted by prefix: see docs/runbooks/record.md."""
    from faultbridge.ops.erase import Erase

    if not yes:
        raise typer.BadParameter("this deletes a record for good; say --yes")
    erased = Erase(session.ports.table)(cluster)
    session.show_one({"cluster": cluster, "erased": erased}, ERASED)
