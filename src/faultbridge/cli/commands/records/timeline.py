"""`faultbridge timeline`: shows the entries of a cluster, node, case, device or job."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from faultbridge.cli.commands.records.causes import show_chain
from faultbridge.cli.render.columns import ENTRIES, entry_document
from faultbridge.cli.render.live_output import LiveTable
from faultbridge.cli.render.output import examples, notice, print_line
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.archive_copy import ArchiveOption, archived_entries
from faultbridge.cli.stack.command import stack_command
from faultbridge.cli.stack.session import Session
from faultbridge.domain.entries import EntryType
from faultbridge.domain.faults import Severity
from faultbridge.ledger.timeline import Line, TimelineQuery, follow, sort_by_occurrence

app = typer.Typer(rich_markup_mode=None)

POLL_SECONDS = 1.0
MAX_ENTRIES = 10_000
_TYPES = {entry_type.value.lower(): entry_type.value for entry_type in EntryType}

ClusterFilter = Annotated[str | None, typer.Option("--cluster", metavar="CLUSTER", help="Cluster to show.")]
NodeFilter = Annotated[str | None, typer.Option("--node", metavar="NODE", help="Only this node of the cluster.")]
CaseFilter = Annotated[str | None, typer.Option("--case", metavar="ID", help="Only this case.")]
DeviceFilter = Annotated[
    str | None, typer.Option("--device", metavar="ID", help="Only this device: serial number or UUID.")
]
JobFilter = Annotated[str | None, typer.Option("--job", metavar="JOB", help="Only this job of the cluster.")]
CodeFilter = Annotated[
    list[str] | None, typer.Option("--code", metavar="CODE", help="Only this fault code (xid.79). Repeatable.")
]
SinceFilter = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help=f"Only entries recorded since this time. {PAST_HELP}")
]
UntilFilter = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help=f"Only entries recorded before this time. {PAST_HELP}")
]
TypeFilter = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="TYPE", help="Only this entry type, such as case-status-change. Repeatable."),
]
SeverityFilter = Annotated[
    list[Severity] | None,
    typer.Option(
        "--severity",
        metavar="SEVERITY",
        help=f"Only while the highest severity of the node was one of: {', '.join(Severity)}. Repeatable.",
    ),
]
CauseFilter = Annotated[
    str | None,
    typer.Option("--cause", metavar="EVENT", help="Only what caused this event, and what it caused: an event id."),
]
LimitOption = Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Maximum number of entries.")]


@app.command(
    "timeline",
    epilog=examples(
        "faultbridge timeline --cluster train-a --since 2h",
        "faultbridge timeline --cluster train-a --node ip-10-0-0-7 --follow",
        "faultbridge timeline --cluster train-a --code xid.79 --since 7d --jsonl",
        "faultbridge timeline --cause 0b8e1c9a-51c7-5a39-9d4e-2f6f6f0f7d11",
    ),
)
@stack_command
def show_timeline(
    session: Session,
    cluster: ClusterFilter = None,
    node: NodeFilter = None,
    case: CaseFilter = None,
    device: DeviceFilter = None,
    job: JobFilter = None,
    codes: CodeFilter = None,
    since: SinceFilter = None,
    until: UntilFilter = None,
    kinds: TypeFilter = None,
    severities: SeverityFilter = None,
    cause: CauseFilter = None,
    following: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new entries.")] = False,
    limit: LimitOption = MAX_ENTRIES,
    archive: ArchiveOption = None,
) -> None:
    """Show timeline entries, oldest first. An entry that was recorded late is marked as late."""
    if cause is not None:
        show_chain(session, cause, node, case, device, job, codes, since, until, kinds, severities, following, archive)
        return
    now = session.now() if archive is None else datetime.now(UTC)
    wanted = TimelineQuery(
        cluster=cluster,
        node=node,
        case=case,
        device=device,
        job=job,
        codes=tuple(codes or ()),
        since=parse_time(since, now),
        until=parse_time(until, now),
        types=tuple(_type(kind) for kind in kinds or ()),
        severities=tuple(severity.value for severity in severities or ()),
    )
    if archive is not None:
        _show(session, archived_entries(archive, wanted), limit, more=None)
    elif following:
        _follow(session, follow(session.timeline, wanted, session.ports.clock, _wait))
    else:
        _show(session, *_pages(session, wanted, limit))


def _pages(session: Session, wanted: TimelineQuery, limit: int) -> tuple[Sequence[Line], int, str | None]:
    """Read entries up to the limit. Returns them, the limit, and a token when there are more."""
    lines: list[Line] = []
    token = None
    while len(lines) < limit:
        page, token = session.timeline.page(wanted, limit - len(lines), token)
        lines += page
        if token is None:
            break
    return lines, limit, token


def _show(session: Session, lines: Sequence[Line], limit: int, more: str | None) -> None:
    session.show((entry_document(line) for line in sort_by_occurrence(lines[:limit])), ENTRIES)
    if more is not None or len(lines) > limit:
        notice(f"output truncated: more than {limit} entries; narrow with --since and --until, or raise --limit")


def _wait() -> bool:
    """Wait until the next poll. Returns True, so that following never ends."""
    time.sleep(POLL_SECONDS)
    return True


def _follow(session: Session, lines: Iterator[Line]) -> None:
    """Print each entry when it arrives."""
    table = LiveTable(ENTRIES, widths=(19, 16, 46))
    for line in lines:
        document = entry_document(line)
        if session.prints_table:
            table.add(document)
        else:
            print_line(json.dumps(document))
        sys.stdout.flush()


def _type(text: str) -> str:
    """Return the entry type for a name in any case, with blanks or hyphens."""
    known = _TYPES.get(text.lower().replace("-", " "))
    if known is None:
        raise typer.BadParameter(f"unknown --type: {text!r}; allowed: {', '.join(_TYPES.values())}")
    return known
