"""`faultbridge timeline`: shows the entries of a cluster, node, case, device or job."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated, Any

from faultbridge.cli.commands.options import default_cluster
from faultbridge.cli.declare import BadParameter, Commands, Exit, Group, Option
from faultbridge.cli.errors import EXIT_TRY_AGAIN
from faultbridge.cli.render.columns import CHAIN, ENTRIES, check_format, entry_document, print_as_recorded, text_of
from faultbridge.cli.render.output import Columns, OutputFormat, notice
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.archive_copy import ArchiveOption, archived_entries
from faultbridge.cli.stack.command import StackSession, WaitOption, wait_until
from faultbridge.cli.stack.session import Session
from faultbridge.model.enums import EntryType
from faultbridge.model.event_data import ClusterStatusData, NodeStatusData
from faultbridge.model.fault_enums import Severity
from faultbridge.record.causes import MAX_LINKS, read_chain
from faultbridge.record.timeline import Line, TimelineQuery, follow, sort_by_occurrence
from faultbridge.repair.registry.documents import Entry, shared


class ChainLink(Entry, frozen=True, kw_only=True):
    """An entry of a chain of causes, and how far it is from the requested event."""

    relation: str
    distance: int


def show_chain(session: Session, event_id: str) -> None:
    """Print the causes of an event, the event itself and its effects, in the order of recording."""
    chain = read_chain(session.ports.table, event_id)
    session.show(
        (
            shared(ChainLink, entry_document(link.line), relation=link.relation.value, distance=link.distance)
            for link in chain.links
        ),
        CHAIN,
    )
    if chain.record is not None and session.prints_table:
        notice(f"the chain starts with the raw record {chain.record}")
    if not chain.complete:
        notice(f"output truncated: the event has more than {MAX_LINKS} causes or effects")


MIN_REGISTRATIONS = 2

COMPACT_ENTRIES: Columns = {
    **ENTRIES,
    "NODE": lambda one: f"{one.nodes[0]} +{len(one.nodes) - 1}" if _is_combined(one) else ENTRIES["NODE"](one),
    "WHAT": lambda one: f"{len(one.nodes)} {_registered(one)}" if _is_combined(one) else ENTRIES["WHAT"](one),
}
"""Columns for entries, and for the documents of `compact` that combine entries and list their nodes in `nodes`."""


class Registrations(Entry, frozen=True, kw_only=True):
    """Several registrations of nodes with the same text, as the entry of the first one."""

    nodes: tuple[str, ...]


def _is_combined(entry: Entry) -> bool:
    return isinstance(entry, Registrations)


def compact(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Replace successive registrations of nodes with one document per kind of registration.

    Registrations with the same text, reason and cluster become one document with their `nodes`. Of the updates of node
    counts that they cause, only the last one is kept. Any other entry ends the series.
    """
    for is_setup, run in groupby(entries, _is_setup):
        documents = list(run)
        yield from _compact_run(documents) if is_setup else documents


def _compact_run(run: Sequence[Entry]) -> Iterator[Entry]:
    registered = [one for one in run if _is_registration(one)]
    if len(registered) < MIN_REGISTRATIONS:
        yield from run
        return
    for _, alike in groupby(sorted(registered, key=_kind), _kind):
        entries = list(alike)
        nodes = tuple(str(one.metadata["node"]) for one in entries)
        yield shared(Registrations, entries[0], nodes=nodes) if len(nodes) > 1 else entries[0]
    yield from [one for one in run if not _is_registration(one)][-1:]


def _is_setup(entry: Entry) -> bool:
    data = entry.event.data
    if isinstance(data, ClusterStatusData):
        return data.from_ == data.to and not (data.incidents or data.provider_stage or data.provider_conditions)
    return _is_registration(entry)


def _is_registration(entry: Entry) -> bool:
    data = entry.event.data
    return isinstance(data, NodeStatusData) and data.from_ is None


def _kind(entry: Entry) -> tuple[str, str, str]:
    text = text_of(entry)
    return text.what, text.why, entry.event.metadata.cluster


def _registered(entry: Entry) -> str:
    return text_of(entry).what.replace("node ", "nodes ", 1)


app = Commands()

Filters = dict[str, Any]

POLL_SECONDS = 1.0
MAX_ENTRIES = 10_000
_TYPES = {entry_type.value.lower(): entry_type.value for entry_type in EntryType}

ClusterFilter = Annotated[
    str | None,
    Option("--cluster", metavar="CLUSTER", help="Cluster to show. Default, without --case: FAULTBRIDGE_CLUSTER."),
]
_CONFLICTS: Mapping[str, tuple[str, ...]] = {
    "--cause": ("other filters", "--follow", "--limit", "--archive", "--wait"),
    "--follow": ("--limit", "--archive", "--wait"),
    "--archive": ("--job", "--wait"),
}
"""The options that have no effect beside another option, by that option."""


