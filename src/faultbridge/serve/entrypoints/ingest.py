"""The ingest function: records the raw records that arrive in batches from SQS.

The function returns the ids of the messages that SQS must deliver again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.aws.receipts import RECEIPT_FIELD, RECEIPT_VERSION
from faultbridge.adapters.aws.telemetry import emit, emit_for_reason
from faultbridge.decide.normalize.trust import EVENT_BUS
from faultbridge.decode import registry
from faultbridge.model.records import Outcome
from faultbridge.model.times import from_milliseconds
from faultbridge.model.values import replace
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
    from faultbridge.serve.ingest.outcomes import IngestResult
    from faultbridge.serve.wiring.installation import Installation


def ingest(event: Mapping[str, Any], installation: Installation) -> dict[str, Any]:
    """Record the raw records in a batch of SQS messages, and print one line with all outcomes.

    Returns the ids of the messages that SQS must deliver again.
    """
    deliveries = [_delivery(record, installation.trust.events_queue) for record in event["Records"]]
    result = wire_ingest(installation).ingest(deliveries)
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
        _release(event, installation, result)
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
        from faultbridge.serve.wiring.job_tracking import wire_api_jobs

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


def _release(event: Mapping[str, Any], installation: Installation, result: IngestResult) -> None:
    """Make SQS deliver each message in `result.failed` again after a short pause.

    Messages of the events queue, which contains events of AWS services, are left out: SQS delivers them again after the
    visibility timeout of that queue.
    """
    from faultbridge.serve.ingest.release import release

    events_queue = installation.trust.events_queue
    raw = [record for record in event["Records"] if record.get("eventSourceARN") != events_queue]
    release(installation.ports.queue, raw, result.failed)


def _delivery(record: Mapping[str, Any], events_queue: str | None) -> Delivery:
    attributes = record["attributes"]
    # Only EventBridge may send to the events queue. AWS does not document the sender id that EventBridge gets in SQS.
    from_bus = events_queue is not None and record.get("eventSourceARN") == events_queue
    return Delivery(
        id=record["messageId"],
        text=record["body"],
        received_at=from_milliseconds(int(attributes["SentTimestamp"])),
        sender=EVENT_BUS if from_bus else attributes.get("SenderId"),
        receives=int(attributes.get("ApproximateReceiveCount", 1)),
    )
