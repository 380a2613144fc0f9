"""`faultbridge sla`: the service level of a cluster in a period, with the entries that count."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from faultbridge.cli.commands.options import ClusterOption
from faultbridge.cli.declare import BadParameter, Option, command
from faultbridge.cli.render.output import Columns
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.archive_copy import ArchiveOption, archived_entries
from faultbridge.cli.stack.command import StackSession
from faultbridge.decide.service_level import ServiceLevel, service_level
from faultbridge.model.enums import EntryType
from faultbridge.record.entry_text import duration_text
from faultbridge.record.timeline import TimelineQuery

if TYPE_CHECKING:
    from faultbridge.decide.service_level import Outage

TYPES = (EntryType.NODE_STATUS.value, EntryType.CASE_STATUS.value)
LEVEL: Columns = {
    "Period": lambda one: f"{one.since} to {one.until}",
    "Availability": lambda one: _percent(one.availability_ppm),
    "Credit": lambda one: "unknown" if one.credit_percent is None else f"{one.credit_percent} %",
    "Nodes": lambda one: str(len(one.nodes)),
    "Node time": lambda one: _hours(one.eligible_ms),
    "Excluded": lambda one: _hours(one.excluded_ms),
    "Lost to faults": lambda one: _hours(one.lost_ms),
    "Repair times": lambda one: ", ".join(f"{count} {name}" for name, count in one.repair_times.items()) or "none",
    "Outages": lambda one: "\n".join(map(_outage, one.outages)) or "none",
}


def _percent(ppm: int | None) -> str:
    return "unknown" if ppm is None else f"{ppm // 10_000}.{ppm % 10_000:04d} %"


def _hours(ms: int) -> str:
    return f"{ms / 3_600_000:.3f} h"


def _outage(one: Outage) -> str:
    return f"{one.node}, {one.why}, {one.start}, {duration_text(one.ms)}, entries {one.began} {one.ended or 'open'}"


@command("sla", "--cluster train-a --since 30d", "--cluster train-a --since 2026-02-01T00:00Z --json")
def show_service_level(
    session: StackSession,
    cluster: ClusterOption,
    since: Annotated[str, Option("TIME", f"Begin of the period. {PAST_HELP}")] = "30d",
    until: Annotated[str | None, Option("TIME", "End of the period. Default: now.")] = None,
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