def _filters(
    cluster: ClusterFilter = None,
    node: Annotated[str | None, Option("--node", metavar="NODE", help="Only this node of the cluster.")] = None,
    case: Annotated[str | None, Option("--case", metavar="ID", help="Only this case.")] = None,
    device: Annotated[
        str | None, Option("--device", metavar="ID", help="Only this device: serial number or UUID.")
    ] = None,
    job: Annotated[str | None, Option("--job", metavar="JOB", help="Only this job of the cluster.")] = None,
    codes: Annotated[
        list[str] | None, Option("--code", metavar="CODE", help="Only this fault code (xid.79). Repeatable.")
    ] = None,
    since: Annotated[
        str | None, Option("--since", metavar="TIME", help=f"Only entries recorded since this time. {PAST_HELP}")
    ] = None,
    until: Annotated[
        str | None, Option("--until", metavar="TIME", help=f"Only entries recorded before this time. {PAST_HELP}")
    ] = None,
    kinds: Annotated[
        list[str] | None,
        Option("--type", metavar="TYPE", help="Only this entry type, such as case-status-change. Repeatable."),
    ] = None,
    severities: Annotated[
        list[Severity] | None,
        Option(
            "--severity",
            metavar="SEVERITY",
            help=f"Only while the highest severity of the node was one of: {', '.join(Severity)}. Repeatable.",
        ),
    ] = None,
) -> Filters:
    return {
        "cluster": cluster,
        "node": node,
        "case": case,
        "device": device,
        "job": job,
        "codes": tuple(codes or ()),
        "since": since,
        "until": until,
        "types": tuple(_type(kind) for kind in kinds or ()),
        "severities": tuple(severity.value for severity in severities or ()),
    }


@app.command(
    "timeline",
    "faultbridge timeline --cluster train-a --since 2h",
    "faultbridge timeline --cluster train-a --node ip-10-0-0-7 --follow",
    "faultbridge timeline --cluster train-a --code xid.79 --since 7d --jsonl",
    "faultbridge timeline --cause 0b8e1c9a-51c7-5a39-9d4e-2f6f6f0f7d11",
)
def show_timeline(
    session: StackSession,
    filters: Annotated[Filters, Group(_filters)],
    cause: Annotated[
        str | None,
        Option("--cause", metavar="EVENT", help="Only what caused this event, and what it caused: an event id."),
    ] = None,
    following: Annotated[bool, Option("--follow", "-f", help="Keep printing new entries.")] = False,
    limit: Annotated[
        int | None,
        Option("--limit", min=1, metavar="N", help=f"Show the newest N entries. Default: {MAX_ENTRIES}."),
    ] = None,
    archive: ArchiveOption = None,
    wait: WaitOption = 0,
) -> None:
    """Show timeline entries in the order in which things happened, oldest first.

    A table shows the registration of many nodes in one row; --wide and --json print every entry. `late` marks an entry
    that was recorded more than two minutes after it happened, for example because its report was delayed. With
    --follow, entries appear in the order in which they are recorded. --code finds a fault by its code and by the code
    that its source reported.
    """
    _check_conflicts(filters, {"--follow": following, "--limit": limit, "--archive": archive, "--wait": wait}, cause)
    if cause is not None:
        show_chain(session, cause)
        return
    limit = limit or MAX_ENTRIES
    wanted = _query(filters, session.now() if archive is None else datetime.now(UTC), default=archive is None)
    if archive is not None:
        archived = archived_entries(archive, wanted)
        _show(session, archived[-limit:], older=len(archived) > limit)
    elif following:
        check_format(session.output, "--follow")
        print_as_recorded(follow(session.timeline, wanted, session.ports.clock, _wait), session.output)
    else:
        lines, older = wait_until(lambda: _found(session.timeline.newest(wanted, limit)), wait) or ((), False)
        _show(session, lines, older=older)
        if wait and not lines:
            raise Exit(EXIT_TRY_AGAIN)


def _check_conflicts(filters: Filters, options: Mapping[str, object], cause: str | None) -> None:
    is_filtered = any(value for name, value in filters.items() if name != "cluster")
    given = {**options, "--cause": cause, "--job": filters["job"], "other filters": is_filtered}
    for option, others in _CONFLICTS.items():
        conflicting = [one for one in others if given[one]]
        if given[option] and conflicting:
            raise BadParameter(f"conflicting options: {option} with {conflicting[0]}; give one of them")


def _found(newest: tuple[tuple[Line, ...], bool]) -> tuple[tuple[Line, ...], bool] | None:
    return newest if newest[0] else None


def _query(filters: Filters, now: datetime, *, default: bool) -> TimelineQuery:
    """Return the query of the filters; the default cluster serves a query without case and device, if `default`."""
    times = {name: parse_time(filters[name], now, f"--{name}") for name in ("since", "until")}
    needs_cluster = filters["job"] or not (filters["case"] or filters["device"])
    if default and needs_cluster and not filters["cluster"]:
        filters = {**filters, "cluster": default_cluster()}
    return TimelineQuery(**{**filters, **times})


def _show(session: Session, lines: Sequence[Line], *, older: bool) -> None:
    documents = [entry_document(line) for line in sort_by_occurrence(lines)]
    if session.output is OutputFormat.TABLE:
        rows = list(compact(documents))
        session.show(rows, COMPACT_ENTRIES)
        if len(rows) < len(documents):
            notice(f"registrations are summarized: {len(documents)} entries in {len(rows)} rows; --wide prints each")
    else:
        session.show(documents, ENTRIES)
    if older:
        notice(f"the newest {len(lines)} entries are shown; --limit and --until show older ones")


def _wait() -> bool:
    """Wait for the next poll, and return True, so that `--follow` never ends by itself."""
    time.sleep(POLL_SECONDS)
    return True


def _type(text: str) -> str:
    known = _TYPES.get(text.lower().replace("-", " "))
    if known is None:
        raise BadParameter(f"unknown --type: {text!r}; allowed: {', '.join(_TYPES.values())}")
    return known
