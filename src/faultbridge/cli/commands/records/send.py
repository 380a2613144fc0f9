"""`faultbridge send` and `audit`: send raw records to the queue of a stack, and check that each has an outcome."""

from __future__ import annotations

import getpass
import socket
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from faultbridge.cli.commands.options import STDIN, ClusterOption, input_title, known_source, read_bytes
from faultbridge.cli.declare import EXIT_NOT_WELL, EXIT_TRY_AGAIN, Argument, Exit, Option, Text, Texts, command
from faultbridge.cli.render.output import Columns, fields, notice, progress
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.session import ChangingSession, Session, StackSession, wait_until
from faultbridge.decode.frames.body import is_binary
from faultbridge.model.errors import Rejected
from faultbridge.model.records import Outcome
from faultbridge.serve.ingest.send import DeliveryAudit, RawInput, Send, SendResult, audit_deliveries, read_outcomes

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
    _show(session, sent, outcomes if wait else None)
    if not sent.receipts_written:
        notice("records sent, but receipts not written; `faultbridge audit` will not count these records")
    if sent.refused or (wait and len(outcomes) < len(sent.accepted)):
        raise Exit(EXIT_TRY_AGAIN)
    if Outcome.REJECTED in outcomes.values():
        raise Exit(EXIT_NOT_WELL)


def _show(session: Session, sent: SendResult, outcomes: Mapping[str, Outcome] | None) -> None:
    document: dict[str, Any] = {
        "accepted": len(sent.accepted),
        "refused": len(sent.refused),
        "records": list(sent.accepted),
        "receipted": sent.receipts_written,
    }
    if outcomes is None:
        session.show_one(document, SENT)
        return
    rows = [{"record_id": one, "outcome": outcomes.get(one)} for one in sent.accepted]
    if session.prints_table:
        session.show(rows, OUTCOMES)
    else:
        session.show_one(document | {"outcomes": rows}, SENT)


def _wait_for_outcomes(
    session: Session, records: Sequence[str], since: datetime, seconds: int
) -> Mapping[str, Outcome]:
    def read() -> Mapping[str, Outcome]:
        found = read_outcomes(session.receipts.read(since))
        return {record: found[record] for record in records if record in found}

    return wait_until(read, seconds, lambda outcomes: len(outcomes) == len(records))


def sender(session: Session) -> Send:
    """Return the service that sends records and writes a receipt for each, with the user and host."""
    ports = session.ports
    return Send(
        queue=ports.queue,
        objects=ports.objects,
        receipts=session.receipts,
        clock=ports.clock,
        new_id=lambda: str(uuid.uuid4()),
        sender=f"{_user()}@{socket.gethostname()}",
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


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
    session.show_one(_document(found), AUDIT)
    if not found.complete:
        notice(f"{len(found.missing)} of {found.sent} records have no outcome: {_listed_ids(found.missing)}")
        raise Exit(EXIT_NOT_WELL)


def _document(found: DeliveryAudit) -> dict[str, object]:
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
