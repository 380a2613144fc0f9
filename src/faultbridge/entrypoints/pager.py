"""The pager function: sends pages for events on the bus, and posts pages to chats.

Every minute, the function also sends summaries, reminders and postponed pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.telemetry import emit
from faultbridge.pager.page_deduplication import PageOutcome

if TYPE_CHECKING:
    from faultbridge.composition.installation import Installation

SCHEDULED = "Scheduled Event"
CHAT_PAGE = "Chat Page"


def pager(event: Mapping[str, Any], installation: Installation) -> None:
    """Send the pages that a bus event requires.

    For a schedule event, send the due summaries, reminders and postponed pages of all clusters. For an event `Chat
    Page`, post its page to the chat service that the event names. Raises an error if a page could not be sent.
    """
    if event.get("detail-type") == SCHEDULED:
        reminded = installation.pager.remind()
        emit({f"Pages{name.title()}": count for name, count in asdict(reminded).items()})
        return
    if event.get("detail-type") == CHAT_PAGE:
        emit({"PagesChat": int(installation.pager.chats.post(event["detail"]))})
        return
    delivered = installation.pager.page(event["detail"])
    outcomes = Counter(page.outcome.value for page in delivered)
    emit({f"Pages{outcome.value.title().replace('_', '')}": outcomes[outcome.value] for outcome in PageOutcome})
