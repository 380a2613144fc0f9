"""The publish function: sends new entries from the table stream to the bus and to the archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faultbridge.adapters.aws.dynamodb import new_images
from faultbridge.adapters.aws.telemetry import emit, emit_for_cluster, logger
from faultbridge.model.errors import FaultbridgeError
from faultbridge.record.archive.write import WriteArchive
from faultbridge.record.publish import Publish
from faultbridge.serve.ops.metrics import count_entries
from faultbridge.serve.wiring.installation import once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from faultbridge.model.storage.writes import Item
    from faultbridge.serve.wiring.installation import Installation


def publish(event: object, installation: Installation) -> None:
    """Publish and archive a batch of new entries.

    Raises an error if an entry could not be published, so that Lambda retries the batch. A failure of the archive is
    only logged, because the daily seal adds the missing entries.
    """
    entries = list(new_images(event))
    published = wire_publish(installation).publish(entries)
    archived = _write_archive(entries, installation)
    for cluster, measures in count_entries(entries, installation.ports.clock.now()).items():
        emit_for_cluster(cluster, measures.counts, measures.durations)
        for code, counts in measures.codes.items():
            emit_for_cluster(cluster, counts, code=code)
    emit({"EntriesPublished": published, "EntriesArchived": archived, "EntriesNotArchived": len(entries) - archived})


@once
def wire_publish(app: Installation) -> Publish:
    """Return the service that publishes timeline entries on the event bus."""
    return Publish(app.ports.table, app.ports.bus, app.stack.id, app.settings.hyperpod_mirror)


@once
def wire_archive_writer(app: Installation) -> WriteArchive:
    """Return the service that writes timeline entries to the archive."""
    return WriteArchive(app.ports.sink)


def _write_archive(entries: Sequence[Item], installation: Installation) -> int:
    # The daily seal adds missing entries from the table, so a failed archive write must not publish the batch twice.
    try:
        return wire_archive_writer(installation).write(entries)
    except FaultbridgeError as error:
        logger().error("entries were not archived; the daily seal adds them from the table", failure=str(error))
        return 0
