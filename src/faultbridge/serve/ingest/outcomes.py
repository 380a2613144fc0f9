"""Outcomes of a batch: the result of each record, and why messages go back to the queue.

An unexpected error of one record or node does not affect the others (`process_isolated`).

Senders write receipt lines with the ids of the records that the queue accepted. Ingest writes receipt lines with the
outcomes of records. `delivery_audit` compares both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field

from faultbridge.model.errors import Conflict, FaultbridgeError, Misconfigured, Transient
from faultbridge.model.log import log_cause
from faultbridge.model.records import Outcome

if TYPE_CHECKING:  # the command line writes receipts and loads no decoder for it
    from faultbridge.model.nodes import NodeKey
    from faultbridge.serve.ingest.record_reader import Delivery

Item = TypeVar("Item")
Done = TypeVar("Done")

MAX_ERROR = 500
SENT = "sent"
OUTCOMES = "outcomes"

IDS_PER_LINE = 1000
"""The limit of a log line is 256 KB; a thousand record ids need about 40 KB."""


class GiveBackReason(StrEnum):
    """The reason why a message goes back to the queue.

    It is the `reason` in the log line `record_given_back`, and a dimension of the metric `RecordsGivenBack`.
    """

    CONFLICT = "conflict"
    """Other writers changed the same item first, in every try."""

    INPUT_UNAVAILABLE = "input_unavailable"
    """The body or the mappings could not be read, or the full record of a shortened fault could not be stored."""

    BODIES_POSTPONED = "bodies_postponed"
    """Other bodies used up the bytes from the object store that one invocation decodes."""

    STATE_UNAVAILABLE = "state_unavailable"
    """The table did not read or write the state of the node."""

    HEARTBEATS_UNAVAILABLE = "heartbeats_unavailable"
    """The table did not read or write the last heartbeat of the node."""

    REJECTS_UNAVAILABLE = "rejects_unavailable"
    """The rejected record could not be stored."""

    MISCONFIGURED = "misconfigured"
    """A setting, a permission or a limit of AWS is wrong."""

    UNEXPECTED_ERROR = "unexpected_error"
    """An error in the software. A record that fails in this way when it is processed alone is rejected."""

    POISON_CHECK_UNAVAILABLE = "poison_check_unavailable"
    """The message was received often, and the check whether it stops its worker failed."""


class IngestResult(Struct):
    """The outcomes of the records of a batch, and the messages that go back to the queue.

    `failed` maps the id of each message that goes back to the reason for this. While the batch is processed, its keys
    are the ids of deliveries. `outcomes` maps record ids to outcomes. `reasons` maps the id of each rejected record to
    the reason of the rejection. `unparsed` is the number of lines or documents that look like faults but match no known
    pattern.
    """

    failed: dict[str, GiveBackReason] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    unparsed: int = 0

    def add_unparsed(self, record_id: str, source: str, unparsed: int) -> None:
        """Count the lines of a record that look like faults but match no pattern, and log their number."""
        if unparsed:
            self.unparsed += unparsed
            log_cause(
                "record_not_understood", reason=source, level=logging.WARNING, record_id=record_id, lines=unparsed
            )

    def set_outcome(self, record_id: str, outcome: Outcome) -> None:
        """Set the outcome of a record, unless it already has a stronger outcome (a later member of `Outcome`)."""
        strongest = self.outcomes.get(record_id, Outcome.CLEAN)
        self.outcomes[record_id] = max(strongest, outcome, key=lambda one: one.rank)

    def give_back(
        self, delivery: Delivery, error: Exception, unavailable: GiveBackReason, node: NodeKey | None = None
    ) -> None:
        """Mark a delivery to go back to the queue, and log the reason and the error.

        A delivery that is already marked is not logged again. The reason is CONFLICT for a Conflict, and `unavailable`
        for any other Transient error. `unavailable` names the dependency that did not respond. The reason is
        MISCONFIGURED for Misconfigured, and UNEXPECTED_ERROR for other errors. If `node` is None, the log line names
        the node that the message states.
        """
        if delivery.id in self.failed:
            return
        reason = _reason(error, unavailable)
        self.failed[delivery.id] = reason
        record = delivery.ids()
        log_cause(
            "record_given_back",
            reason=reason.value,
            level=logging.WARNING,
            message_id=delivery.message_id,
            cluster=node.cluster if node else record.cluster,
            node=node.node if node else record.node,
            record_ids=[record.record_id],
            receives=delivery.receives,
            error=describe(error),
        )

    def merge(self, other: IngestResult) -> None:
        """Add the result of another part of the same batch to this result."""
        self.failed |= other.failed
        for record_id, outcome in other.outcomes.items():
            self.set_outcome(record_id, outcome)
        self.reasons |= other.reasons
        self.unparsed += other.unparsed


def _reason(error: Exception, unavailable: GiveBackReason) -> GiveBackReason:
    if isinstance(error, Conflict):
        return GiveBackReason.CONFLICT
    if isinstance(error, Transient):
        return unavailable
    return GiveBackReason.MISCONFIGURED if isinstance(error, Misconfigured) else GiveBackReason.UNEXPECTED_ERROR


def sent_lines(sender: str, records: Iterable[str]) -> Iterator[Mapping[str, object]]:
    """Yield receipt lines with the ids of records that a sender put on the queue, at most 1,000 per line."""
    ids = iter(records)
    while selected := list(islice(ids, IDS_PER_LINE)):
        yield {"kind": SENT, "sender": sender, "records": selected}


def outcome_line(outcomes: Mapping[str, Outcome]) -> Mapping[str, object]:
    """Return one receipt line with the outcomes of records.

    The line contains the record ids of each outcome, joined by spaces, because AWS charges per byte.
    """
    ids: dict[str, list[str]] = {}
    for record, outcome in outcomes.items():
        ids.setdefault(outcome.value, []).append(record)
    return {"kind": OUTCOMES, "records": {outcome: " ".join(records) for outcome, records in ids.items()}}


def outcomes_in(line: Mapping[str, object]) -> Iterator[tuple[str, Outcome]]:
    """Yield each record id in a receipt line with its outcome. A line of another kind yields nothing."""
    records = line["records"] if line.get("kind") == OUTCOMES else {}
    for name, value in records.items() if isinstance(records, Mapping) else ():
        yield from ((record, Outcome(name)) for record in value.split())


def process_isolated(
    items: Sequence[Item],
    process: Callable[[Sequence[Item]], Iterable[Done]],
    fail: Callable[[Sequence[Item], Exception], None],
) -> list[Done]:
    """Process all items in one call; after an unexpected error, process each item alone.

    Returns the results of `process`. `fail` receives the items that were not processed and their error. After a
    Transient error, it receives all items at once: no item is tried alone, because the dependency does not respond.
    """
    if not items:
        return []
    try:
        return list(process(items))
    except Transient as error:
        fail(items, error)
    except Exception as error:  # noqa: BLE001 - any error concerns one item only; `fail` logs it with its ids
        if len(items) > 1:
            log_cause("batch_split", reason=describe(error), level=logging.WARNING, items=len(items))
            return [done for item in items for done in process_isolated([item], process, fail)]
        fail(items, error)
    return []


def describe(error: Exception) -> str:
    """Return the text of an error. For an unexpected error, add its type and the place in the code."""
    if isinstance(error, FaultbridgeError):
        return str(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" ({trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno})" if trace else ""
    return f"{type(error).__name__}: {error}"[:MAX_ERROR] + place
