"""`faultbridge send`: sends raw records to the queue of a stack."""

from __future__ import annotations

import getpass
import socket
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from faultbridge.cli.commands.options import STDIN, ClusterOption, known_source, read_bytes
from faultbridge.cli.declare import Argument, Exit, Option, command
from faultbridge.cli.errors import EXIT_NOT_WELL, EXIT_TRY_AGAIN
from faultbridge.cli.render.output import Columns, fields, notice, progress
from faultbridge.cli.stack.command import ChangingSession, wait_until
from faultbridge.cli.stack.session import Session
from faultbridge.decode.frames.body import is_binary
from faultbridge.model.errors import Rejected
from faultbridge.model.records import Outcome
from faultbridge.serve.ingest.send import RawInput, Send, SendResult, read_outcomes

SENT: Columns = fields("Accepted", "Refused")
OUTCOMES: Columns = {**fields("RECORD=record_id", "OUTCOME"), "MEANING": lambda one: MEANINGS[one["outcome"]]}
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
    files: Annotated[
        list[str] | None, Argument("FILE", "Files to send, one record each. Default: standard input.")
    ] = None,
    node: Annotated[str | None, Option("NODE", "Node that the record is about.")] = None,
    instance_id: Annotated[str | None, Option("ID", "EC2 instance id of the node.")] = None,
    boot_id: Annotated[str | None, Option("ID", "/proc/sys/kernel/random/boot_id of the node.")] = None,
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
        raise Rejected("empty", f"empty input: {_title(file)}")
    if is_binary(body):
        raise Rejected("binary", f"not a text file: {_title(file)}; decompress or convert it first")
    return body


def _title(file: str) -> str:
    return "standard input" if file == STDIN else file
