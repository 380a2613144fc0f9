"""Raw records: none is lost, each comes to something."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from faultbridge.domain.records import Outcome
from faultbridge.ingest.delivery_audit import audit_deliveries
from faultbridge.ingest.outcomes import OUTCOME
from faultbridge.simulation.invariants.base import Invariant
from faultbridge.simulation.view import View


def _unaccounted(view: View) -> Iterator[str]:
    yield from audit_deliveries(view.ports.receipts, datetime(2000, 1, 1, tzinfo=UTC)).missing


def _unknown_outcomes(view: View) -> Iterator[str]:
    known = {outcome.value for outcome in Outcome}
    for _, line in view.ports.receipts.lines:
        if line["kind"] == OUTCOME:
            yield from (f"{record}: {outcome}" for record, outcome in line["records"].items() if outcome not in known)


def _left_on_the_queue(view: View) -> Iterator[str]:
    yield from (f"message {message.number}" for message in (*view.ports.queue.messages, *view.ports.queue.dead))


INVARIANTS = (
    Invariant("every record that was sent has an outcome", _unaccounted),
    Invariant("an outcome is one of the six", _unknown_outcomes),
    Invariant("no message is left on the queue", _left_on_the_queue),
)
