"""The single DynamoDB table in which Faultbridge stores all its items."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, Literal

import msgspec
from botocore.exceptions import ClientError
from msgspec import Struct

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translate, translated
from faultbridge.model.errors import Conflict, FaultbridgeError, Misconfigured, Transient
from faultbridge.model.log import log_cause
from faultbridge.model.retry import Retry
from faultbridge.model.storage.codec import pack_text, unpack_text
from faultbridge.model.storage.writes import (
    Absent,
    AnyOf,
    Below,
    Check,
    Condition,
    Delete,
    Equals,
    Index,
    Item,
    Key,
    Packed,
    Page,
    Path,
    Present,
    Put,
    ReadItem,
    Update,
    Value,
    Write,
)
from faultbridge.record.ports.table import UnprocessedKeys

BODY = "body"
"""The attribute with the JSON of an entry, which is compressed in the table only, and always a text elsewhere."""

Typed = dict[str, Any]
"""One value as typed JSON: `{"S": "text"}`, `{"N": "1"}`, ..."""


def to_typed(value: Value) -> Typed:
    """Return a value as typed JSON; raises TypeError for a float, which cannot be read back exactly."""
    if value is None:
        return {"NULL": True}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, str | Packed):
        return {"S": str(value)} if isinstance(value, str) else {"B": bytes(value)}
    if isinstance(value, int):
        return {"N": str(int(value))}
    if isinstance(value, list):
        return {"L": [to_typed(part) for part in value]}
    if isinstance(value, dict):
        return {"M": {_name(name): to_typed(part) for name, part in value.items()}}
    raise TypeError(
        f"type cannot be stored in the table: {type(value).__name__}; str, Packed, int, bool, None, list or dict"
    )


def from_typed(typed: Mapping[str, Any]) -> Value:
    """Return a value from typed JSON; raises ValueError for a type that `to_typed` never writes."""
    ((kind, value),) = typed.items()
    if kind in _SIMPLE:
        return _SIMPLE[kind](value)
    match kind:
        case "NULL":
            return None
        case "L":
            return [from_typed(part) for part in value]
        case "M":
            return {name: from_typed(part) for name, part in value.items()}
        case _:
            raise ValueError(f"unexpected DynamoDB type: {kind}; S, B, N, BOOL, NULL, L or M")


def _packed(value: bytes | str) -> Packed:
    """Return compressed data: boto3 passes it as bytes, Lambda as base64 text in stream records."""
    return Packed(base64.b64decode(value) if isinstance(value, str) else value)


_SIMPLE: Mapping[str, Callable[[Any], Value]] = {"S": str, "B": _packed, "N": int, "BOOL": bool}
"""The types of values without parts, each with its conversion."""


def to_typed_item(item: Mapping[str, Value]) -> dict[str, Typed]:
    """Return a whole item as typed JSON, as DynamoDB calls and stream records contain it; `BODY` is compressed."""
    stored = {**item, BODY: pack_text(text)} if isinstance(text := item.get(BODY), str) else item
    return {_name(name): to_typed(value) for name, value in stored.items()}


def from_typed_item(item: Mapping[str, Mapping[str, Any]]) -> Item:
    """Return a whole item from typed JSON, as DynamoDB responses and stream records contain it."""
    found = ReadItem({name: from_typed(value) for name, value in item.items()})
    if isinstance(packed := found.get(BODY), Packed):
        found[BODY] = unpack_text(packed)
    return found


class _Images(Struct, frozen=True, rename="pascal"):
    new_image: Mapping[str, Mapping[str, Any]] | None = None


class _Change(Struct, frozen=True):
    dynamodb: _Images


class _Changes(Struct, frozen=True, rename="pascal"):
    records: tuple[_Change, ...]


def new_images(event: object) -> Iterator[Item]:
    """Yield each new or changed item in a batch of the table's stream; deletions are skipped."""
    images = (one.dynamodb.new_image for one in msgspec.convert(event, _Changes).records)
    yield from (from_typed_item(image) for image in images if image is not None)


def to_token(last: Mapping[str, Any] | None) -> str | None:
    """Return the pagination token for the last key of a page, or None if there is no further page."""
    if not last:
        return None
    plain = {name: typed["S"] for name, typed in last.items()}
    return base64.urlsafe_b64encode(json.dumps(plain, sort_keys=True).encode()).decode().rstrip("=")


