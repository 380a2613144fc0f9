"""Read and write the single DynamoDB table in which Faultbridge stores all its items."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.adapters.dynamodb.expressions import (
    Placeholders,
    key_of,
    range_expression,
    sort_key_bounds,
    transaction_part,
    write_arguments,
)
from faultbridge.adapters.dynamodb.throttling import (
    THROTTLE_RETRY,
    ThrottledTransaction,
    cancellation,
    log_throttled,
)
from faultbridge.adapters.dynamodb.values import from_token, from_typed_item, to_token
from faultbridge.errors import FaultbridgeError
from faultbridge.ports import UnprocessedKeys
from faultbridge.retry import Retry
from faultbridge.storage.writes import Check, Delete, Index, Item, Key, Page, Put, Update, Write

READ_AT_ONCE = 100
WRITE_AT_ONCE = 100
TOKEN_LENGTH = 36


class DynamoTable:
    """A Table that stores its items in DynamoDB.

    `retry` repeats incomplete batch reads and throttled transactions.
    """

    def __init__(self, clients: Clients, name: str, *, retry: Retry = THROTTLE_RETRY) -> None:
        self._clients = clients
        self._name = name
        self._retry = retry

    def get(self, key: Key) -> Item | None:
        """Return one item by a strongly consistent read, or None if it does not exist."""
        with translated(f"reading {key.pk} {key.sk}"):
            answer = self._clients.dynamodb.get_item(TableName=self._name, Key=key_of(key), ConsistentRead=True)
        item = answer.get("Item")
        return None if item is None else from_typed_item(item)

    def get_many(self, keys: Iterable[Key], *, consistent: bool = True) -> dict[Key, Item]:
        """Return items by key, with at most 100 keys per call; items that do not exist are left out.

        Raises UnprocessedKeys if DynamoDB does not process all keys after several attempts. The error contains the
        items that were read, and the keys that were not read.
        """
        found: dict[Key, Item] = {}
        distinct = iter(dict.fromkeys(keys))
        while chunk := list(islice(distinct, READ_AT_ONCE)):
            try:
                self._read(chunk, found, consistent=consistent)
            except UnprocessedKeys as error:
                raise UnprocessedKeys(str(error), found, (*error.unread, *distinct)) from None
        return found

    def query(
        self,
        pk: str,
        *,
        prefix: str = "",
        after: str | None = None,
        up_to: str | None = None,
        limit: int | None = None,
        start: str | None = None,
        index: Index | None = None,
        newest_first: bool = False,
    ) -> Page:
        """Return one page of the items of a partition, in the order of the sort key.

        - A page has at most 1 MB, and at most `limit` items.
        - The items have sort keys that start with `prefix`, are greater than `after`, and are at most `up_to`.
        - `start` is the pagination token of the previous page. Raises ValueError if the token is invalid.
        - `index` is the index that is queried. Without `index`, the table is queried, strongly consistent.
        - `newest_first` reverses the order.
        """
        bounds = sort_key_bounds(prefix, after, up_to)
        if bounds is not None and bounds[0] > bounds[1]:
            return Page(())
        placeholders = Placeholders()
        names = ("pk", "sk") if index is None else (index.pk, index.sk)
        arguments: dict[str, Any] = {
            "TableName": self._name,
            "KeyConditionExpression": range_expression((names[0], pk), names[1], bounds, placeholders),
            "ScanIndexForward": not newest_first,
            **({"ConsistentRead": True} if index is None else {"IndexName": index.name}),
            **({} if limit is None else {"Limit": limit}),
            **({} if start is None else {"ExclusiveStartKey": from_token(start)}),
        }
        with translated(f"querying {pk}"):
            answer = self._clients.dynamodb.query(**arguments, **placeholders.arguments())
        items = tuple(from_typed_item(item) for item in answer.get("Items", []))
        return Page(items, to_token(answer.get("LastEvaluatedKey")))

    def write(self, write: Write) -> None:
        """Make one write.

        Raises Conflict if the condition of the write is not met, or if a transaction changes the item at the same time.
        """
        client = self._clients.dynamodb
        arguments = write_arguments(write)
        with translated(f"writing {write.key.pk} {write.key.sk}"):
            match write:
                case Put():
                    client.put_item(TableName=self._name, **arguments)
                case Delete():
                    client.delete_item(TableName=self._name, **arguments)
                case Update():
                    client.update_item(TableName=self._name, **arguments)
                case Check():
                    self.transact([write])

    def transact(self, writes: Sequence[Write], token: str | None = None) -> None:
        """Make up to 100 writes in one transaction: either all of them or none.

        A repeated call with the same `token` and writes changes nothing within ten minutes. Raises Conflict if the
        condition of a write is not met, or if another write changes one of the items at the same time. Raises
        ValueError for more than 100 writes, or for two writes to the same item.
        """
        if not writes:
            return
        if len(writes) > WRITE_AT_ONCE or len({write.key for write in writes}) < len(writes):
            raise ValueError(f"too many writes, or two of one item: {len(writes)} writes; at most {WRITE_AT_ONCE}")
        parts: list[Any] = [
            {transaction_part(write): {"TableName": self._name, **write_arguments(write)}} for write in writes
        ]
        arguments: dict[str, Any] = {} if token is None else {"ClientRequestToken": request_token(token)}
        action = f"writing {len(writes)} items with {writes[0].key.pk}"

        def write_all() -> None:
            try:
                with translated(action):
                    self._clients.dynamodb.transact_write_items(TransactItems=parts, **arguments)
            except FaultbridgeError as error:
                raise cancellation(error.__cause__, action) or error from error.__cause__

        # A canceled transaction wrote nothing, so it may be repeated.
        self._retry(write_all, retry_on=ThrottledTransaction, on_retry=log_throttled)

    def _read(self, keys: Sequence[Key], found: dict[Key, Item], *, consistent: bool) -> None:
        """Add the items of one batch read to the dictionary `found`.

        Keys that DynamoDB leaves unprocessed are read again.
        """
        remaining: Any = {self._name: {"Keys": [key_of(key) for key in keys], "ConsistentRead": consistent}}

        def read_remaining() -> None:
            nonlocal remaining
            with translated(f"reading {len(keys)} items"):
                answer = self._clients.dynamodb.batch_get_item(RequestItems=remaining)
            for item in map(from_typed_item, answer.get("Responses", {}).get(self._name, [])):
                found[Key(str(item["pk"]), str(item["sk"]))] = item
            remaining = answer.get("UnprocessedKeys")
            if remaining:
                unread = (from_typed_item(key) for key in remaining[self._name]["Keys"])
                text = f"reading {len(keys)} items: DynamoDB left some keys unprocessed"
                raise UnprocessedKeys(text, {}, (Key(str(key["pk"]), str(key["sk"])) for key in unread))

        self._retry(read_remaining, retry_on=UnprocessedKeys)


def request_token(token: str) -> str:
    """Return a token that DynamoDB accepts. A token of more than 36 characters is replaced by a hash."""
    return token if len(token) <= TOKEN_LENGTH else hashlib.sha256(token.encode()).hexdigest()[:TOKEN_LENGTH]
