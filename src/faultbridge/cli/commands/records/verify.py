"""`faultbridge verify`: verifies that no entry of a stream is missing or changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import to_builtins

from faultbridge.cli.commands.options import ClusterOption
from faultbridge.cli.declare import Exit, Option, command
from faultbridge.cli.errors import EXIT_NOT_WELL
from faultbridge.cli.render.output import Columns, fields, notice, progress
from faultbridge.cli.stack.archive_copy import ArchiveOption, verify_archived
from faultbridge.cli.stack.command import StackSession
from faultbridge.cli.stack.session import Session
from faultbridge.record.verify import Verified

VERIFIED: Columns = {
    **fields("Streams", "Entries"),
    "Verified": lambda one: "yes" if one["whole"] else "no",
    "Breaks": lambda one: "\n".join(
        f"{found['object'] or _entry_name(found)}: {found['detail']} ({found['kind']})" for found in one["breaks"]
    ),
}


@command("verify", "--cluster train-a", "--cluster train-a --anchor", "--cluster train-a --archive ./copy")
def verify_record(
    session: StackSession,
    cluster: ClusterOption,
    node: Annotated[str | None, Option("NODE", "Only this node. Default: the cluster and all its nodes.")] = None,
    anchor: Annotated[bool, Option(help="Also check against the anchors in the vault.")] = False,
    archive: ArchiveOption = None,
    stack_id: Annotated[
        str | None, Option("ID", "Stack identity of an archive without a sealed day (output StackIdentity).")
    ] = None,
) -> None:
    """Verify the hash chains of entries, their attributes, and the table rows derived from them.

    Exit code 1: an entry is missing or changed; the first error is printed. Without --anchor, the command finds
    accidental damage only, because a writer of the table can forge a valid chain. With --archive, the command checks a
    copy of the archive and needs no stack.
    """
    if archive is not None:
        verified = verify_archived(archive, cluster, node, anchor=anchor, stack_id=stack_id)
    else:
        verified = _on_stack(session, cluster, node, anchor=anchor)
    summary = {"cluster": cluster, "node": node, "whole": verified.whole, "anchored": anchor}
    session.show_one({**to_builtins(verified), **summary}, VERIFIED)
    if not verified.whole:
        first = verified.breaks[0]
        place = f"{first.stream} is broken at entry {first.epoch}/{first.sequence}"
        notice(first.detail if first.object and not first.sequence else f"{place}: {first.detail}")
        raise Exit(EXIT_NOT_WELL)


def _on_stack(session: Session, cluster: str, node: str | None, *, anchor: bool) -> Verified:
    verified = Verified()
    anchors = session.anchors(cluster) if anchor else None
    if anchors is not None and not anchors.anchors:
        notice("no anchor in the vault yet; one is written each hour")
    with progress("verifying streams", None) as advance:
        for _stream in session.verify.stream_by_stream(cluster, node, verified, anchors):
            advance(1)
    return verified


def _entry_name(found: Mapping[str, Any]) -> str:
    return f"{found['stream']} entry {found['epoch']}/{found['sequence']}"
