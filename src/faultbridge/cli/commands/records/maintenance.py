"""`faultbridge redrive`, `restore`, `recover` and `erase`: maintenance of the queues and the table."""

from __future__ import annotations

from typing import Annotated

from faultbridge.cli.commands.options import ClusterArgument, YesOption, confirm
from faultbridge.cli.declare import Option, command
from faultbridge.cli.render.output import Columns, fields, progress
from faultbridge.cli.stack.command import ChangingSession
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.serve.wiring.services import wire_step_runner

MOVED: Columns = fields("Moved", "Raw records", "Cloud events")
RECOVERED: Columns = {
    **fields("Epoch", "Streams", "Already started=already"),
    "Spares dropped": lambda one: ", ".join(one["spares_dropped"]),
    "Spares not checked": lambda one: ", ".join(one["spares_not_checked"]),
}
RESTORED: Columns = fields("Written", "Deleted", "Unchanged")
ERASED: Columns = {"Cluster": lambda one: one["cluster"], "Items deleted": lambda one: one["erased"]}


@command("redrive")
def redrive_dead_letters(session: ChangingSession) -> None:
    """Move dead letters back to their queues, with their original times. The command is safe to repeat."""
    from faultbridge.serve.ingest.send import Redrive

    with progress("moving dead letters", None) as advance:
        records = Redrive(session.dead_letters, session.ports.queue).redrive(advance)
        events = Redrive(*session.cloud_events, dated=False).redrive(advance) if session.cloud_events else 0
    session.show_one({"moved": records + events, "raw_records": records, "cloud_events": events}, MOVED)


@command("restore", "--from restored --check", "--from restored")
def restore_table(
    session: ChangingSession,
    source: Annotated[str, Option("--from TABLE", "Table into which the backup was restored.")],
    check: Annotated[bool, Option(help="Only count what differs.")] = False,
    yes: YesOption = False,
) -> None:
    """Copy a table that was restored from a backup into the table of the stack. Then run `recover`.

    First stop all functions of the stack (docs/runbooks/record.md). Items that are newer than the backup are deleted
    from the table; the archive keeps the entries among them. If the command stops, run it again.
    """
    from faultbridge.adapters.aws.restored_table import restore_items

    place = session.place
    if not check:
        confirm(f"this replaces the items of the table in {place} by those of {source}", yes=yes)
    done = restore_items(session.clients, source, session.settings.table, check_only=check)
    session.show_one({"written": done.written, "deleted": done.deleted, "unchanged": done.unchanged}, RESTORED)


@command("recover", "--by arn:aws:iam::123456789012:user/op", "--epoch 2")
def recover(
    session: ChangingSession,
    epoch: Annotated[
        int | None, Option("N", "Continue the recovery that started this epoch. Default: a new one.")
    ] = None,
    by: Annotated[str | None, Option("ARN", "Operator, recorded in every stream.")] = None,
    yes: YesOption = False,
) -> None:
    """Start a new epoch in every stream of entries after the table was restored from a backup.

    Run the command once, before any function writes to the table. The epoch is part of every event id, so no event id
    is used twice. The command also removes each spare from its pool whose tag at the provider names a case: it may
    serve a node.
    """
    from faultbridge.record.recover import RecoverTable
    from faultbridge.repair.spares.reconcile import drop_taken_spares

    # The stack is found first, so that the question names the stack whose table changes.
    application, kept = session.application, session.application.ports
    if epoch is None:
        confirm(f"this starts a new epoch in every stream of the table in {session.place}", yes=yes)
    restore = RecoverTable(kept.table, kept.vault, kept.clock, application.append, application.stack)
    done = restore.recover(epoch, by=by)
    dropped: list[str] = []
    not_checked: list[str] = []
    for cluster in done.clusters:
        try:
            dropped += drop_taken_spares(wire_step_runner(application).tools, cluster)
        except (Misconfigured, Transient) as error:  # such as a missing permission of the operator
            not_checked.append(f"{cluster}: {error}")
    counts = {"epoch": done.epoch, "streams": done.streams, "already": done.already}
    session.show_one({**counts, "spares_dropped": dropped, "spares_not_checked": not_checked}, RECOVERED)


@command("erase", "train-a")
def erase_cluster(session: ChangingSession, cluster: ClusterArgument, yes: YesOption = False) -> None:
    """Delete the items of a cluster from the table. Only a backup can undo this. The archive stays.

    The runbook docs/runbooks/record.md explains how to delete the archive.
    """
    from faultbridge.serve.ops.erase import Erase

    table = session.ports.table  # found first, so that the question names the stack whose table changes
    confirm(f"this deletes the record of {cluster} in {session.place} for good", yes=yes)
    erased = Erase(table).erase(cluster)
    session.show_one({"cluster": cluster, "erased": erased}, ERASED)
