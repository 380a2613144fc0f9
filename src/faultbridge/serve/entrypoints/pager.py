"""The pager function: sends pages for events of the bus, which arrive through a queue, and posts pages to chats.

Every minute, the function also sends summaries, reminders and postponed pages.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.aws.telemetry import emit
from faultbridge.serve.pager.page_deduplication import PageOutcome

if TYPE_CHECKING:
    from faultbridge.serve.wiring.installation import Installation

SCHEDULED = "Scheduled Event"
CHAT_PAGE = "Chat Page"


def pager(event: Mapping[str, Any], installation: Installation) -> None:
    """Send the pages that each event of a batch from SQS requires, or the due pages of a schedule event.

    Due pages are summaries, reminders and postponed pages of all clusters. For an event `Chat Page`, post its page to
    the chat service that the event names. Raises an error if a page is not sent, so that SQS delivers the batch again.
    """
    if event.get("detail-type") == SCHEDULED:
        reminded = installation.pager.remind()
        emit({f"Pages{name.title()}": count for name, count in asdict(reminded).items()})
        return
    for record in event["Records"]:
        _send(json.loads(record["body"]), installation)


def _send(event: Mapping[str, Any], installation: Installation) -> None:
    if event.get("detail-type") == CHAT_PAGE:
        emit({"PagesChat": int(installation.pager.chats.post(event["detail"]))})
        return
    delivered = installation.pager.page(event["detail"])
    outcomes = Counter(page.outcome.value for page in delivered)
    emit({f"Pages{outcome.value.title().replace('_', '')}": outcomes[outcome.value] for outcome in PageOutcome})
