"""`faultbridge restored`: said once after the table came back from a backup, before anything else writes to it."""

from __future__ import annotations

from typing import Annotated

import typer

from faultbridge.cli.output import Columns
from faultbridge.cli.session import Session, on_stack

EPILOG = "Example: faultbridge restored --by arn:aws:iam::123456789012:user/op"
RESTORED: Columns = {
    "Epoch": lambda one: one["epoch"],
    "Streams": lambda one: one["streams"],
    "Had begun it already": lambda one: one["already"],
}


@on_stack
def command(
    session: Session,
    epoch: Annotated[int | None, typer.Option(help="Finish the restore that began this epoch.")] = None,
    by: Annotated[str | None, typer.Option(help="Who orders it; goes on the record of every stream.")] = None,
) -> None:
    """Begin a new epoch in every stream, so that no event id is given twice."""
    from faultbridge.ledger.recover import RecoverTable

    application, kept = session.application, session.application.keeping
    restore = RecoverTable(kept.table, kept.vault, kept.clock, application.append, application.stack)
    done = restore(epoch, by=by)
    session.show_one({"epoch": done.epoch, "streams": done.streams, "already": done.already}, RESTORED)
