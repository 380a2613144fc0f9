"""`faultbridge send`, `audit`, `reject`, `redrive`, `restore`, `recover`, `erase`: raw records, queues and table."""

from __future__ import annotations

import getpass
import socket
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

from faultbridge.cli.commands.options import (
    CLUSTER_VARIABLE,
    STDIN,
    ClusterArgument,
    ClusterOption,
    YesOption,
    confirm,
    input_title,
    known_source,
    read_bytes,
)
from faultbridge.cli.declare import (
    EXIT_NOT_WELL,
    EXIT_TRY_AGAIN,
    Argument,
    BadParameter,
    Exit,
    Option,
    Text,
    Texts,
    command,
)
from faultbridge.cli.render.output import Columns, fields, notice, progress
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.session import ChangingSession, Session, StackSession, WaitOption, show_awaited, wait_until
from faultbridge.decode.frames.body import is_binary
from faultbridge.model.errors import Misconfigured, Rejected, Transient, UnknownName
from faultbridge.model.records import Outcome
from faultbridge.model.storage.keys import NO_CLUSTER
from faultbridge.model.storage.rejects import Reject
from faultbridge.record.recover import RecoverTable
from faultbridge.repair.spares.reconcile import drop_taken_spares
from faultbridge.serve.ingest.send import DeliveryAudit, RawInput, Redrive, Send, audit_deliveries, read_outcomes
from faultbridge.serve.ops.erase import Erase
from faultbridge.serve.wiring.services import wire_rejects, wire_step_runner

SENT: Columns = fields("Accepted, Refused")
OUTCOMES: Columns = fields("RECORD=record_id, OUTCOME, MEANING") | {"MEANING": lambda one: MEANINGS[one["outcome"]]}
MEANINGS: Mapping[str | None, str] = {
    Outcome.CLEAN: "nothing to report",
    Outcome.DUPLICATE: "sent before; it changed nothing",
    Outcome.STALE: "older than what is known of the node; it changed nothing",
    Outcome.FOLDED: "a fault that is already active was counted again",
    Outcome.RECORDED: "the timeline shows it",
    Outcome.REJECTED: "`faultbridge reject show ID` shows the reason",
    None: "not processed yet; `faultbridge audit` checks it later",
}


@command(
    "send",
    "$ nvidia-smi -q -x | faultbridge send --source nvidia-smi-xml \\",
    "    --cluster train-a --node ip-10-0-0-7",
    "--source kernel-log --cluster train-a --node n-7 kern.log",
    "--source kernel-log --cluster train-a --node n-7 \\",
    "    --wait 30 kern.log",
)
def send_records(
    session: ChangingSession,
    source: Annotated[str, Option("NAME", "Source name from `faultbridge sources`.")],
    cluster: ClusterOption,
    files: Annotated[Texts, Argument("FILE", "Files to send, one record each. Default: standard input.")] = None,
    node: Annotated[Text, Option("NODE", "Node that the record is about.")] = None,
    instance_id: Annotated[Text, Option("ID", "EC2 instance id of the node.")] = None,
    boot_id: Annotated[Text, Option("ID", "/proc/sys/kernel/random/boot_id of the node.")] = None,
    wait: Annotated[int, Option("SECONDS", "Wait for the outcome of each record, and print it.", min=0)] = 0,
) -> None:
    """Send raw records to the queue, and print how many records the queue accepted.

    A long log is split at line ends. A large document is stored in the bucket, and its location is sent. Exit code 75:
    the queue refused a record, or --wait ended before a record had an outcome. Exit code 1: a record was rejected. Exit
    code 65: an input is empty or not text; nothing was sent.
    """
    known_source(source)
    since = session.now()
    raw_inputs = [
        RawInput(source, cluster, _read(file), node=node, instance_id=instance_id, boot_id=boot_id)
        for file in files or [STDIN]
    ]
    with progress("sending", None) as advance:
        sent = sender(session)(raw_inputs, advance)
    outcomes = _wait_for_outcomes(session, sent.accepted, since, wait) if wait else {}
    rows = [{"record_id": one, "outcome": outcomes.get(one)} for one in sent.accepted]
    document: dict[str, Any] = {
        "accepted": len(sent.accepted),
        "refused": len(sent.refused),
        "records": list(sent.accepted),
        "receipted": sent.receipts_written,
    }
    if wait and session.output.for_people:
        session.show(rows, OUTCOMES)
    else:
        session.show_one(document | ({"outcomes": rows} if wait else {}), SENT)
    if not sent.receipts_written:
        notice("records sent, but receipts not written; `faultbridge audit` will not count these records")
    if sent.refused or (wait and len(outcomes) < len(sent.accepted)):
        raise Exit(EXIT_TRY_AGAIN)
    if Outcome.REJECTED in outcomes.values():
        raise Exit(EXIT_NOT_WELL)


