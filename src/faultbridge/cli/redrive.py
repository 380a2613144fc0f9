"""`faultbridge redrive`: dead letters back to the queue of raw records."""

from __future__ import annotations

from faultbridge.cli.progress import progress
from faultbridge.cli.session import Session, on_stack

EPILOG = "Example: faultbridge redrive"


@on_stack
def command(session: Session) -> None:
    """Put dead letters back on the queue, with the times at which they first came. Safe to repeat."""
    from faultbridge.services.redrive import Redrive

    with progress("moving dead letters", None) as advance:
        moved = Redrive(session.dead_letters, session.ports.queue)(advance)
    session.show_one({"moved": moved}, {"Moved": lambda one: one["moved"]})
