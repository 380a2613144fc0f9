"""`faultbridge timeline`: what happened, when, and what was done about it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from faultbridge.cli.archived import ArchiveOption, archived_entries
from faultbridge.cli.documents import ENTRIES, entry_document
from faultbridge.cli.live import LiveTable
from faultbridge.cli.output import notice
from faultbridge.cli.session import Session, on_stack
from faultbridge.cli.times import HELP, instant
from faultbridge.domain.entries import EntryType
from faultbridge.domain.faults import Severity
from faultbridge.ledger.timeline import Line, Wanted, follow, in_order

EPILOG = "Example: faultbridge timeline --cluster train-a --node ip-10-0-0-7 --since 2h"
PAUSE_SECONDS = 1.0
MOST = 10_000
_TYPES = {entry_type.value.lower(): entry_type.value for entry_type in EntryType}


@on_stack
def command(
    session: Session,
    cluster: Annotated[str | None, typer.Option(help="The cluster.")] = None,
    node: Annotated[str | None, typer.Option(help="Only this node of it.")] = None,
    case: Annotated[str | None, typer.Option(help="Only this case.")] = None,
    device: Annotated[str | None, typer.Option(help="Only this device, by serial number or UUID.")] = None,
    job: Annotated[str | None, typer.Option(help="Only what concerns this job of the cluster.")] = None,
    codes: Annotated[list[str] | None, typer.Option("--code", help="Only this code, as xid.79; repeatable.")] = None,
    since: Annotated[str | None, typer.Option(help=HELP)] = None,
    until: Annotated[str | None, typer.Option(help=HELP)] = None,
    kinds: Annotated[
        list[str] | None, typer.Option("--type", help="Only this type, such as 'Case Status Change'; repeatable.")
    ] = None,
    severities: Annotated[
        list[Severity] | None, typer.Option("--severity", help="Only while this was the node's worst; repeatable.")
    ] = None,
    following: Annotated[bool, typer.Option("--follow", "-f", help="Go on as the timeline grows.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most this many entries.")] = MOST,
    archive: ArchiveOption = None,
) -> None:
    """Tell what happened, oldest first; what was recorded late stands where it happened and is marked."""
    now = session.now() if archive is None else datetime.now(UTC)
    wanted = Wanted(
        cluster=cluster,
        node=node,
        case=case,
        device=device,
        job=job,
        codes=tuple(codes or ()),
        since=instant(since, now),
        until=instant(until, now),
        types=tuple(_type(kind) for kind in kinds or ()),
        severities=tuple(severity.value for severity in severities or ()),
    )
    if archive is not None:
        _show(session, archived_entries(archive, wanted), limit, more=None)
    elif following:
        _follow(session, follow(session.timeline, wanted, session.ports.clock, _wait))
    else:
        _show(session, *_pages(session, wanted, limit))


def _pages(session: Session, wanted: Wanted, limit: int) -> tuple[Sequence[Line], int, str | None]:
    lines: list[Line] = []
    token = None
    while len(lines) < limit:
        page, token = session.timeline.page(wanted, limit - len(lines), token)
        lines += page
        if token is None:
            break
    return lines, limit, token


def _show(session: Session, lines: Sequence[Line], limit: int, more: str | None) -> None:
    session.show((entry_document(line) for line in in_order(lines[:limit])), ENTRIES)
    if more is not None or len(lines) > limit:
        notice(f"there are more than {limit} entries; narrow it with --since and --until, or raise --limit")


def _wait() -> bool:
    time.sleep(PAUSE_SECONDS)
    return True


def _follow(session: Session, lines: Iterator[Line]) -> None:
    table = LiveTable(ENTRIES, widths=(19, 16, 46))
    for line in lines:
        document = entry_document(line)
        if session.for_people:
            table.add(document)
        else:
            print(json.dumps(document))
        sys.stdout.flush()


def _type(text: str) -> str:
    known = _TYPES.get(text.lower().replace("-", " "))
    if known is None:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(_TYPES.values())}")
    return known