def _wait_for_outcomes(
    session: Session, records: Sequence[str], since: datetime, seconds: int
) -> Mapping[str, Outcome]:
    def read() -> Mapping[str, Outcome]:
        found = read_outcomes(session.receipts.read(since))
        return {record: found[record] for record in records if record in found}

    return wait_until(read, seconds, lambda outcomes: len(outcomes) == len(records))


def sender(session: Session) -> Send:
    """Return the service that sends records and writes a receipt for each, with the user and host."""
    ports, user = session.ports, "unknown"
    with suppress(OSError, KeyError):
        user = getpass.getuser()
    return Send(
        queue=ports.queue,
        objects=ports.objects,
        receipts=session.receipts,
        clock=ports.clock,
        new_id=lambda: str(uuid.uuid4()),
        sender=f"{user}@{socket.gethostname()}",
    )


def _read(file: str) -> bytes:
    body = read_bytes(file)
    if not body.strip():
        raise Rejected("empty", f"empty input: {input_title(file)}")
    if is_binary(body):
        raise Rejected("binary", f"not a text file: {input_title(file)}; decompress or convert it first")
    return body


MAX_LISTED_IDS = 20
AUDIT: Columns = fields("Since, Sent, Outcomes, Stale records, Missing, Not compared") | {
    "Outcomes": lambda one: "\n".join(f"{number} {outcome}" for outcome, number in one["outcomes"].items() if number),
    "Stale records": lambda one: _listed_ids(one["stale_ids"]),
    "Not compared": lambda one: f"{one['others']} received without a receipt of their sender" if one["others"] else "",
}


@command("audit", "--since 1h", "--since 10m --wait 30")
def audit_records(
    session: StackSession,
    since: Annotated[str, Option("TIME", f"Records sent since this time. {PAST_HELP}")],
    wait: Annotated[int, Option("SECONDS", "Maximum wait until every record has an outcome.", min=0)] = 0,
) -> None:
    """Check that every record that was sent has an outcome. Exit code 1: a record has no outcome.

    The outcome of a record is, for example, that it was stored or rejected. A record is stale if it is older than the
    stored state of its node; it then changed nothing. Only the commands `faultbridge send`, `fleet` and `demo` record
    what they sent. Records of other senders, such as agents, webhooks and cloud events, are not compared.
    """
    at = parse_time(since, session.now()) or session.now()
    found = wait_until(lambda: audit_deliveries(session.receipts, at), wait, lambda audit: audit.complete)
    session.show_one(_audit_document(found), AUDIT)
    if not found.complete:
        notice(f"{len(found.missing)} of {found.sent} records have no outcome: {_listed_ids(found.missing)}")
        raise Exit(EXIT_NOT_WELL)


def _audit_document(found: DeliveryAudit) -> dict[str, object]:
    return {
        "since": found.since,
        "sent": found.sent,
        "outcomes": {outcome.value: number for outcome, number in found.outcomes.items()},
        "missing": len(found.missing),
        "missing_ids": list(found.missing),
        "stale_ids": list(found.stale),
        "others": found.others,
        "complete": found.complete,
    }


def _listed_ids(ids: Sequence[str]) -> str:
    more = len(ids) - MAX_LISTED_IDS
    return ", ".join(ids[:MAX_LISTED_IDS]) + (f" and {more} more" if more > 0 else "")


ClusterFilter = Annotated[
    Text,
    Option(
        "--cluster CLUSTER",
        "Only records sent for this cluster; - for all unregistered clusters. Default: all.",
        envvar=CLUSTER_VARIABLE,
    ),
]
ReasonFilter = Annotated[Text, Option("--reason REASON", "Only this reason, such as unknown_node.")]
MAX_SHOWN_BYTES = 2000