def from_token(token: str) -> dict[str, Typed]:
    """Return the last key of the previous page; raises ValueError for an invalid pagination token."""
    try:
        plain = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return {str(name): {"S": str(value)} for name, value in plain.items()}
    except (ValueError, AttributeError) as error:
        raise ValueError(f"invalid page token: {token!r}; use the token of the previous page") from error


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"attribute name is not a string: {name!r}")
    return name


# Sorts after every key; no key contains it.
LAST = "\U0010ffff"


class Placeholders:
    """Placeholders, as `#0` and `:0`, so that reserved words of DynamoDB can be attribute names."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, Typed] = {}

    def path(self, path: Iterable[str]) -> str:
        """Return the path to an attribute, or to a value inside a map, with a placeholder for each name."""
        return ".".join(self._names.setdefault(part, f"#{len(self._names)}") for part in path)

    def value(self, value: Value) -> str:
        """Add a value, and return its placeholder."""
        name = f":{len(self._values)}"
        self._values[name] = to_typed(value)
        return name

    def arguments(self) -> dict[str, Any]:
        """Return the call arguments that define the placeholders, without empty ones: DynamoDB rejects them."""
        arguments: dict[str, Any] = {}
        if self._names:
            arguments["ExpressionAttributeNames"] = {short: name for name, short in self._names.items()}
        if self._values:
            arguments["ExpressionAttributeValues"] = self._values
        return arguments


def condition_expression(condition: Condition, placeholders: Placeholders) -> str:
    """Return a condition as a DynamoDB expression; raises ValueError for an empty `AnyOf`."""
    match condition:
        case Absent():
            return f"attribute_not_exists({placeholders.path(('pk',))})"
        case Present():
            return f"attribute_exists({placeholders.path(('pk',))})"
        case Equals(attribute, value):
            return f"{placeholders.path((attribute,))} = {placeholders.value(value)}"
        case Below(attribute, value):
            return f"{placeholders.path((attribute,))} < {placeholders.value(value)}"
        case AnyOf(conditions):
            if not conditions:
                raise ValueError("AnyOf has no condition; at least 1 is needed")
            # Nested OR needs no parentheses, and DynamoDB rejects redundant ones.
            return " OR ".join(condition_expression(part, placeholders) for part in conditions)


def update_expression(update: Update, placeholders: Placeholders) -> str:
    """Return an update as an expression; raises ValueError if it has no change, or two changes overlap."""
    _check_overlap([*update.set, *update.remove, *((name,) for name in update.add)])
    path, value = placeholders.path, placeholders.value
    clauses = {
        "SET": [f"{path(where)} = {value(what)}" for where, what in update.set.items()],
        "REMOVE": [path(where) for where in update.remove],
        "ADD": [f"{path((name,))} {value(number)}" for name, number in update.add.items()],
    }
    return " ".join(f"{verb} {', '.join(parts)}" for verb, parts in clauses.items() if parts)


def write_arguments(write: Write) -> dict[str, Any]:
    """Return the arguments of a write, alone or in a transaction, without the table name."""
    placeholders = Placeholders()
    arguments: dict[str, Any] = {}
    match write:
        case Put(item):
            arguments["Item"] = to_typed_item(item)
        case Update(key):
            arguments["Key"] = key_of(key)
            arguments["UpdateExpression"] = update_expression(write, placeholders)
        case Delete(key) | Check(key):
            arguments["Key"] = key_of(key)
    if write.when is not None:
        arguments["ConditionExpression"] = condition_expression(write.when, placeholders)
    return arguments | placeholders.arguments()


TransactionPart = Literal["Put", "Delete", "Update", "ConditionCheck"]
_VERBS: Mapping[type[Write], TransactionPart] = {Put: "Put", Delete: "Delete", Update: "Update"}


def transaction_part(write: Write) -> TransactionPart:
    """Return the field of `TransactWriteItems` for this kind of write, such as `Put` or `ConditionCheck`."""
    return "ConditionCheck" if isinstance(write, Check) else _VERBS[type(write)]


def key_of(key: Key) -> dict[str, Typed]:
    """Return the key of a table item as DynamoDB's typed JSON."""
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def sort_key_bounds(prefix: str, after: str | None, up_to: str | None) -> tuple[str, str] | None:
    """Return the first and the last sort key of a range, or None if the range has no limit.

    Keys in the range start with `prefix`, are greater than `after`, and are at most `up_to`. DynamoDB includes both
    ends of a range, so the range starts at `after` plus a NUL character. If no key can be in the range, the first key
    is greater than the last key.
    """
    if not prefix and after is None and up_to is None:
        return None
    first = max(prefix, "" if after is None else after + "\0")
    last = min(prefix + LAST, LAST if up_to is None else up_to)
    return first, last


