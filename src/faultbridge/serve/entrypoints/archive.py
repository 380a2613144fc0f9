"""The archive function: every hour, it anchors and seals the streams of each cluster.

An anchor records the last entry of every stream (its epoch, sequence number and hash) in a bucket under Object Lock.
The seal of a day adds entries that the archive lacks, and locks a manifest of the day.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from faultbridge.adapters.aws.telemetry import emit, logger
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.record.archive.anchor import Anchor, RecordAnchor
from faultbridge.record.archive.seal import ArchiveSchedule, Seal
from faultbridge.serve.wiring.installation import once

if TYPE_CHECKING:
    from faultbridge.record.archive.seal import RunResult
    from faultbridge.serve.wiring.installation import Installation


def archive(installation: Installation) -> RunResult:
    """Anchor all clusters, and seal the days that are due.

    Raises Misconfigured if an operator must act, and Transient if the next run may succeed. Lambda retries after both
    errors. Errors in two consecutive hours raise an alarm.
    """
    kept = wire_archive(installation).run()
    for broken in kept.breaks:
        logger().error("a stream has a broken chain and is not sealed after this entry", entry=broken)
    emit(
        {
            "ClustersAnchored": len(kept.roots),
            "EntriesSealed": kept.sealed,
            "EntriesCompleted": kept.completed,
            "StreamsBroken": len(kept.breaks),
        },
        roots=kept.roots,
    )
    if kept.failures or kept.breaks:
        raise Misconfigured("; ".join([*kept.failures, *kept.breaks, *kept.late]))
    if kept.late:
        raise Transient("; ".join(kept.late))
    return kept


@once
def wire_archive(app: Installation) -> ArchiveSchedule:
    """Return the service that anchors each cluster once an hour and seals complete days of its archive."""
    ports, stack, days = app.ports, app.stack, app.settings.entry_days
    anchor = Anchor(ports.table, ports.vault, ports.clock, stack)
    retention = timedelta(days=days) if days else None
    seal = Seal(ports.table, ports.archive, ports.vault, ports.clock, stack, retention)
    return ArchiveSchedule(ports.table, ports.clock, anchor, RecordAnchor(ports.table, ports.clock, stack), seal)
