"""Lambda handler: sends pages and notifications for events."""

from __future__ import annotations

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.pager import pager


def handler(event: object, _context: object) -> None:
    """Send the pages for a batch of events, or the summaries and reminders of the schedule."""
    pager(event, from_environment())
