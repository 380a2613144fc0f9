"""The table's stream: new entries as doorbells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.telemetry import emit
from faultbridge.entrypoints.stream import images

if TYPE_CHECKING:
    from faultbridge.bootstrap import Application
    from faultbridge.storage.writes import Item


def react(event: Mapping[str, Any], application: Application) -> None:
    """Take entries as doorbells; raises when one could not be answered, so that the stream rings again."""
    doorbells = {(str(image["cluster"]), _node(image)) for image in images(event)}
    application.react(doorbells)
    emit({"Doorbells": len(doorbells)})


def _node(image: Item) -> str | None:
    node = image.get("node")
    return None if node is None else str(node)
