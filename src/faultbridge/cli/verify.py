"""`faultbridge verify`: whether the record is whole."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from faultbridge.cli.failures import EXIT_NOT_WELL
from faultbridge.cli.output import Columns, notice
from faultbridge.cli.progress import progress
from faultbridge.cli.session import Session, on_stack
from faultbridge.services.verify import Verified

EPILOG = "Example: faultbridge verify --cluster train-a"
VERIFIED: Columns = {
    "Streams": lambda one: one["streams"],
    "Entries": lambda one: one["entries"],
    "Whole": lambda one: "yes" if one["whole"] else "no",
    "Breaks": lambda one: "\n".join(
        f"{found['stream']} entry {found['epoch']}/{found['sequence']}: {found['detail']} ({found['kind']})"
        for found in one["breaks"]
    ),
}


@on_stack
def command(
    session: Session,
    cluster: Annotated[str, typer.Option(help="The cluster.")],
    node: Annotated[
        str | None, typer.Option(help="Only this node; the cluster and all its nodes if not given.")
    ] = None,
) -> None:
    """Check sequences and hash chains. Exit code 1 names the first break.

    Without an anchor this finds accidents: who may write the table may write a chain that fits.
    """
    verified = Verified()
    with progress("verifying streams", None) as advance:
        for _stream in session.verify.walk(cluster, node, verified):
            advance(1)
    session.show_one({**asdict(verified), "cluster": cluster, "node": node, "whole": verified.whole}, VERIFIED)
    if not verified.whole:
        first = verified.breaks[0]
        notice(f"{first.stream} is broken at entry {first.epoch}/{first.sequence}: {first.detail}")
        raise typer.Exit(EXIT_NOT_WELL)
