"""Release: sets the pause before SQS delivers a returned message again.

Ingest returns a message to the queue if it cannot process the message yet. The pause is five seconds after the first
delivery of a message, and doubles with each further delivery, up to five minutes.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

from faultbridge.model.errors import FaultbridgeError
from faultbridge.model.log import log_cause
from faultbridge.record.ports import RecordQueue

FIRST_SECONDS = 5
MAX_SECONDS = 300


def release(queue: RecordQueue, records: Collection[Mapping[str, Any]], failed: Collection[str]) -> None:
    """Let SQS deliver the `failed` messages of a Lambda batch again after a short pause.

    If this call fails, the failure is only logged. SQS then delivers the messages again after the visibility timeout of
    the queue.
    """
    pauses = {
        record["receiptHandle"]: pause_after(int(record["attributes"].get("ApproximateReceiveCount", 1)))
        for record in records
        if record["messageId"] in failed and "receiptHandle" in record
    }
    if not pauses:
        return
    try:
        queue.release(pauses)
    except FaultbridgeError as error:
        log_cause("release_failed", reason=str(error), level=logging.WARNING, messages=len(pauses))


def pause_after(receives: int) -> int:
    """Return the seconds until a message is delivered again, from the number of its deliveries so far."""
    return int(min(FIRST_SECONDS * 2 ** min(receives - 1, 10), MAX_SECONDS))
