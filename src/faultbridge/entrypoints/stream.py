"""Records of the table's stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.dynamodb_values import from_typed_item

if TYPE_CHECKING:
    from faultbridge.storage.writes import Item


def images(event: Mapping[str, Any]) -> Iterator[Item]:
    """Yield the items of a batch as they are after each change; a removal has none."""
    for record in event["Records"]:
        image = record["dynamodb"].get("NewImage")
        if image is not None:
            yield from_typed_item(image)
