"""Patches for the streams, queries and writes of MiniStack's DynamoDB.

`stream_batches`
AWS: records that the filter rejects do not count; a batch contains up to `BatchSize` accepted records.
MiniStack: `BatchSize` records are read, and the filter is applied after that. A function whose filter accepts only
timeline entries gets about a dozen records per batch.
Here: records are read until the batch is full, the stream ends or 10,000 records are read. The batching window is still
ignored.

`stream_partial_failures`
AWS: with `ReportBatchItemFailures`, the batch is repeated from the first failed record.
MiniStack: `batchItemFailures` in the response to a stream batch counts as success, and the failed records are lost.
Here: `batchItemFailures` counts as a failed call, so the whole batch is repeated after a second. A consumer must accept
repeated records on AWS too. Bisecting and the retry limit are still ignored: a record that always fails blocks its
stream until `MaximumRecordAgeInSeconds`.

`query_cost`
AWS: a query reads only the items of its key range. The number of items in a table is updated about every six hours.
MiniStack: a query parses the key condition for each item of the partition, and every other expression at each use.
After each write, all items of the table are counted.
Here: each expression is parsed once. The key ranges that Faultbridge's adapter writes are compared directly. Items are
counted at most once a second. A query of an index still reads every item of the table.
"""

from __future__ import annotations

import inspect
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from faultbridge.local.gaps.patching import Gap, replace, resolve, source_lacks, wrap

MAPPINGS = "ministack.services.lambda_svc:_iter_all_esms"
FILTER = "ministack.services.lambda_svc:_apply_filter_criteria"
POLL = "ministack.services.lambda_svc:_poll_dynamodb_streams"
RECORDS = "ministack.services.dynamodb:stream_records_since"
EXECUTE = "ministack.services.lambda_svc:_execute_function"

_MAX_READ = 10_000
_FAILED = {"errorType": "PartialFailure", "errorMessage": "the function reported failed records of a stream"}
_current = threading.local()

Record = dict[str, Any]
Filter = Callable[[list[Record], Record], list[Record]]


def _filters_after_cutting() -> bool:
    source = inspect.getsource(resolve(POLL))
    return 0 < source.find("stream_records_since(") < source.find("_apply_filter_criteria(")


def _fill_batches() -> None:
    accepted: Filter = resolve(FILTER)
    wrap(MAPPINGS, _storing_mapping)
    wrap(RECORDS, lambda read, *arguments, **options: _with_full_batches(read, accepted, *arguments, **options))


def _storing_mapping(all_mappings: Callable[[], Iterator[tuple[str, str, Record]]]) -> Iterator[object]:
    try:
        for account, region, mapping in all_mappings():
            _current.mapping = mapping
            yield account, region, mapping
    finally:
        _current.mapping = None


def _with_full_batches(
    read: Callable[..., list[Record]],
    accepted: Filter,
    table: str,
    position: int,
    limit: int,
    **options: Any,  # noqa: ANN401 - the emulator's
) -> list[Record]:
    mapping = getattr(_current, "mapping", None)
    if mapping is None:
        return read(table, position, limit, **options)
    records, room = read(table, position, _MAX_READ, **options), limit
    for start in range(0, len(records), limit):
        chunk = records[start : start + limit]
        passed = accepted(chunk, mapping)
        if len(passed) >= room:
            last = passed[room - 1]
            return records[: start + next(at for at, one in enumerate(chunk, 1) if one is last)]
        room -= len(passed)
    return records


def _with_stream_failures(
    execute: Callable[..., dict[str, Any]], function: dict[str, Any], event: object
) -> dict[str, Any]:
    result = execute(function, event)
    body = result.get("body")
    if _is_from_stream(event) and isinstance(body, dict) and body.get("batchItemFailures"):
        return {**result, "error": True, "body": dict(_FAILED)}
    return result


def _is_from_stream(event: object) -> bool:
    records = event.get("Records") if isinstance(event, dict) else None
    return bool(records) and isinstance(records, list) and records[0].get("eventSource") == "aws:dynamodb"


TOKENIZE = "ministack.services.dynamodb:_tokenize"
EVALUATE = "ministack.services.dynamodb:_evaluate_condition"
COUNT = "ministack.services.dynamodb:_update_counts"

_KEY_CONDITION = "KeyConditionExpression"
_RANGE = re.compile(r"(#\w+) = (:\w+)(?: AND (#\w+) (?:BETWEEN (:\w+) AND (:\w+)|<= (:\w+)))?")
_COUNT_SECONDS = 1.0

Typed = Mapping[str, Any]
Evaluate = Callable[..., bool]


@dataclass(frozen=True, slots=True)
class _KeyRange:
    """A key condition by its placeholders; without a sort key, or a lower bound, these are empty."""

    pk: str
    pk_value: str
    sk: str
    first: str
    last: str


def _parses_and_counts_each_time() -> bool:
    parses = "_tokenize(expr)" in inspect.getsource(resolve(EVALUATE))
    caches = hasattr(resolve(TOKENIZE), "cache_info")
    return parses and not caches and "sum(" in inspect.getsource(resolve(COUNT))


def _reduce_cost() -> None:
    replace(TOKENIZE, lru_cache(maxsize=1024))
    wrap(EVALUATE, _with_direct_comparison)
    wrap(COUNT, _at_most_once_a_second)


def _with_direct_comparison(
    evaluate: Evaluate,
    expr: str,
    item: Typed,
    attr_values: Typed,
    attr_names: Mapping[str, str],
    slot: str = "ConditionExpression",
) -> bool:
    parts = _parse_range(expr) if slot == _KEY_CONDITION else None
    if parts is None:
        return evaluate(expr, item, attr_values, attr_names, slot)
    if item.get(attr_names[parts.pk]) != attr_values[parts.pk_value]:
        return False
    if not parts.sk:
        return True
    found = item.get(attr_names[parts.sk], {}).get("S")
    lowest = attr_values[parts.first]["S"] if parts.first else ""
    return found is not None and lowest <= found <= attr_values[parts.last]["S"]


@lru_cache(maxsize=1024)
def _parse_range(expression: str) -> _KeyRange | None:
    found = _RANGE.fullmatch(expression)
    if found is None:
        return None
    pk, pk_value, sk, first, last, upper_bound = found.groups(default="")
    return _KeyRange(pk, pk_value, sk, first, last or upper_bound)


_counted: dict[int, float] = {}


def _at_most_once_a_second(count: Callable[[dict[str, Any]], None], table: dict[str, Any]) -> None:
    now = time.monotonic()
    if now - _counted.get(id(table), -_COUNT_SECONDS) >= _COUNT_SECONDS:
        _counted[id(table)] = now
        count(table)


GAPS = (
    Gap("stream_batches", (MAPPINGS, FILTER, POLL, RECORDS), _filters_after_cutting, _fill_batches),
    Gap(
        "stream_partial_failures",
        (EXECUTE, POLL),
        source_lacks(POLL, "batchItemFailures"),
        lambda: wrap(EXECUTE, _with_stream_failures),
    ),
    Gap("query_cost", (TOKENIZE, EVALUATE, COUNT), _parses_and_counts_each_time, _reduce_cost),
)
