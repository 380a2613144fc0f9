"""The final send: sends the stored records before a process ends; reports why a record was not sent."""

from __future__ import annotations

from faultbridge.agent.delivery.sender import Sender

NOT_IN_TIME = "the time was not sufficient to send all records"


def send_until(deadline: float, sender: Sender) -> str | None:
    """Send the stored records until nothing more can be sent; start no batch after `deadline`.

    `deadline` is a time of the sender's monotonic clock, in seconds. Returns why a record or the heartbeat could not be
    sent, or None if no failure remains. Unsent records on disk stay there for the next start.
    """
    sender.flush()
    while sender.clock.monotonic() < deadline and sender.send_due():
        pass
    outbox = sender.outbox
    in_quarantine = outbox.refusal if outbox.quarantined else ""
    return sender.last_error or in_quarantine or (NOT_IN_TIME if outbox.waiting else None)
