"""The table's stream: new entries to the bus and to the archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.telemetry import emit, emit_of, logger
from faultbridge.entrypoints.stream import images
from faultbridge.errors import FaultbridgeError
from faultbridge.ops.measures import measure

if TYPE_CHECKING:
    from faultbridge.bootstrap import Application
    from faultbridge.storage.writes import Item


def publish(event: Mapping[str, Any], application: Application) -> None:
    """Take new entries from the table's stream; raises when the bus did not take all, so that the stream repeats."""
    entries = list(images(event))
    published = application.publish(entries)
    archived = _archive(entries, application)
    for cluster, measures in measure(entries, application.ports.clock.now()).items():
        emit_of(cluster, measures.counts, measures.durations)
        for code, counts in measures.codes.items():
            emit_of(cluster, counts, code=code)
    emit({"EntriesPublished": published, "EntriesArchived": archived, "EntriesNotArchived": len(entries) - archived})


def _archive(entries: Sequence[Item], application: Application) -> int:
    # The archive is completed from the table when its day is sealed: for its sake nobody is told anything twice.
    try:
        return application.write_archive(entries)
    except FaultbridgeError as error:
        logger.error("entries were not archived; the seal will complete them", failure=str(error))
        return 0