REJECTS: Columns = fields("RECORD=record_id, REASON, NODE, CLUSTER, SENT (UTC)=sent_at:time, SOURCE, DETAIL")
REJECT: Columns = fields(
    "Record=record_id, Reason, Detail, Cluster, Node, Source, Instance=instance_id, Sender, Sent=sent_at:at, "
    "Rejected=rejected_at:at, Next retry=due_at:at, Stored at=raw, Bytes=size, Record text=text"
)


@command("reject list", "", "--cluster train-a --reason unknown_node")
def list_rejects(
    session: StackSession, cluster: ClusterFilter = None, reason: ReasonFilter = None, wait: WaitOption = 0
) -> None:
    """List rejected records, by default those of all registered and unregistered clusters."""
    show_awaited(session, lambda: map(_reject_document, _matching(session, cluster, reason)), REJECTS, wait)
    names = [cluster] if cluster else _partitions(session, None)
    dropped = sum(wire_rejects(session.application).dropped(name) for name in names)
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
    session.show_one({**_reject_document(reject), "text": text}, REJECT)


@command("reject retry", "ID", "--all --cluster train-a --reason unknown_node")
def retry_rejects(
    session: ChangingSession,
    record: Annotated[Text, Argument("ID", "Id of the record.")] = None,
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
    failures: list[Rejected | Transient | None] = []
    for reject in chosen:
        try:
            wire_rejects(session.application).retry(reject)
            failures.append(None)
        except (Rejected, Transient) as error:
            failures.append(error)
    if record is not None and isinstance(failures[0], Rejected):
        raise failures[0]
    results = zip(chosen, failures, strict=True)
    rows = ({"record_id": one.record_id, "outcome": str(failure or "sent")} for one, failure in results)
    session.show(rows, fields("RECORD=record_id, OUTCOME"))
    if any(isinstance(failure, Transient) for failure in failures):
        raise Exit(EXIT_TRY_AGAIN)
    if any(failures):
        raise Exit(EXIT_NOT_WELL)


def _partitions(session: Session, cluster: str | None) -> list[str]:
    """Return the names under which rejected records are stored, for unregistered clusters NO_CLUSTER."""
    if cluster is not None:
        return list(dict.fromkeys((cluster, NO_CLUSTER)))
    return [*session.cluster_names(), NO_CLUSTER]


def _matching(session: Session, cluster: str | None, reason: str | None) -> Iterator[Reject]:
    for name in _partitions(session, cluster):
        listed = (one for one in wire_rejects(session.application).list(name) if reason in {None, one.reason})
        yield from (one for one in listed if cluster in {None, name, one.message.cluster})


def _find(session: Session, record: str, cluster: str | None) -> Reject:
    for name in _partitions(session, cluster):
        found = wire_rejects(session.application).find(record, name)
        if found is not None:
            return found
    raise UnknownName("reject", record)


def _reject_document(reject: Reject) -> dict[str, Any]:
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


MOVED: Columns = fields("Moved, Raw records, Cloud events")
RECOVERED: Columns = fields("Epoch, Streams, Already started=already, Spares dropped:list, Spares not checked:list")
RESTORED: Columns = fields("Written, Deleted, Unchanged")
ERASED: Columns = fields("Cluster, Items deleted=erased")


@command("redrive")
def redrive_dead_letters(session: ChangingSession) -> None:
    """Move dead letters back to their queues, with their original times. The command is safe to repeat."""
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
    by: Annotated[Text, Option("ARN", "Operator, recorded in every stream.")] = None,
    yes: YesOption = False,
) -> None:
    """Start a new epoch in every stream of entries after the table was restored from a backup.

    Run the command once, before any function writes to the table. The epoch is part of every event id, so no event id
    is used twice. The command also removes each spare from its pool whose tag at the provider names a case: it may
    serve a node.
    """
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
    table = session.ports.table  # found first, so that the question names the stack whose table changes
    confirm(f"this deletes the record of {cluster} in {session.place} for good", yes=yes)
    erased = Erase(table).erase(cluster)
    session.show_one({"cluster": cluster, "erased": erased}, ERASED)
