"""The schedule: one round a minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.telemetry import emit, logger

if TYPE_CHECKING:
    from faultbridge.bootstrap import Application


def sweep(_event: Mapping[str, Any], application: Application) -> dict[str, Any]:
    """Do the minute's round; what failed in it is logged and comes again with the next."""
    swept = application.sweep()
    for failure in swept.failures:
        logger.error("a part of the sweep failed", failure=failure)
    counts = {"Ticked": swept.ticked, "Republished": swept.published, "SweepFailures": len(swept.failures)}
    emit(counts | {"SweepUnfinished": int(swept.unfinished)})
    return asdict(swept)
