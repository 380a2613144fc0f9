"""What a stack update does to the data in a queue or a table.

AWS: a changed queue keeps its messages, a changed table its items and its stream.
MiniStack: it has no update for either and makes them anew under the old name, empty.
Here: what was in the old one is put into the new one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from faultbridge.local.gaps import names as patch

_HANDLERS = "ministack.services.cloudformation.provisioners:_RESOURCE_HANDLERS"
QUEUE, CREATE_QUEUE = f"{_HANDLERS}|AWS::SQS::Queue", f"{_HANDLERS}|AWS::SQS::Queue|create"
TABLE, CREATE_TABLE = f"{_HANDLERS}|AWS::DynamoDB::Table", f"{_HANDLERS}|AWS::DynamoDB::Table|create"
QUEUES = "ministack.services.sqs:_queues"
TABLES = "ministack.services.dynamodb:_tables"

_KEPT_OF_QUEUE = ("messages", "tags", "dedup_cache", "fifo_seq")
_KEPT_OF_TABLE = ("TableId", "CreationDateTime", "items", "ItemCount", "TableSizeBytes")
_KEPT_OF_STREAM = ("LatestStreamArn", "LatestStreamLabel")

Provisioner = Callable[[str, dict[str, Any], str], tuple[str, dict[str, Any]]]


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (CREATE_QUEUE, CREATE_TABLE, QUEUES, TABLES)


def is_open() -> bool:
    """Whether the emulator still has no update of its own for queues and tables."""
    return all("update" not in patch.resolve(handlers) for handlers in (QUEUE, TABLE))


def apply() -> None:
    """Carry the old contents over."""
    patch.replace(CREATE_QUEUE, _keeping_messages)
    patch.replace(CREATE_TABLE, _keeping_items)


def _keeping_messages(create: Provisioner) -> Provisioner:
    def create_queue(logical_id: str, properties: dict[str, Any], stack: str) -> tuple[str, dict[str, Any]]:
        queues = patch.resolve(QUEUES)
        before = dict(queues.items())
        url, attributes = create(logical_id, properties, stack)
        if old := before.get(url):
            queues[url].update({key: old[key] for key in _KEPT_OF_QUEUE})
        return url, attributes

    return create_queue


def _keeping_items(create: Provisioner) -> Provisioner:
    def create_table(logical_id: str, properties: dict[str, Any], stack: str) -> tuple[str, dict[str, Any]]:
        tables = patch.resolve(TABLES)
        before = dict(tables.items())
        name, attributes = create(logical_id, properties, stack)
        old, new = before.get(name), tables[name]
        if old is None or old["KeySchema"] != new["KeySchema"]:
            return name, attributes
        new.update({key: old[key] for key in _KEPT_OF_TABLE})
        if old["LatestStreamArn"] and new["LatestStreamArn"]:
            # The mappings of the stream hold its name, and their positions count its records.
            new.update({key: old[key] for key in _KEPT_OF_STREAM})
            attributes = {**attributes, "StreamArn": old["LatestStreamArn"]}
        return name, attributes

    return create_table
