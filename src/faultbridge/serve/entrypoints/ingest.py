"""The ingest function: records the raw records that arrive in batches from SQS.

The function returns the ids of the messages that SQS must deliver again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from faultbridge.adapters.aws.receipts import RECEIPT_FIELD, RECEIPT_VERSION
from faultbridge.adapters.aws.telemetry import emit, emit_for_reason
from faultbridge.decide.normalize.trust import EVENT_BUS
from faultbridge.decode import registry
from faultbridge.model.errors import FaultbridgeError
from faultbridge.model.log import log_cause
from faultbridge.model.records import Outcome
from faultbridge.model.times import from_milliseconds
from faultbridge.model.values import replace
from faultbridge.serve.entrypoints.lambda_events import QueuedMessage, read
from faultbridge.serve.ingest.caches import ItemCache, NodeCache, NodeLookup
from faultbridge.serve.ingest.counter_store import CounterStore
from faultbridge.serve.ingest.ingest import Ingest, PoisonMessages
from faultbridge.serve.ingest.mappings import CustomerMappings, CustomerThresholds
from faultbridge.serve.ingest.outcomes import outcome_line
from faultbridge.serve.ingest.record_reader import Delivery, RecordReader
from faultbridge.serve.wiring.installation import once
from faultbridge.serve.wiring.services import wire_heartbeat_log, wire_rejects

if TYPE_CHECKING:
    from faultbridge.model.errors import Rejected
    from faultbridge.model.records import RawRecord
    from faultbridge.record.ports.messaging import RecordQueue
    from faultbridge.serve.wiring.installation import Installation


FIRST_SECONDS = 5
MAX_SECONDS = 300


class _Attributes(Struct, frozen=True, rename="pascal"):
    sent_timestamp: int
    sender_id: str | None = None
    approximate_receive_count: int = 1


class RawMessage(QueuedMessage, frozen=True, kw_only=True, rename="camel"):
    """A message of the queue of raw records, or of the queue of AWS service events."""

    message_id: str
    attributes: _Attributes
    receipt_handle: str | None = None
    event_source_arn: str | None = field(name="eventSourceARN", default=None)


class _Batch(Struct, frozen=True, rename="pascal"):
    records: tuple[RawMessage, ...]


def ingest(event: object, installation: Installation) -> Mapping[str, Sequence[Mapping[str, str]]]:
    """Record the raw records in a batch of SQS messages, and print one line with all outcomes.

    Returns the ids of the messages that SQS must deliver again.
    """
    messages, events_queue = read(event, _Batch).records, installation.trust.events_queue
    result = wire_ingest(installation).ingest([_delivery(one, events_queue) for one in messages])
    counts = Counter(result.outcomes.values())
    emit(
        {f"Records{outcome.value.capitalize()}": counts[outcome] for outcome in Outcome}
        | {
            "RecordsGivenBack": len(result.failed),
            "RecordsUntrusted": sum(reason == "untrusted" for reason in result.reasons.values()),
            "LinesNotUnderstood": result.unparsed,
        },
        **{RECEIPT_FIELD: RECEIPT_VERSION, **outcome_line(result.outcomes), "reasons": result.reasons},
    )
    if result.failed:
        # SQS delivers events of AWS services again after the visibility timeout of their queue.
        raw = [one for one in messages if one.event_source_arn != events_queue]
        release(installation.ports.queue, raw, result.failed)
    for reason, count in Counter(result.failed.values()).items():
        emit_for_reason(reason.value, {"RecordsGivenBack": count})
    return {"batchItemFailures": [{"itemIdentifier": message} for message in sorted(result.failed)]}


@once
def wire_ingest(app: Installation) -> Ingest:
    """Return the service that converts raw records to conditions, cases and entries."""
    table, clock = app.ports.table, app.ports.clock
    items = ItemCache(table, clock)
    mappings = CustomerMappings(items)
    rulebook = replace(app.rulebook, table=items)

    # Most processes never need the services behind these three, and they have a tenth of the modules of ingest.
    def reject(delivery: Delivery, record: RawRecord | None, error: Rejected) -> None:
        wire_rejects(app).reject(delivery, record, error)

    def record_canary(record: RawRecord) -> Outcome:
        from faultbridge.serve.ingest.canary import RecordCanary

        return RecordCanary(table, clock, app.stack).record(record)

    def record_job_report(record: RawRecord) -> Outcome:
        from faultbridge.repair.jobs.reports import record_report_record
        from faultbridge.serve.wiring.services import wire_api_jobs

        return record_report_record(wire_api_jobs(app), record)

    return Ingest(
        node_cache=NodeCache(items),
        node_lookup=NodeLookup(items, rulebook, app.trust),
        append=app.append,
        rulebook=rulebook,
        reader=RecordReader(app.ports.objects, registry.read, app.trust, mappings.current, rulebook.config),
        counter_store=CounterStore(table, CustomerThresholds(mappings).current),
        poison_messages=PoisonMessages(table, clock),
        heartbeats=replace(wire_heartbeat_log(app), rulebook=rulebook),
        reject=reject,
        canary=record_canary,
        job_report=record_job_report,
    )


def release(queue: RecordQueue, messages: Collection[RawMessage], failed: Collection[str]) -> None:
    """Let SQS deliver the `failed` messages of a batch, which cannot be processed yet, again after a short pause.

    If this call fails, the failure is only logged. SQS then delivers the messages again after the visibility timeout of
    the queue.
    """
    pauses = {
        one.receipt_handle: pause_after(one.attributes.approximate_receive_count)
        for one in messages
        if one.message_id in failed and one.receipt_handle
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


def _delivery(message: RawMessage, events_queue: str | None) -> Delivery:
    # Only EventBridge may send to the events queue. AWS does not document the sender id that EventBridge gets in SQS.
    from_bus = events_queue is not None and message.event_source_arn == events_queue
    return Delivery(
        id=message.message_id,
        text=message.body,
        received_at=from_milliseconds(message.attributes.sent_timestamp),
        sender=EVENT_BUS if from_bus else message.attributes.sender_id,
        receives=message.attributes.approximate_receive_count,
    )
