"""What fills a batch of a stream's mapping.

AWS: records that the filter does not let through count for nothing; a batch holds as many of the others as there are,
up to `BatchSize`.
MiniStack: takes as many records as the batch may hold and then leaves out those that the filter does not let through:
of entries and the rows beside them a function gets a dozen at a time.
Here: it goes on taking records until the batch is full or the stream is at its end. The batching window stays ignored.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

from faultbridge.local.gaps import names as patch

MAPPINGS = "ministack.services.lambda_svc:_iter_all_esms"
FILTER = "ministack.services.lambda_svc:_apply_filter_criteria"
POLL = "ministack.services.lambda_svc:_poll_dynamodb_streams"
RECORDS = "ministack.services.dynamodb:stream_records_since"

_MAX_TAKEN = 10_000
_now = threading.local()

Mapping = dict[str, Any]
Record = dict[str, Any]


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (MAPPINGS, FILTER, POLL, RECORDS)


def is_open() -> bool:
    """Whether the emulator still filters a batch that it has cut already."""
    source = inspect.getsource(patch.resolve(POLL))
    return 0 < source.find("stream_records_since(") < source.find("_apply_filter_criteria(")


def apply() -> None:
    """Cut the batch behind as many records as pass the filter of the mapping that is being polled."""
    passes: Callable[[list[Record], Mapping], list[Record]] = patch.resolve(FILTER)
    patch.replace(MAPPINGS, _remembering)
    patch.replace(RECORDS, lambda read: _until_full(read, passes))


def _remembering(every: Callable[[], Iterator[tuple[str, str, Mapping]]]) -> Callable[[], Iterator[object]]:
    def mappings() -> Iterator[object]:
        try:
            for account, region, mapping in every():
                _now.mapping = mapping
                yield account, region, mapping
        finally:
            _now.mapping = None

    return mappings


def _until_full(
    read: Callable[..., list[Record]], passes: Callable[[list[Record], Mapping], list[Record]]
) -> Callable[..., list[Record]]:
    def stream_records_since(table: str, position: int, limit: int, **where: Any) -> list[Record]:  # noqa: ANN401 - theirs
        mapping = getattr(_now, "mapping", None)
        if mapping is None:
            return read(table, position, limit, **where)
        records, room = read(table, position, _MAX_TAKEN, **where), limit
        for start in range(0, len(records), limit):
            chunk = records[start : start + limit]
            passed = passes(chunk, mapping)
            if len(passed) >= room:
                last = passed[room - 1]
                return records[: start + next(at for at, one in enumerate(chunk, 1) if one is last)]
            room -= len(passed)
        return records

    return stream_records_since
