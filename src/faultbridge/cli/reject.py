"""`faultbridge reject`: raw records that nobody could use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from faultbridge.cli.failures import EXIT_TRY_AGAIN
from faultbridge.cli.output import Columns, notice
from faultbridge.cli.session import Session, on_stack
from faultbridge.cli.times import short, text_of
from faultbridge.errors import Rejected, Transient
from faultbridge.storage.keys import NO_CLUSTER
from faultbridge.storage.rejects import Reject

app = typer.Typer(rich_markup_mode=None)

Cluster = Annotated[str | None, typer.Option("--cluster", help="The cluster; `-` for those of unregistered ones.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Only this reason, such as unknown_node.")]
Record = Annotated[str, typer.Argument(metavar="ID", help="The record's id.")]
SHOWN_CHARACTERS = 2000

REJECTS: Columns = {
    "RECORD": lambda one: one["record_id"],
    "SENT (UTC)": lambda one: short(one["sent_at"]),
    "CLUSTER": lambda one: one["cluster"],
    "NODE": lambda one: one["node"],
    "SOURCE": lambda one: one["source"],
    "REASON": lambda one: one["reason"],
    "DETAIL": lambda one: one["detail"],
}
REJECT: Columns = {
    "Record": lambda one: one["record_id"],
    "Reason": lambda one: one["reason"],
    "Detail": lambda one: one["detail"],
    "Cluster": lambda one: one["cluster"],
    "Node": lambda one: one["node"],
    "Source": lambda one: one["source"],
    "Instance": lambda one: one["instance_id"],
    "Sender": lambda one: one["sender"],
    "Sent": lambda one: short(one["sent_at"]),
    "Rejected": lambda one: short(one["rejected_at"]),
    "Tried again": lambda one: short(one["due_at"]),
    "Kept at": lambda one: one["raw"],
    "Bytes": lambda one: one["size"],
    "Record text": lambda one: one["text"],
}


@app.command("list", epilog="Example: faultbridge reject list --cluster train-a --reason unknown_node")
@on_stack
def list_rejects(session: Session, cluster: Cluster = None, reason: Reason = None) -> None:
    """List rejected records, those of clusters that nobody registered included."""
    session.show(map(_document, _found(session, cluster, reason)), REJECTS)
    dropped = sum(session.application.rejects.dropped(name) for name in _partitions(session, cluster))
    if dropped:
        notice(f"{dropped} more were only counted: of one node, source and reason 100 an hour are kept")


@app.command("show", epilog="Example: faultbridge reject show 3f2c... --raw > record.txt")
@on_stack
def show_reject(
    session: Session,
    record: Record,
    cluster: Cluster = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the record's own bytes, and nothing else.")] = False,
) -> None:
    """Show why a record was rejected, and how it begins."""
    reject = _find(session, record, cluster)
    body = session.application.rejects.raw(reject)
    if raw:
        if body is None:
            raise Rejected("raw_gone", f"the raw record {record} is no longer kept")
        sys.stdout.buffer.write(body)
        return
    text = None if body is None else body[:SHOWN_CHARACTERS].decode(errors="replace")
    session.show_one({**_document(reject), "text": text}, REJECT)


@app.command("retry", epilog="Example: faultbridge reject retry --all --cluster train-a --reason unknown_node")
@on_stack
def retry_rejects(
    session: Session,
    record: Annotated[str | None, typer.Argument(metavar="[ID]", help="The record's id.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every record that --cluster and --reason name.")] = False,
    cluster: Cluster = None,
    reason: Reason = None,
) -> None:
    """Put records on the queue again, with their own ids and times. Safe to repeat."""
    if (record is None) != everything:
        raise typer.BadParameter("give either a record's id or --all")
    chosen = list(_found(session, cluster, reason)) if record is None else [_find(session, record, cluster)]
    rows = [_retry(session, reject) for reject in chosen]
    session.show(rows, {"RECORD": lambda one: one["record_id"], "OUTCOME": lambda one: one["outcome"]})
    if any(row["outcome"] != "sent" for row in rows):
        raise typer.Exit(EXIT_TRY_AGAIN)


def _retry(session: Session, reject: Reject) -> dict[str, str]:
    try:
        session.application.rejects.retry(reject)
    except (Rejected, Transient) as error:
        return {"record_id": reject.record_id, "outcome": str(error)}
    return {"record_id": reject.record_id, "outcome": "sent"}


def _partitions(session: Session, cluster: str | None) -> list[str]:
    if cluster is not None:
        return [cluster]
    return [*(view.config.cluster for view in session.directory.clusters()), NO_CLUSTER]


def _found(session: Session, cluster: str | None, reason: str | None) -> Iterator[Reject]:
    for name in _partitions(session, cluster):
        rejects = session.application.rejects.list(name)
        yield from (reject for reject in rejects if reason in {None, reject.reason})


def _find(session: Session, record: str, cluster: str | None) -> Reject:
    for name in _partitions(session, cluster):
        found = session.application.rejects.find(record, name)
        if found is not None:
            return found
    raise Rejected("unknown_reject", f"there is no reject of a record {record}")


def _document(reject: Reject) -> dict[str, Any]:
    message = reject.message
    return {
        "record_id": reject.record_id,
        "reason": reject.reason,
        "detail": reject.detail,
        "cluster": None if reject.unread else message.cluster,
        "listed_under": reject.cluster,
        "node": message.node,
        "source": None if reject.unread else message.source,
        "instance_id": message.instance_id,
        "sender": reject.sender,
        "sent_at": text_of(message.sent_at),
        "received_at": text_of(message.received_at),
        "rejected_at": text_of(reject.rejected_at),
        "due_at": text_of(reject.due_at),
        "raw": reject.raw,
        "size": reject.size,
    }
