"""`faultbridge send`: sends raw records to the queue of a stack."""

from __future__ import annotations

import getpass
import socket
import sys
import uuid
from pathlib import Path
from typing import Annotated

import typer

from faultbridge.cli.commands.options import STDIN, ClusterOption, known_source
from faultbridge.cli.errors.failures import EXIT_TRY_AGAIN
from faultbridge.cli.render.live_output import progress
from faultbridge.cli.render.output import Columns, examples, notice
from faultbridge.cli.stack.command import stack_command
from faultbridge.cli.stack.session import Session
from faultbridge.errors import Rejected
from faultbridge.ingest.send import RawInput, Send

app = typer.Typer(rich_markup_mode=None)

SENT: Columns = {
    "Accepted": lambda one: one["accepted"],
    "Refused": lambda one: one["refused"],
}


@app.command(
    "send",
    epilog=examples(
        "nvidia-smi -q -x | faultbridge send --source nvidia-smi-xml \\",
        "    --cluster train-a --node ip-10-0-0-7",
        "faultbridge send --source kernel-log --cluster train-a --node n-7 kern.log",
    ),
)
@stack_command
def send_records(
    session: Session,
    source: Annotated[str, typer.Option(metavar="NAME", help="Source name from `faultbridge sources`.")],
    cluster: ClusterOption,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Files to send, one record each. Default: standard input."),
    ] = None,
    node: Annotated[str | None, typer.Option(metavar="NODE", help="Node that the record is about.")] = None,
    instance_id: Annotated[str | None, typer.Option(metavar="ID", help="EC2 instance id of the node.")] = None,
    boot_id: Annotated[
        str | None, typer.Option(metavar="ID", help="/proc/sys/kernel/random/boot_id of the node.")
    ] = None,
) -> None:
    """Send raw records to the queue and print how many it accepted.

    A long log is split at line ends. A large document is stored in the bucket, and its location is sent. Exit code 75:
    the queue refused a record.
    """
    known_source(source)
    raw_inputs = [
        RawInput(source, cluster, _read(file), node=node, instance_id=instance_id, boot_id=boot_id)
        for file in files or [STDIN]
    ]
    with progress("sending", None) as advance:
        sent = sender(session)(raw_inputs, advance)
    document = {
        "accepted": len(sent.accepted),
        "refused": len(sent.refused),
        "records": list(sent.accepted),
        "receipted": sent.receipts_written,
    }
    session.show_one(document, SENT)
    if not sent.receipts_written:
        notice("records sent, but receipts not written; `faultbridge audit` will not count these records")
    if sent.refused:
        raise typer.Exit(EXIT_TRY_AGAIN)


def sender(session: Session) -> Send:
    """Create a sender whose receipts name the user and the host."""
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
    body = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    if not body.strip():
        raise Rejected("empty", f"empty input: {'standard input' if file == STDIN else file}")
    return body
