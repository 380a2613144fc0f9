"""The pager function: sends pages for events of the bus, which arrive through a queue, and posts pages to chats.

Every minute, the function also sends summaries, reminders and postponed pages.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
from msgspec import to_builtins

from faultbridge.adapters.aws.telemetry import emit
from faultbridge.serve.entrypoints.lambda_events import SCHEDULED, BusEvent, read
from faultbridge.serve.pager.deliver import Paging
from faultbridge.serve.pager.page import Links, PagerSettings
from faultbridge.serve.pager.page_deduplication import PageOutcome
from faultbridge.serve.pager.remind import Remind
from faultbridge.serve.wiring.installation import once

if TYPE_CHECKING:
    from faultbridge.adapters.paging import ChatWebhooks
    from faultbridge.serve.wiring.installation import Installation

CHAT_PAGE = "Chat Page"


def pager(event: object, installation: Installation) -> None:
    """Send the pages that each event of a batch from SQS requires, or the due pages of a schedule event.

    Due pages are summaries, reminders and postponed pages of all clusters. For an event `Chat Page`, post its page to
    the chat service that the event names. Raises an error if a page is not sent, so that SQS delivers the batch again.
    """
    call = read(event, BusEvent)
    if call.detail_type == SCHEDULED:
        reminded = wire_reminders(installation).remind()
        emit({f"Pages{name.title()}": count for name, count in to_builtins(reminded).items()})
        return
    for message in call.records:
        _send(msgspec.json.decode(message.body, type=BusEvent), installation)


def _send(event: BusEvent, installation: Installation) -> None:
    if event.detail_type == CHAT_PAGE:
        emit({"PagesChat": int(wire_chats(installation).post(event.detail))})
        return
    delivered = wire_pages(installation).deliver(event.detail)
    outcomes = Counter(page.outcome.value for page in delivered)
    emit({f"Pages{outcome.value.title().replace('_', '')}": outcomes[outcome.value] for outcome in PageOutcome})


@once
def wire_pages(app: Installation) -> Paging:
    """Return the service that sends the pages (operator alerts) for an event."""
    return Paging(app.ports.table, app.ports.pager, app.ports.clock, _pager_settings(app))


@once
def wire_reminders(app: Installation) -> Remind:
    """Return the service that sends reminders, summaries of withheld pages, and postponed pages."""
    return Remind(app.ports.table, app.ports.pager, app.ports.clock, _pager_settings(app))


def wire_chats(app: Installation) -> ChatWebhooks:
    """Return the service that posts pages (operator alerts) to chat channels."""
    from faultbridge.adapters.paging import ChatWebhooks

    return ChatWebhooks(app.ports.chat_webhooks)


def _pager_settings(app: Installation) -> PagerSettings:
    settings = app.settings
    return PagerSettings(
        links=Links(settings.runbook_url, settings.console_url),
        max_per_hour=settings.max_pages_per_hour,
        remind_after=timedelta(hours=settings.reminder_hours),
        buttons=bool(settings.on_call),
    )
