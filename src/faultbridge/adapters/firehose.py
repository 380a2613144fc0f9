"""The delivery stream into the archive: it batches, compresses and files lines, and may repeat or lose some."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from faultbridge.adapters.aws_errors import translated
from faultbridge.adapters.batches import batches
from faultbridge.adapters.clients import Clients
from faultbridge.errors import Transient
from faultbridge.storage.wire.archive_lines import ArchiveLine, render

RECORDS_AT_ONCE = 500
BYTES_AT_ONCE = 4 * 1024 * 1024
TRIES = 4
FIRST_PAUSE_SECONDS = 0.1


class FirehoseSink:
    """An ArchiveSink on Firehose, which partitions by the `cluster` and `recorded_at` of each line."""

    def __init__(
        self,
        clients: Clients,
        stream: str,
        *,
        pause: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._clients = clients
        self._stream = stream
        self._pause = pause
        self._jitter = jitter

    def put(self, lines: Sequence[ArchiveLine]) -> None:
        """Hand the lines over; raises Transient when some were refused four times."""
        for batch in batches(map(render, lines), size_of=len, count=RECORDS_AT_ONCE, size=BYTES_AT_ONCE):
            self._put(batch)

    def _put(self, batch: list[bytes]) -> None:
        left = batch
        for tried in range(TRIES):
            records: list[Any] = [{"Data": one} for one in left]
            with translated(f"archiving {len(left)} entries"):
                answer = self._clients.firehose.put_record_batch(DeliveryStreamName=self._stream, Records=records)
            refused = [bool(one.get("ErrorCode")) for one in answer["RequestResponses"]]
            left = [one for one, failed in zip(left, refused, strict=True) if failed]
            if not left:
                return
            self._pause(FIRST_PAUSE_SECONDS * 2**tried * self._jitter())
        raise Transient(f"{len(left)} of {len(batch)} entries were not taken by the delivery stream")
