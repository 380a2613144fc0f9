"""Deliver entries to the archive through Firehose, which may deliver a line twice or lose it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.adapters.aws.messaging import batches
from faultbridge.model.errors import Transient
from faultbridge.model.retry import Retry
from faultbridge.model.storage.wire.archive_lines import ArchiveLine, render

RECORDS_AT_ONCE = 500
BYTES_AT_ONCE = 4 * 1024 * 1024
RETRY = Retry(4, first_seconds=0.1)


class RecordsFailed(Transient):
    """Firehose did not accept some records of a call."""


class FirehoseArchiveSink:
    """An ArchiveSink on Firehose, which partitions the lines by their fields `cluster` and `recorded_at`."""

    def __init__(self, clients: Clients, stream: str, *, retry: Retry = RETRY) -> None:
        self._clients = clients
        self._stream = stream
        self._retry = retry

    def put(self, lines: Sequence[ArchiveLine]) -> None:
        """Deliver the lines; raises Transient if Firehose does not respond, or does not accept all lines."""
        for batch in batches(map(render, lines), size_of=len, count=RECORDS_AT_ONCE, size=BYTES_AT_ONCE):
            self._put(batch)

    def _put(self, batch: list[bytes]) -> None:
        remaining = batch

        def put_remaining() -> None:
            nonlocal remaining
            records: list[Any] = [{"Data": record} for record in remaining]
            with translated(f"archiving {len(remaining)} entries"):
                answer = self._clients.firehose.put_record_batch(DeliveryStreamName=self._stream, Records=records)
            results = zip(remaining, answer["RequestResponses"], strict=True)
            remaining = [record for record, result in results if result.get("ErrorCode")]
            if remaining:
                text = f"{len(remaining)} of {len(batch)} entries were not accepted by the stream {self._stream}"
                raise RecordsFailed(text)

        self._retry(put_remaining, retry_on=RecordsFailed)
