"""`faultbridge reject`: lists, shows and retries rejected records."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

from faultbridge.cli.commands.options import CLUSTER_VARIABLE
from faultbridge.cli.declare import Argument, BadParameter, Exit, Option, command
from faultbridge.cli.errors import EXIT_NOT_WELL, EXIT_TRY_AGAIN
from faultbridge.cli.render.output import Columns, fields, notice
from faultbridge.cli.render.times import short_time, stated_time
from faultbridge.cli.stack.command import ChangingSession, StackSession, WaitOption, show_awaited
from faultbridge.cli.stack.session import Session
from faultbridge.model.errors import Rejected, Transient, UnknownName
from faultbridge.model.storage.keys import NO_CLUSTER
from faultbridge.model.storage.rejects import Reject
from faultbridge.serve.wiring.services import wire_rejects

ClusterFilter = Annotated[
    str | None,
    Option(
        "--cluster CLUSTER",
        "Only records sent for this cluster; - for all unregistered clusters. Default: all.",
        envvar=CLUSTER_VARIABLE,
    ),
]
ReasonFilter = Annotated[str | None, Option("--reason REASON", "Only this reason, such as unknown_node.")]
MAX_SHOWN_BYTES = 2000

REJECTS: Columns = {
    **fields("RECORD=record_id", "REASON", "NODE", "CLUSTER"),
    "SENT (UTC)": lambda one: short_time(one["sent_at"]),
    **fields("SOURCE", "DETAIL"),
}
REJECT: Columns = {
    **fields("Record=record_id", "Reason", "Detail", "Cluster", "Node", "Source", "Instance=instance_id", "Sender"),
    "Sent": lambda one: stated_time(one["sent_at"]),
    "Rejected": lambda one: stated_time(one["rejected_at"]),
    "Next retry": lambda one: stated_time(one["due_at"]),
    **fields("Stored at=raw", "Bytes=size", "Record text=text"),
}


@command("reject list", "", "--cluster train-a --reason unknown_node")
def list_rejects(
    session: StackSession, cluster: ClusterFilter = None, reason: ReasonFilter = None, wait: WaitOption = 0
) -> None:
    """List rejected records, by default those of all registered and unregistered clusters."""
    show_awaited(session, lambda: map(_document, _matching(session, cluster, reason)), REJECTS, wait)
    dropped = sum(
        wire_rejects(session.application).dropped(name)
        for name in ([cluster] if cluster else _partitions(session, None))
    )
    if dropped:
        notice(f"{dropped} more records were counted but not kept: 100 an hour are kept per node, source and reason")


@command("reject show", "ID", "ID --raw > record.txt")
def show_reject(
    session: StackSession,
    record: Annotated[str, Argument("ID", "Id of the record.")],
    cluster: ClusterFilter = None,
    raw: Annotated[bool, Option(help="Print only the original bytes of the record.")] = False,
) -> None:
    """Show why a record was rejected, and its first 2000 bytes."""
    if raw and sys.stdout.isatty():
        raise BadParameter("--raw to a terminal: the record can contain terminal escapes; redirect it to a file")
    reject = _find(session, record, cluster)
    body = wire_rejects(session.application).raw(reject)
    if raw:
        if body is None:
            raise Rejected("raw_gone", f"raw record no longer stored: {record}")
        sys.stdout.buffer.write(body)
        return
    text = None if body is None else body[:MAX_SHOWN_BYTES].decode(errors="replace")
    session.show_one({**_document(reject), "text": text}, REJECT)


@command("reject retry", "ID", "--all --cluster train-a --reason unknown_node")
def retry_rejects(
    session: ChangingSession,
    record: Annotated[str | None, Argument("ID", "Id of the record.")] = None,
    everything: Annotated[bool, Option("--all", "Retry all records that match --cluster and --reason.")] = False,
    cluster: ClusterFilter = None,
    reason: ReasonFilter = None,
) -> None:
    """Retry rejected records with their original ids and times.

    The command is safe to repeat. Exit code 75: a record could not be sent now. If the bytes of a record no longer
    exist or were replaced, its retry always fails: exit code 2, or 1 with --all.
    """
    if (record is None) != everything:
        raise BadParameter("give one of ID and --all")
    chosen = list(_matching(session, cluster, reason)) if record is None else [_find(session, record, cluster)]
    failures = [_retry(session, reject) for reject in chosen]
    if record is not None and isinstance(failures[0], Rejected):
        raise failures[0]
    rows = [
        {"record_id": reject.record_id, "outcome": "sent" if failure is None else str(failure)}
        for reject, failure in zip(chosen, failures, strict=True)
    ]
    session.show(rows, {"RECORD": lambda one: one["record_id"], "OUTCOME": lambda one: one["outcome"]})
    if any(isinstance(failure, Transient) for failure in failures):
        raise Exit(EXIT_TRY_AGAIN)
    if any(failures):
        raise Exit(EXIT_NOT_WELL)


def _retry(session: Session, reject: Reject) -> Rejected | Transient | None:
    try:
        wire_rejects(session.application).retry(reject)
    except (Rejected, Transient) as error:
        return error
    return None


def _partitions(session: Session, cluster: str | None) -> list[str]:
    """Return the names under which rejected records are stored, for unregistered clusters NO_CLUSTER."""
    if cluster is not None:
        return list(dict.fromkeys((cluster, NO_CLUSTER)))
    return [*session.cluster_names(), NO_CLUSTER]


def _matching(session: Session, cluster: str | None, reason: str | None) -> Iterator[Reject]:
    for name in _partitions(session, cluster):
        rejects = wire_rejects(session.application).list(name)
        chosen = cluster in {None, name}
        yield from (
            reject
            for reject in rejects
            if reason in {None, reject.reason} and (chosen or reject.message.cluster == cluster)
        )


def _find(session: Session, record: str, cluster: str | None) -> Reject:
    for name in _partitions(session, cluster):
        found = wire_rejects(session.application).find(record, name)
        if found is not None:
            return found
    raise UnknownName("reject", record)


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
        "sent_at": message.sent_at,
        "received_at": message.received_at,
        "rejected_at": reject.rejected_at,
        "due_at": reject.due_at,
        "raw": reject.raw,
        "size": reject.size,
    }
