"""What Lambda hands over, turned into what the services take, and their answers back; one printed line a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.dynamodb_values import from_typed_item
from faultbridge.adapters.receipts import MARK, VERSION
from faultbridge.adapters.telemetry import emit, logger
from faultbridge.domain.records import Outcome
from faultbridge.domain.times import from_milliseconds
from faultbridge.services.account import OUTCOME

if TYPE_CHECKING:
    from faultbridge.bootstrap import Application
    from faultbridge.services.records import Delivery
    from faultbridge.storage.writes import Item

Event = Mapping[str, Any]


def ingest(event: Event, application: Application) -> dict[str, Any]:
    """Take a batch of the raw queue; the line it prints is the receipt of every record in it."""
    ingested = application.ingest([_delivery(record) for record in event["Records"]])
    counts = Counter(ingested.outcomes.values())
    receipt = {record: outcome.value for record, outcome in ingested.outcomes.items()}
    emit(
        {f"Records{outcome.value.capitalize()}": counts[outcome] for outcome in Outcome}
        | {"RecordsGivenBack": len(ingested.failed)},
        **{MARK: VERSION, "kind": OUTCOME, "records": receipt, "reasons": ingested.reasons},
    )
    return {"batchItemFailures": [{"itemIdentifier": message} for message in sorted(ingested.failed)]}


def publish(event: Event, application: Application) -> None:
    """Take new entries from the table's stream; raises when the bus did not take all, so that the stream repeats."""
    published = application.publish(list(_images(event)))
    emit({"EntriesPublished": published})


def react(event: Event, application: Application) -> None:
    """Take entries as doorbells; raises when one could not be answered, so that the stream rings again."""
    doorbells = {(str(image["cluster"]), _node(image)) for image in _images(event)}
    application.react(doorbells)
    emit({"Doorbells": len(doorbells)})


def sweep(_event: Event, application: Application) -> dict[str, Any]:
    """Do the minute's round; what failed in it is logged and comes again with the next."""
    swept = application.sweep()
    for failure in swept.failures:
        logger.error("a part of the sweep failed", failure=failure)
    counts = {"Ticked": swept.ticked, "Republished": swept.published, "SweepFailures": len(swept.failures)}
    emit(counts | {"SweepUnfinished": int(swept.unfinished)})
    return asdict(swept)


def replacement(event: Event, application: Application) -> dict[str, str]:
    """Run one step of an attempt and answer what came of it."""
    answer = application.replacement(event, event.get("token"))
    emit({"Steps": 1}, step=event.get("step"), case=event.get("case"), outcome=answer.get("outcome"))
    return answer


def _node(image: Item) -> str | None:
    node = image.get("node")
    return None if node is None else str(node)


def _delivery(record: Mapping[str, Any]) -> Delivery:
    from faultbridge.services.records import Delivery

    attributes = record["attributes"]
    return Delivery(
        id=record["messageId"],
        text=record["body"],
        received_at=from_milliseconds(int(attributes["SentTimestamp"])),
        sender=attributes.get("SenderId"),
    )


def _images(event: Event) -> Iterator[Item]:
    for record in event["Records"]:
        image = record["dynamodb"].get("NewImage")
        if image is not None:
            yield from_typed_item(image)
