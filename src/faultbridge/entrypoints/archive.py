"""The schedule: one round an hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.telemetry import emit, logger
from faultbridge.errors import Misconfigured, Transient

if TYPE_CHECKING:
    from faultbridge.bootstrap import Application


def archive(_event: Mapping[str, Any], application: Application) -> dict[str, Any]:
    """Anchor and seal what is due.

    Raises Misconfigured where only a person can help, and Transient where another round will. Lambda runs both again;
    errors in two hours on end raise an alarm.
    """
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
        raise Misconfigured("; ".join([*kept.failures, *kept.breaks, *kept.late]))
    if kept.late:
        raise Transient("; ".join(kept.late))
    return asdict(kept)
