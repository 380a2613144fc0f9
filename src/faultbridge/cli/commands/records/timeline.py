"""`faultbridge timeline`, `tail`, `report`, `sla` and `verify`: the entries, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from msgspec import to_builtins

from faultbridge.cli.commands.options import ClusterOption, FileOption, default_cluster
from faultbridge.cli.commands.selection import NodeFacts, Selection, SelectionOptions, entry_facts
from faultbridge.cli.declare import (
    EXIT_NOT_WELL,
    EXIT_TRY_AGAIN,
    BadParameter,
    Exit,
    Group,
    Option,
    Text,
    Texts,
    command,
)
from faultbridge.cli.render.columns import CHAIN, ENTRIES, check_format, entry_document, print_as_recorded, text_of
from faultbridge.cli.render.output import Columns, OutputFormat, fields, notice, progress
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.locate import ArchiveOption, archived_entries, open_folder
from faultbridge.cli.stack.session import Session, StackSession, WaitOption, pause, wait_until
from faultbridge.decide.service_level import Outage, ServiceLevel, service_level
from faultbridge.model.enums import EntryType
from faultbridge.model.event_data import ClusterStatusData, NodeStatusData
from faultbridge.model.fault_enums import Severity
from faultbridge.record.archive.verification import VerifyArchive, anchored_hashes
from faultbridge.record.causes import MAX_LINKS, read_chain
from faultbridge.record.entry_text import duration_text
from faultbridge.record.timeline import Line, TimelineQuery, follow, sort_by_occurrence
from faultbridge.record.verify import Verified
from faultbridge.repair.registry.documents import Entry, shared
from faultbridge.serve.wiring.services import wire_reports


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
    if chain.record is not None:
        session.remark(f"the chain starts with the raw record {chain.record}")
    if not chain.complete:
        notice(f"output truncated: the event has more than {MAX_LINKS} causes or effects")


MIN_REGISTRATIONS = 2


def _compact_columns(columns: Columns) -> Columns:
    """Return the columns for entries and for the documents of `compact`, which list several nodes in `nodes`."""
    node, what = columns["NODE"], columns["WHAT"]
    return {
        **columns,
        "NODE": lambda one: f"{one.nodes[0]} +{len(one.nodes) - 1}" if hasattr(one, "nodes") else node(one),
        "WHAT": lambda one: (
            f"{len(one.nodes)} {text_of(one).what.replace('node ', 'nodes ', 1)}"
            if hasattr(one, "nodes")
            else what(one)
        ),
    }


class Registrations(Entry, frozen=True, kw_only=True):
    """Several registrations of nodes with the same text, as the entry of the first one."""

    nodes: tuple[str, ...]


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


Filters = dict[str, Any]
MAX_ENTRIES = 10_000
_TYPES = {entry_type.value.lower(): entry_type.value for entry_type in EntryType}

_CONFLICTS: Mapping[str, tuple[str, ...]] = {
    "--cause": ("other filters", "--follow", "--limit", "--archive", "--wait"),
    "--follow": ("--limit", "--archive", "--wait"),
    "--archive": ("--job", "--wait"),
}
"""The options that have no effect beside another option, by that option."""


_FILTERS: Mapping[str, Any] = {
    "cluster": Annotated[Text, Option("CLUSTER", "Cluster to show. Default: FAULTBRIDGE_CLUSTER, else all clusters.")],
    "node": Annotated[Text, Option("NODE", "Only this node of the cluster.")],
    "case": Annotated[Text, Option("ID", "Only this case.")],
    "device": Annotated[Text, Option("ID", "Only this device: serial number or UUID.")],
    "job": Annotated[Text, Option("JOB", "Only this job of the cluster.")],
    "since": Annotated[Text, Option("TIME", f"Only entries recorded since this time. {PAST_HELP}")],
    "until": Annotated[Text, Option("TIME", f"Only entries recorded before this time. {PAST_HELP}")],
    "types": Annotated[Texts, Option("--type TYPE", "Only this entry type, such as case-status-change. Repeatable.")],
    "severities": Annotated[
        list[Severity] | None,
        Option(
            "--severity SEVERITY",
            f"Only while the highest severity of the node was one of: {', '.join(Severity)}. Repeatable.",
        ),
    ],
}


def _checked(filters: Filters) -> Filters:
    types = [(text, _TYPES.get(text.lower().replace("-", " "))) for text in filters.get("types", ())]
    unknown = [text for text, known in types if known is None]
    if unknown:
        raise BadParameter(f"unknown --type: {unknown[0]!r}; allowed: {', '.join(_TYPES.values())}")
    severities = tuple(severity.value for severity in filters.get("severities", ()))
    return filters | {"types": tuple(known for _, known in types), "severities": severities}


FilterOptions = Annotated[Filters, Group(_FILTERS, _checked)]


@command(
    "timeline",
    "--cluster train-a --since 2h",
    "--cluster train-a --node ip-10-0-0-7 --follow",
    "--code xid.79 --since 7d --by rack",
    "--cause 0b8e1c9a-51c7-5a39-9d4e-2f6f6f0f7d11",
)
def show_timeline(
    session: StackSession,
    filters: FilterOptions,
    selection: SelectionOptions,
    cause: Annotated[Text, Option("EVENT", "Only what caused this event, and what it caused: an event id.")] = None,
    following: Annotated[bool, Option("--follow -f", "Keep printing new entries.")] = False,
    limit: Annotated[int | None, Option("N", f"Show the newest N entries. Default: {MAX_ENTRIES}.", min=1)] = None,
    archive: ArchiveOption = None,
    wait: WaitOption = 0,
) -> None:
    """Show timeline entries in the order in which things happened, oldest first.

    A table shows the registration of many nodes in one row; --wide and --json print every entry. `late` marks an entry
    that was recorded more than two minutes after it happened, for example because its report was delayed. With
    --follow, entries appear in the order in which they are recorded. --code finds a fault by its code and by the code
    that its source reported.
    """
    _check_conflicts(
        filters, selection, {"--follow": following, "--limit": limit, "--archive": archive, "--wait": wait}, cause
    )
    if cause is not None:
        show_chain(session, cause)
        return
    limit = limit or MAX_ENTRIES
    wanted = _query(session, filters, selection, archive)
    places = NodeFacts(None if archive else session)
    keeps = _keeps(selection, places)
    if selection.by is not None:
        every = archived_entries(archive, wanted) if archive is not None else session.timeline.entries(wanted)
        selection.show_counts(session, (entry_facts(entry_document(line), places) for line in filter(keeps, every)))
    elif archive is not None:
        archived = list(filter(keeps, archived_entries(archive, wanted)))
        _show(session, archived[-limit:], _columns(wanted), older=len(archived) > limit)
    elif following:
        _follow(session, wanted, keeps)
    else:
        lines, older = wait_until(lambda: _newest(session, wanted, limit, keeps), wait, lambda newest: bool(newest[0]))
        _show(session, lines, _columns(wanted), older=older)
        if wait and not lines:
            raise Exit(EXIT_TRY_AGAIN)


@command("tail", "", "--cluster train-a --node ip-10-0-0-7")
def show_tail(session: StackSession, filters: FilterOptions, selection: SelectionOptions) -> None:
    """Print entries as they are recorded, of all clusters or of those selected; the same as `timeline --follow`."""
    if selection.by is not None:
        raise BadParameter("conflicting options: tail with --by; `faultbridge timeline --by` prints counts")
    _follow(session, _query(session, filters, selection, None), _keeps(selection, NodeFacts(session)))


def _follow(session: Session, wanted: TimelineQuery, keeps: Callable[[Line], bool] | None) -> None:
    check_format(session.output, "--follow")
    found = follow(session.timeline, wanted, session.ports.clock, pause)
    print_as_recorded(filter(keeps, found), session.output, _columns(wanted))


def _columns(wanted: TimelineQuery) -> Columns:
    """Return the columns of entries; those of several clusters have the cluster before the node."""
    place = "{0.cluster}/{1}"
    named = {"NODE": lambda one: place.format(one.event.metadata, one.event.metadata.node or "")}
    return ENTRIES | named if wanted.clusters else ENTRIES


def _check_conflicts(filters: Filters, selection: Selection, options: Mapping[str, object], cause: str | None) -> None:
    is_filtered = not selection.is_empty or any(value for name, value in filters.items() if name != "cluster")
    given = {**options, "--cause": cause, "--job": filters.get("job"), "other filters": is_filtered}
    for option, others in _CONFLICTS.items():
        conflicting = [one for one in others if given[one]]
        if given[option] and conflicting:
            raise BadParameter(f"conflicting options: {option} with {conflicting[0]}; give one of them")


def _newest(
    session: Session, wanted: TimelineQuery, limit: int, keeps: Callable[[Line], bool] | None
) -> tuple[tuple[Line, ...], bool]:
    if keeps is None:
        return session.timeline.newest(wanted, limit)
    found = tuple(filter(keeps, session.timeline.entries(wanted)))
    return found[-limit:], len(found) > limit


def _keeps(selection: Selection, places: NodeFacts) -> Callable[[Line], bool] | None:
    """Return the filter for what no query can select; None, which filters nothing, without one."""
    chosen = Selection({name: given for name, given in selection.patterns.items() if name != "code"}, None)
    return None if chosen.is_empty else lambda line: chosen.keeps(entry_facts(entry_document(line), places))


def _query(session: Session, filters: Filters, selection: Selection, archive: Path | None) -> TimelineQuery:
    """Return the query of the filters; without a cluster, case or device, it is about all clusters of the stack."""
    now = session.now() if archive is None else datetime.now(UTC)
    times = {name: parse_time(filters.get(name), now, f"--{name}") for name in ("since", "until")}
    needs_cluster = filters.get("job") or not (filters.get("case") or filters.get("device"))
    if archive is None and needs_cluster and not filters.get("cluster"):
        default = default_cluster()
        is_fleet = default is None and not (filters.get("job") or filters.get("node"))
        filters = {**filters, "cluster": default, "clusters": session.cluster_names() if is_fleet else ()}
    return TimelineQuery(**{**filters, **times, "codes": tuple(selection.patterns["code"])})


def _show(session: Session, lines: Sequence[Line], columns: Columns, *, older: bool) -> None:
    documents = [entry_document(line) for line in sort_by_occurrence(lines)]
    if session.output is OutputFormat.TABLE:
        rows = list(compact(documents))
        session.show(rows, _compact_columns(columns))
        if len(rows) < len(documents):
            notice(f"registrations are summarized: {len(documents)} entries in {len(rows)} rows; --wide prints each")
    else:
        session.show(documents, columns)
    if older:
        notice(f"the newest {len(lines)} entries are shown; --limit and --until show older ones")


MAX_REPORT_ENTRIES = 300


@command("report", "--cluster train-a --since 2h", "--cluster train-a --since 7d --output-file week.html")
def write_report(
    session: StackSession,
    cluster: ClusterOption,
    since: Annotated[Text, Option("TIME", f"Begin of the report. {PAST_HELP}")] = None,
    until: Annotated[Text, Option("TIME", f"End of the report. {PAST_HELP}")] = None,
    limit: Annotated[int, Option("N", "Include the newest N entries.", min=1)] = MAX_REPORT_ENTRIES,
    file: FileOption = None,
) -> None:
    """Write a report of a cluster and its cases as one HTML file, which opens from disk without a network."""
    now = session.now()
    window = (parse_time(since, now), parse_time(until, now, "--until"))
    session.write_page(wire_reports(session.application).cluster(cluster, window, limit), file, cluster)


TYPES = (EntryType.NODE_STATUS.value, EntryType.CASE_STATUS.value)
LEVEL: Columns = {
    "Period": lambda one: f"{one.since} to {one.until}",
    "Availability": lambda one: (
        "unknown" if one.availability_ppm is None else "{}.{:04d} %".format(*divmod(one.availability_ppm, 10_000))
    ),
    "Credit": lambda one: "unknown" if one.credit_percent is None else f"{one.credit_percent} %",
    "Nodes": lambda one: str(len(one.nodes)),
    "Node time": lambda one: _hours(one.eligible_ms),
    "Excluded": lambda one: _hours(one.excluded_ms),
    "Lost to faults": lambda one: _hours(one.lost_ms),
    "Repair times": lambda one: ", ".join(f"{count} {name}" for name, count in one.repair_times.items()) or "none",
    "Outages": lambda one: "\n".join(map(_outage, one.outages)) or "none",
}


def _hours(ms: int) -> str:
    return f"{ms / 3_600_000:.3f} h"


def _outage(one: Outage) -> str:
    return f"{one.node}, {one.why}, {one.start}, {duration_text(one.ms)}, entries {one.began} {one.ended or 'open'}"


@command("sla", "--cluster train-a --since 30d", "--cluster train-a --since 2026-02-01T00:00Z --json")
def show_service_level(
    session: StackSession,
    cluster: ClusterOption,
    since: Annotated[str, Option("TIME", f"Begin of the period. {PAST_HELP}")] = "30d",
    until: Annotated[Text, Option("TIME", "End of the period. Default: now.")] = None,
    archive: ArchiveOption = None,
) -> None:
    """Show the service level of a cluster in a period: availability, repair times, credit, and each outage.

    Every value is a function of the recorded entries, so that both sides of a contract compute the same one.
    """
    now = datetime.now(UTC) if archive else session.now()
    first, last = parse_time(since, now, "--since"), parse_time(until, now, "--until") or now
    if first is None or first >= last:
        raise BadParameter(f"an empty period: {since} to {until or 'now'}; give a --since before --until")
    query = TimelineQuery(cluster, types=TYPES, until=last)
    lines = archived_entries(archive, query) if archive else session.timeline.entries(query)
    found: ServiceLevel = service_level(cluster, (line.event for line in lines), first, last)
    session.show_one(found, LEVEL)


VERIFIED: Columns = fields("Streams, Entries, Verified=whole:yes, Breaks") | {
    "Breaks": lambda one: "\n".join(
        f"{found['object'] or '{stream} entry {epoch}/{sequence}'.format(**found)}: {found['detail']} ({found['kind']})"
        for found in one["breaks"]
    ),
}


@command("verify", "--cluster train-a", "--cluster train-a --anchor", "--cluster train-a --archive ./copy")
def verify_record(
    session: StackSession,
    cluster: ClusterOption,
    node: Annotated[Text, Option("NODE", "Only this node. Default: the cluster and all its nodes.")] = None,
    anchor: Annotated[bool, Option(help="Also check against the anchors in the vault.")] = False,
    archive: ArchiveOption = None,
    stack_id: Annotated[
        Text, Option("ID", "Stack identity of an archive without a sealed day (output StackIdentity).")
    ] = None,
) -> None:
    """Verify the hash chains of entries, their attributes, and the table rows derived from them.

    Exit code 1: an entry is missing or changed; the first error is printed. Without --anchor, the command finds
    accidental damage only, because a writer of the table can forge a valid chain. With --archive, the command checks a
    copy of the archive and needs no stack.
    """
    if archive is not None:
        folder = open_folder(archive)
        verified = VerifyArchive(folder, folder if anchor else None, stack_id)(cluster, node)
    else:
        verified = _on_stack(session, cluster, node, anchor=anchor)
    summary = {"cluster": cluster, "node": node, "whole": verified.whole, "anchored": anchor}
    session.show_one({**to_builtins(verified), **summary}, VERIFIED)
    if not verified.whole:
        first = verified.breaks[0]
        place = f"{first.stream} is broken at entry {first.epoch}/{first.sequence}"
        notice(first.detail if first.object and not first.sequence else f"{place}: {first.detail}")
        raise Exit(EXIT_NOT_WELL)


def _on_stack(session: Session, cluster: str, node: str | None, *, anchor: bool) -> Verified:
    verified = Verified()
    anchors = anchored_hashes(session.ports.vault, cluster) if anchor else None
    if anchors is not None and not anchors.anchors:
        notice("no anchor in the vault yet; one is written each hour")
    with progress("verifying streams", None) as advance:
        for _stream in session.verify.stream_by_stream(cluster, node, verified, anchors):
            advance(1)
    return verified
