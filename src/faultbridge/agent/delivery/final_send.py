"""The final send: sends the stored records before a process ends; reports why a record was not sent."""

from __future__ import annotations

from faultbridge.agent.delivery.sender import Sender

NOT_IN_TIME = "the time was not sufficient to send all records"


def send_until(deadline: float, sender: Sender) -> str | None:
    """Send the stored records until nothing more can be sent, at most until `deadline`.

    `deadline` is a time of the sender's monotonic clock. Returns why a record could not be sent, or None if all records
    were sent. The records that were not sent stay on disk for the next start, and `Outbox.unsent` is their number.
    """
    sender.flush()
    while sender.clock.monotonic() < deadline and sender.send_due():
        pass
    outbox = sender.outbox
    in_quarantine = outbox.refusal if outbox.quarantined else ""
    return sender.last_error or in_quarantine or (NOT_IN_TIME if outbox.waiting else None)
