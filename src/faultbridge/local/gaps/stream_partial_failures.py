"""A stream's consumer that reports failed records.

AWS: with `ReportBatchItemFailures` the batch comes again from the first failed record on.
MiniStack: `batchItemFailures` of a stream are read as success, and the records are lost.
Here: they are read as a failed call, so the whole batch comes again after a second; a consumer has to bear
repetition on AWS too. Bisecting and the limit of attempts stay ignored: a record that never succeeds holds its
stream until `MaximumRecordAgeInSeconds`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from faultbridge.local.gaps import names as patch

EXECUTE = "ministack.services.lambda_svc:_execute_function"
POLL = "ministack.services.lambda_svc:_poll_dynamodb_streams"

_FAILED = {"errorType": "PartialFailure", "errorMessage": "the function reported failed records of a stream"}


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (EXECUTE, POLL)


def is_open() -> bool:
    """Whether the emulator still does not look at the answer of a stream's consumer."""
    return "batchItemFailures" not in inspect.getsource(patch.resolve(POLL))


def apply() -> None:
    """Turn reported failures of a stream into a failed call."""
    patch.replace(EXECUTE, _with_stream_failures)


def _with_stream_failures(execute: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def execute_function(function: dict[str, Any], event: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        result = execute(function, event)
        if _comes_from_a_stream(event) and _reports_failures(result.get("body")):
            return {**result, "error": True, "body": dict(_FAILED)}
        return result

    return execute_function


def _comes_from_a_stream(event: object) -> bool:
    records = event.get("Records") if isinstance(event, dict) else None
    return bool(records) and isinstance(records, list) and records[0].get("eventSource") == "aws:dynamodb"


def _reports_failures(body: object) -> bool:
    return isinstance(body, dict) and bool(body.get("batchItemFailures"))
