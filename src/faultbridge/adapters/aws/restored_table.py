"""Copy the items of a table that was restored from a backup into the table of the stack.

The stack keeps its own table, so that no resource must be imported. Only items that differ are written: an item that is
written again would appear as a change in the table's stream.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import islice
from typing import Any

from msgspec import Struct

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.model.errors import Misconfigured, Transient

AT_ONCE = 25
"""Items that DynamoDB writes in one call."""

MAX_TRIES = 10

ItemKey = tuple[str, str]


class RestoredItems(Struct, frozen=True):
    """How many items a restore wrote, deleted and left unchanged."""

    written: int
    deleted: int
    unchanged: int


Sleep = Callable[[float], object]


def restore_items(
    clients: Clients, source: str, target: str, *, check_only: bool = False, sleep: Sleep = time.sleep
) -> RestoredItems:
    """Make the items of table `target` equal to those of table `source`; a repeated call continues.

    With `check_only`, nothing is written. Raises Misconfigured if both names are the same, and Transient if the tables
    still differ afterwards, because a function of the stack writes to the table.
    """
    if source == target:
        raise Misconfigured(f"{target} is the table of the stack; restore the backup to another one")
    wanted, present = _digests(clients, source), _digests(clients, target)
    surplus = sorted(present.keys() - wanted.keys())
    different = {key for key, digest in wanted.items() if present.get(key) != digest}
    if not check_only:
        deletions = ({"DeleteRequest": {"Key": {"pk": {"S": pk}, "sk": {"S": sk}}}} for pk, sk in surplus)
        _write(clients, target, deletions, sleep)
        changed = (item for item in _scan(clients, source) if _key(item) in different)
        _write(clients, target, ({"PutRequest": {"Item": item}} for item in changed), sleep)
        if _digests(clients, target) != wanted:
            raise Transient(f"{target} changes during the restore; stop all functions of the stack and run it again")
    return RestoredItems(len(different), len(surplus), len(wanted) - len(different))


def _digests(clients: Clients, table: str) -> dict[ItemKey, str]:
    found = ((_key(item), json.dumps(item, sort_keys=True, default=repr)) for item in _scan(clients, table))
    return {key: sha256(text.encode()).hexdigest() for key, text in found}


def _scan(clients: Clients, table: str) -> Iterator[Mapping[str, Any]]:
    with translated(f"reading {table}"):
        for page in clients.dynamodb.get_paginator("scan").paginate(TableName=table, ConsistentRead=True):
            yield from page["Items"]


def _write(clients: Clients, table: str, requests: Iterable[Mapping[str, Any]], sleep: Sleep) -> None:
    remaining = iter(requests)
    while batch := list(islice(remaining, AT_ONCE)):
        for attempt in range(MAX_TRIES):
            with translated(f"writing to {table}"):
                requests_of_table: Any = {table: batch}
                answer: Any = clients.dynamodb.batch_write_item(RequestItems=requests_of_table)
            batch = answer.get("UnprocessedItems", {}).get(table, [])
            if not batch:
                break
            sleep(min(0.1 * 2**attempt, 5.0))
        else:
            raise Transient(f"{table} does not accept the writes; run the command again")


def _key(item: Mapping[str, Any]) -> ItemKey:
    return item["pk"]["S"], item["sk"]["S"]
