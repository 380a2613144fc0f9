"""`faultbridge send`: raw records onto the queue."""

from __future__ import annotations

import getpass
import socket
import sys
import uuid
from pathlib import Path
from typing import Annotated

import typer

from faultbridge.cli.failures import EXIT_TRY_AGAIN
from faultbridge.cli.output import Columns, notice
from faultbridge.cli.progress import progress
from faultbridge.cli.session import Session, on_stack
from faultbridge.decoders import registry
from faultbridge.errors import Rejected
from faultbridge.ingest.send import Parcel, Send

EPILOG = "Example: nvidia-smi -q -x | faultbridge send --source nvidia-smi-xml --cluster train-a --node ip-10-0-0-7"
STDIN = "-"
SENT: Columns = {
    "Accepted": lambda one: one["accepted"],
    "Refused": lambda one: one["refused"],
}


@on_stack
def command(
    session: Session,
    source: Annotated[str, typer.Option(help="A name from `faultbridge sources`.")],
    cluster: Annotated[str, typer.Option(help="The cluster that it is from.")],
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE...|-]", help="One record a file; standard input if none.")
    ] = None,
    node: Annotated[str | None, typer.Option(help="The node that it is about.")] = None,
    instance_id: Annotated[str | None, typer.Option(help="The EC2 instance that it is from.")] = None,
    boot_id: Annotated[str | None, typer.Option(help="/proc/sys/kernel/random/boot_id of that node.")] = None,
) -> None:
    """Put raw records on the queue and tell how many it accepted. Exit code 75 when it did not take all.

    A long log is cut at line ends; a large document is kept aside and pointed at.
    """
    if source not in registry.names():
        raise typer.BadParameter(f"{source!r} is no source of this release; there are {', '.join(registry.names())}")
    parcels = [
        Parcel(source, cluster, _read(file), node=node, instance_id=instance_id, boot_id=boot_id)
        for file in files or [STDIN]
    ]
    with progress("sending", None) as advance:
        sent = sender(session)(parcels, advance)
    document = {
        "accepted": len(sent.accepted),
        "refused": len(sent.refused),
        "records": list(sent.accepted),
        "receipted": sent.receipted,
    }
    session.show_one(document, SENT)
    if not sent.receipted:
        notice("the records are on their way, but the log of receipts did not answer: `account` will not know them")
    if sent.refused:
        raise typer.Exit(EXIT_TRY_AGAIN)


def sender(session: Session) -> Send:
    """Make a sender that signs its receipts with the person's and the machine's name."""
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
        raise Rejected("empty", "standard input is empty" if file == STDIN else f"{file} is empty")
    return body
