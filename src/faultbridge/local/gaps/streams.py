"""Patches that make MiniStack's DynamoDB streams call functions as on AWS.

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
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

from faultbridge.local.gaps.patching import Gap, replace, resolve, source_lacks

MAPPINGS = "ministack.services.lambda_svc:_iter_all_esms"
FILTER = "ministack.services.lambda_svc:_apply_filter_criteria"
POLL = "ministack.services.lambda_svc:_poll_dynamodb_streams"
RECORDS = "ministack.services.dynamodb:stream_records_since"
EXECUTE = "ministack.services.lambda_svc:_execute_function"

_MAX_READ = 10_000
_FAILED = {"errorType": "PartialFailure", "errorMessage": "the function reported failed records of a stream"}
_current = threading.local()

Mapping = dict[str, Any]
Record = dict[str, Any]
Filter = Callable[[list[Record], Mapping], list[Record]]


def _filters_after_cutting() -> bool:
    source = inspect.getsource(resolve(POLL))
    return 0 < source.find("stream_records_since(") < source.find("_apply_filter_criteria(")


def _fill_batches() -> None:
    accepted: Filter = resolve(FILTER)
    replace(MAPPINGS, _storing_mapping)
    replace(RECORDS, lambda read: _with_full_batches(read, accepted))


def _storing_mapping(all_mappings: Callable[[], Iterator[tuple[str, str, Mapping]]]) -> Callable[[], Iterator[object]]:
    def mappings() -> Iterator[object]:
        try:
            for account, region, mapping in all_mappings():
                _current.mapping = mapping
                yield account, region, mapping
        finally:
            _current.mapping = None

    return mappings


def _with_full_batches(read: Callable[..., list[Record]], accepted: Filter) -> Callable[..., list[Record]]:
    def stream_records_since(table: str, position: int, limit: int, **options: Any) -> list[Record]:  # noqa: ANN401 - the emulator's
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

    return stream_records_since


def _with_stream_failures(execute: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def execute_function(function: dict[str, Any], event: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        result = execute(function, event)
        body = result.get("body")
        if _is_from_stream(event) and isinstance(body, dict) and body.get("batchItemFailures"):
            return {**result, "error": True, "body": dict(_FAILED)}
        return result

    return execute_function


def _is_from_stream(event: object) -> bool:
    records = event.get("Records") if isinstance(event, dict) else None
    return bool(records) and isinstance(records, list) and records[0].get("eventSource") == "aws:dynamodb"


GAPS = (
    Gap("stream_batches", (MAPPINGS, FILTER, POLL, RECORDS), _filters_after_cutting, _fill_batches),
    Gap(
        "stream_partial_failures",
        (EXECUTE, POLL),
        source_lacks(POLL, "batchItemFailures"),
        lambda: replace(EXECUTE, _with_stream_failures),
    ),
)