def range_expression(pk: tuple[str, str], sk: str, bounds: tuple[str, str] | None, placeholders: Placeholders) -> str:
    """Return the key condition of a query; `bounds` are inclusive, and None selects the whole partition."""
    partition = f"{placeholders.path((pk[0],))} = {placeholders.value(pk[1])}"
    if bounds is None:
        return partition
    first, last = bounds
    name = placeholders.path((sk,))
    if not first:  # DynamoDB allows no empty key
        return f"{partition} AND {name} <= {placeholders.value(last)}"
    return f"{partition} AND {name} BETWEEN {placeholders.value(first)} AND {placeholders.value(last)}"


def _check_overlap(paths: list[Path]) -> None:
    if not paths:
        raise ValueError("the update has no change; at least 1 is needed")
    ordered = sorted(paths)
    for earlier, later in pairwise(ordered):
        if later[: len(earlier)] == earlier:
            raise ValueError(f"the update changes overlapping paths: {'.'.join(earlier)} and {'.'.join(later)}")


THROTTLE_RETRY = Retry(8)


class ThrottledTransaction(Transient):
    """DynamoDB canceled a transaction because of throttling, which botocore does not retry."""


# Cancellation reasons of a transaction, and the error that each one becomes. Writes without a problem have none.
REASONS: Mapping[str, type[FaultbridgeError]] = {
    "ConditionalCheckFailed": Conflict,
    "TransactionConflict": Conflict,
    "DuplicateItem": Conflict,
    "ProvisionedThroughputExceeded": ThrottledTransaction,
    "ThrottlingError": ThrottledTransaction,
    "ItemCollectionSizeLimitExceeded": Misconfigured,
    "ValidationError": Misconfigured,
    "AccessDenied": Misconfigured,
}
# The first of these that occurs decides the error of a canceled transaction. Misconfigured comes first, because a retry
# cannot fix it.
PRECEDENCE: tuple[type[FaultbridgeError], ...] = (Misconfigured, Conflict, Transient, ThrottledTransaction)


def cancellation(error: BaseException | None, action: str) -> FaultbridgeError | None:
    """Convert the error of a canceled transaction by its cancellation reasons; None for any other error."""
    if not isinstance(error, ClientError) or "CancellationReasons" not in error.response:
        return None
    reasons = [
        (str(reason.get("Code")), str(reason.get("Message", "")))
        for reason in error.response["CancellationReasons"]
        if reason.get("Code") not in (None, "None")
    ]
    text = f"{action}: " + "; ".join(f"{code} {message}".strip() for code, message in reasons)
    kinds = {REASONS.get(code, Transient) for code, _ in reasons}
    return next((kind(text) for kind in PRECEDENCE if kind in kinds), translate(error, action))


def log_throttled(attempt: int, error: Exception, pause: float) -> None:
    """Log a throttled attempt and the pause before the next attempt, in seconds."""
    log_cause("write_throttled", reason=str(error), attempt=attempt, pause_seconds=round(pause, 3))


READ_AT_ONCE = 100
WRITE_AT_ONCE = 100
TOKEN_LENGTH = 36


class DynamoTable:
    """A Table in DynamoDB; `retry` repeats incomplete batch reads and throttled transactions."""

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
        """Return existing items by key; raises UnprocessedKeys with the items that were read."""
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
        """Return one page of a partition, at most 1 MB and `limit` items, in the order of the sort key.

        The sort keys start with `prefix`, are greater than `after`, and at most `up_to`. `start` is the token of the
        previous page; raises ValueError for an invalid one. Without an `index`, the table is queried, strongly
        consistent.
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
        """Make one write; raises Conflict if its condition is not met, or a transaction changes the item now."""
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
        """Add the items of one batch read to `found`; keys that DynamoDB leaves unprocessed are read again."""
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
