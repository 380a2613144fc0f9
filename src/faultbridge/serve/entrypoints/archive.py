"""The archive function: every hour, it anchors and seals the streams of each cluster.

An anchor records the last entry of every stream (its epoch, sequence number and hash) in a bucket under Object Lock.
The seal of a day adds entries that the archive lacks, and locks a manifest of the day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.aws.telemetry import emit, logger
from faultbridge.model.errors import Misconfigured, Transient

if TYPE_CHECKING:
    from faultbridge.serve.wiring.installation import Installation


def archive(_event: Mapping[str, Any], installation: Installation) -> dict[str, Any]:
    """Anchor all clusters, and seal the days that are due.

    Raises Misconfigured if an operator must act, and Transient if the next run may succeed. Lambda retries after both
    errors. Errors in two consecutive hours raise an alarm.
    """
    kept = installation.archive.schedule()
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
    return asdict(kept)
