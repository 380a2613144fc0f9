"""The one table on DynamoDB."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from botocore.exceptions import ClientError

from faultbridge.adapters.aws_errors import translate, translated
from faultbridge.adapters.clients import Clients
from faultbridge.adapters.dynamodb_expressions import (
    Placeholders,
    key_of,
    range_expression,
    sort_key_bounds,
    transaction_part,
    write_arguments,
)
from faultbridge.adapters.dynamodb_values import from_token, from_typed_item, to_token
from faultbridge.errors import Conflict, FaultbridgeError, Misconfigured, Transient
from faultbridge.storage.writes import Check, Delete, Index, Item, Key, Page, Put, Update, Write

READ_AT_ONCE = 100
WRITE_AT_ONCE = 100
READ_TRIES = 8
FIRST_PAUSE_SECONDS = 0.05
TOKEN_LENGTH = 36

# Why one write of a cancelled transaction stood in the way, by what helps. `None` marks the innocent ones.
REASONS: Mapping[str, type[FaultbridgeError]] = {
    "ConditionalCheckFailed": Conflict,
    "TransactionConflict": Conflict,
    "DuplicateItem": Conflict,
    "ProvisionedThroughputExceeded": Transient,
    "ThrottlingError": Transient,
    "ItemCollectionSizeLimitExceeded": Misconfigured,
    "ValidationError": Misconfigured,
    "AccessDenied": Misconfigured,
}
# The first that occurs in a cancelled transaction decides: repetition does not mend what a person must mend.
ORDER: tuple[type[FaultbridgeError], ...] = (Misconfigured, Conflict, Transient)


class DynamoTable:
    """A Table on DynamoDB; `pause` and `jitter` (0 to 1) space the repetitions of a read served in part."""

    def __init__(
        self,
        clients: Clients,
        name: str,
        *,
        pause: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._clients = clients
        self._name = name
        self._pause = pause
        self._jitter = jitter

    def get(self, key: Key) -> Item | None:
        """Read one item, consistently."""
        with translated(f"reading {key.pk} {key.sk}"):
            answer = self._clients.dynamodb.get_item(TableName=self._name, Key=key_of(key), ConsistentRead=True)
        item = answer.get("Item")
        return None if item is None else from_typed_item(item)

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Item]:
        """Read any number of items, consistently, a hundred a call; missing ones are not in the answer."""
        found: dict[Key, Item] = {}
        distinct = iter(dict.fromkeys(keys))
        while chunk := list(islice(distinct, READ_AT_ONCE)):
            for item in self._read([key_of(key) for key in chunk]):
                found[Key(str(item["pk"]), str(item["sk"]))] = item
        return found

    def query(
        self,
        pk: str,
        *,
        prefix: str = "",
        after: str | None = None,
        upto: str | None = None,
        limit: int | None = None,
        start: str | None = None,
        index: Index | None = None,
        newest_first: bool = False,
    ) -> Page:
        """Read one page of a partition; without a limit it ends at 1 MB. ValueError for a foreign `start`."""
        bounds = sort_key_bounds(prefix, after, upto)
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
        """Make one conditional write; raises Conflict when its condition does not hold."""
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
        """Make up to 100 writes to different items, all or nothing; ValueError when they are more or meet."""
        if not writes:
            return
        if len(writes) > WRITE_AT_ONCE or len({write.key for write in writes}) < len(writes):
            raise ValueError(f"{len(writes)} writes: at most {WRITE_AT_ONCE} at once, to different items")
        parts: list[Any] = [
            {transaction_part(write): {"TableName": self._name, **write_arguments(write)}} for write in writes
        ]
        arguments: dict[str, Any] = {} if token is None else {"ClientRequestToken": request_token(token)}
        what = f"writing {len(writes)} items beside {writes[0].key.pk}"
        try:
            with translated(what):
                self._clients.dynamodb.transact_write_items(TransactItems=parts, **arguments)
        except FaultbridgeError as error:
            raise cancellation(error.__cause__, what) or error from error.__cause__

    def _read(self, keys: list[Any]) -> Iterator[Item]:
        wanted: Any = {self._name: {"Keys": keys, "ConsistentRead": True}}
        for tried in range(READ_TRIES):
            with translated(f"reading {len(keys)} items"):
                answer = self._clients.dynamodb.batch_get_item(RequestItems=wanted)
            yield from map(from_typed_item, answer.get("Responses", {}).get(self._name, []))
            wanted = answer.get("UnprocessedKeys")
            if not wanted:
                return
            self._pause(FIRST_PAUSE_SECONDS * 2**tried * self._jitter())
        raise Transient(f"reading {len(keys)} items: the table serves only a part of them")


def request_token(token: str) -> str:
    """Return a token as DynamoDB takes it: itself when it is short enough, else derived from it."""
    return token if len(token) <= TOKEN_LENGTH else hashlib.sha256(token.encode()).hexdigest()[:TOKEN_LENGTH]


def cancellation(error: BaseException | None, what: str) -> FaultbridgeError | None:
    """Name a cancelled transaction by the gravest reason of its writes; None for any other error."""
    if not isinstance(error, ClientError) or "CancellationReasons" not in error.response:
        return None
    reasons = [
        (str(reason.get("Code")), str(reason.get("Message", "")))
        for reason in error.response["CancellationReasons"]
        if reason.get("Code") not in (None, "None")
    ]
    text = f"{what}: " + "; ".join(f"{code} {message}".strip() for code, message in reasons)
    kinds = {REASONS.get(code, Transient) for code, _ in reasons}
    return next((kind(text) for kind in ORDER if kind in kinds), translate(error, what))
