"""The schedule: one round an hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.telemetry import emit, logger
from faultbridge.errors import Misconfigured

if TYPE_CHECKING:
    from faultbridge.bootstrap import Application


def archive(_event: Mapping[str, Any], application: Application) -> dict[str, Any]:
    """Anchor and seal what is due; raises Misconfigured when a cluster could not be, so that somebody is called."""
    kept = application.archive()
    for broken in kept.breaks:
        logger.error("a stream is broken and is not sealed from there on", place=broken)
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
        raise Misconfigured("; ".join([*kept.failures, *kept.breaks]))
    return asdict(kept)
