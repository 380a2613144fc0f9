"""Reads the data of a stub from the table, without evidence and with long texts shortened.

If an event is too large for the bus, the bus receives a stub instead: the event without its data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from faultbridge.domain.nodes import NodeKey
from faultbridge.errors import Misconfigured
from faultbridge.events.wire import ALL_DATA
from faultbridge.pager.text_formats import shorten
from faultbridge.ports import Table
from faultbridge.storage import keys

MAX_TEXT = 1_000
"""Longest text in the data of a stored event, so that its page is not too large for SNS."""


def is_stub(metadata: Mapping[str, Any]) -> bool:
    """Return whether the metadata is that of a stub: all data was removed from the event."""
    return ALL_DATA in (metadata.get("truncated") or ())


def stored_data(table: Table, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a stub's event, from the entry in the table that `metadata` identifies.

    The data does not contain the evidence, and its texts have at most 1,000 characters. Raises Misconfigured if the
    table has no such entry.
    """
    cluster, node = metadata["cluster"], metadata.get("node")
    partition = keys.node_partition(NodeKey(cluster, node)) if node else keys.cluster_partition(cluster)
    stored = table.get(keys.entry(partition, int(metadata["epoch"]), int(metadata["sequence"])))
    if stored is None or stored["event_id"] != metadata["event_id"]:
        place = f"{metadata['stream']} {metadata['epoch']}/{metadata['sequence']}"
        raise Misconfigured(f"no entry in the table for a stub: {place}; read it from the archive")
    data: dict[str, Any] = _shortened(json.loads(str(stored["body"]))["data"])
    return data


def _shortened(value: Any) -> Any:  # noqa: ANN401 - any JSON
    match value:
        case str():
            return shorten(value, MAX_TEXT)
        case dict():
            return {name: _shortened(one) for name, one in value.items()}
        case list():
            return [_shortened(one) for one in value]
        case _:
            return value
