"""The react function: updates incidents and jobs, isolates nodes and starts repairs after new entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faultbridge.adapters.aws.dynamodb import new_images
from faultbridge.adapters.aws.telemetry import emit
from faultbridge.serve.ops.react import React, status_causes
from faultbridge.serve.wiring.installation import once
from faultbridge.serve.wiring.services import (
    wire_breakers,
    wire_cluster_status,
    wire_correlate,
    wire_dispatch,
    wire_isolate,
    wire_job_impact,
)

if TYPE_CHECKING:
    from faultbridge.model.storage.writes import Item
    from faultbridge.serve.wiring.installation import Installation


def react(event: object, installation: Installation) -> None:
    """Update the incidents, jobs and repairs of every node and cluster that has a new entry.

    Raises an error if any of these steps failed, so that Lambda retries the batch. An entry only triggers the steps,
    which read the current state from the table.
    """
    entries = list(new_images(event))
    triggers = {(str(entry["cluster"]), _node(entry)) for entry in entries}
    wire_react(installation).run(triggers, status_causes(entries))
    emit({"Doorbells": len(triggers)})


@once
def wire_react(app: Installation) -> React:
    """Return the service that isolates and repairs nodes soon after new timeline entries."""
    return React(
        wire_correlate(app),
        wire_breakers(app),
        wire_isolate(app),
        wire_cluster_status(app),
        wire_dispatch(app),
        wire_job_impact(app),
        app.table,
    )


def _node(image: Item) -> str | None:
    node = image.get("node")
    return None if node is None else str(node)
