"""`faultbridge verify`: whether the record is whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from faultbridge.cli.archived import ArchiveOption, verify_archived
from faultbridge.cli.failures import EXIT_NOT_WELL
from faultbridge.cli.output import Columns, notice
from faultbridge.cli.progress import progress
from faultbridge.cli.session import Session, on_stack
from faultbridge.ledger.verify import Verified

EPILOG = "Example: faultbridge verify --cluster train-a"
VERIFIED: Columns = {
    "Streams": lambda one: one["streams"],
    "Entries": lambda one: one["entries"],
    "Whole": lambda one: "yes" if one["whole"] else "no",
    "Breaks": lambda one: "\n".join(
        f"{found['object'] or _place(found)}: {found['detail']} ({found['kind']})" for found in one["breaks"]
    ),
}


@on_stack
def command(
    session: Session,
    cluster: Annotated[str, typer.Option(help="The cluster.")],
    node: Annotated[
        str | None, typer.Option(help="Only this node; the cluster and all its nodes if not given.")
    ] = None,
    anchor: Annotated[bool, typer.Option("--anchor", help="Check against what was anchored out of reach.")] = False,
    archive: ArchiveOption = None,
    stack_id: Annotated[
        str | None, typer.Option(help="Whose archive it is, where no day of it is sealed (output StackIdentity).")
    ] = None,
) -> None:
    """Check sequences and hash chains. Exit code 1 names the first break.

    Without --anchor this finds accidents: who may write the table may write a chain that fits. With --archive a copy of
    the archive is checked, and no stack is needed.
    """
    if archive is not None:
        verified = verify_archived(archive, cluster, node, anchor=anchor, stack_id=stack_id)
    else:
        verified = _on_stack(session, cluster, node, anchor=anchor)
    told = {"cluster": cluster, "node": node, "whole": verified.whole, "anchored": anchor}
    session.show_one({**asdict(verified), **told}, VERIFIED)
    if not verified.whole:
        first = verified.breaks[0]
        place = f"{first.stream} is broken at entry {first.epoch}/{first.sequence}"
        notice(first.detail if first.object and not first.sequence else f"{place}: {first.detail}")
        raise typer.Exit(EXIT_NOT_WELL)


def _on_stack(session: Session, cluster: str, node: str | None, *, anchor: bool) -> Verified:
    verified = Verified()
    seen = session.anchors(cluster) if anchor else None
    if seen is not None and not seen.anchors:
        notice("there is no anchor yet: one is put each hour")
    with progress("verifying streams", None) as advance:
        for _stream in session.verify.walk(cluster, node, verified, seen):
            advance(1)
    return verified


def _place(found: Mapping[str, Any]) -> str:
    return f"{found['stream']} entry {found['epoch']}/{found['sequence']}"
