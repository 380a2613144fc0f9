"""The table's stream: new entries to the bus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.telemetry import emit
from faultbridge.entrypoints.stream import images

if TYPE_CHECKING:
    from faultbridge.bootstrap import Application


def publish(event: Mapping[str, Any], application: Application) -> None:
    """Take new entries from the table's stream; raises when the bus did not take all, so that the stream repeats."""
    published = application.publish(list(images(event)))
    emit({"EntriesPublished": published})
