"""Convert DynamoDB Streams records to table items, for the functions `publish` and `react`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.aws.dynamodb import from_typed_item

if TYPE_CHECKING:
    from faultbridge.model.storage.writes import Item


def new_images(event: Mapping[str, Any]) -> Iterator[Item]:
    """Yield each new or changed item in a batch, as it is after the change; deletions are skipped."""
    for record in event["Records"]:
        image = record["dynamodb"].get("NewImage")
        if image is not None:
            yield from_typed_item(image)
