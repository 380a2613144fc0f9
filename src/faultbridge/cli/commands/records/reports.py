"""`faultbridge report`, `sla` and `verify`: what the record says about a period, and that no entry is missing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from msgspec import to_builtins

from faultbridge.cli.commands.options import ClusterOption, FileOption
from faultbridge.cli.declare import EXIT_NOT_WELL, BadParameter, Exit, Option, Text, command
from faultbridge.cli.render.output import Columns, fields, notice, progress
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.archive_copy import ArchiveOption, archived_entries, open_folder
from faultbridge.cli.stack.session import Session, StackSession
from faultbridge.decide.service_level import Outage, ServiceLevel, service_level
from faultbridge.model.enums import EntryType
from faultbridge.record.archive.verification import VerifyArchive, anchored_hashes
from faultbridge.record.entry_text import duration_text
from faultbridge.record.timeline import TimelineQuery
from faultbridge.record.verify import Verified
from faultbridge.serve.wiring.services import wire_reports

MAX_ENTRIES = 300


@command("report", "--cluster train-a --since 2h", "--cluster train-a --since 7d --output-file week.html")
def write_report(
    session: StackSession,
    cluster: ClusterOption,
    since: Annotated[Text, Option("TIME", f"Begin of the report. {PAST_HELP}")] = None,
    until: Annotated[Text, Option("TIME", f"End of the report. {PAST_HELP}")] = None,
    limit: Annotated[int, Option("N", "Include the newest N entries.", min=1)] = MAX_ENTRIES,
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
    found: ServiceLevel = service_level(cluster, (line.read() for line in lines), first, last)
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
