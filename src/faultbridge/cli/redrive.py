"""`faultbridge redrive`: dead letters back to the queues that gave them up."""

from __future__ import annotations

from faultbridge.cli.output import Columns
from faultbridge.cli.progress import progress
from faultbridge.cli.session import Session, on_stack

EPILOG = "Example: faultbridge redrive"
MOVED: Columns = {
    "Moved": lambda one: one["moved"],
    "Raw records": lambda one: one["raw_records"],
    "Cloud events": lambda one: one["cloud_events"],
}


@on_stack
def command(session: Session) -> None:
    """Put dead letters back on their queues, with the times at which they first came. Safe to repeat."""
    from faultbridge.ingest.redrive import Redrive

    with progress("moving dead letters", None) as advance:
        records = Redrive(session.dead_letters, session.ports.queue)(advance)
        events = Redrive(*session.cloud_events, dated=False)(advance) if session.cloud_events else 0
    session.show_one({"moved": records + events, "raw_records": records, "cloud_events": events}, MOVED)
