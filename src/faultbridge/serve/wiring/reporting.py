"""Factories of the services of the pager, the archive, the HTTP API and the console."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from faultbridge.model.dataclass import dataclass

if TYPE_CHECKING:
    from faultbridge.adapters.paging import ChatWebhooks
    from faultbridge.record.archive.seal import ArchiveSchedule
    from faultbridge.record.archive.write import WriteArchive
    from faultbridge.serve.api.handlers import Handlers
    from faultbridge.serve.console.facts import Facts
    from faultbridge.serve.console.pages import Pages as ConsolePages
    from faultbridge.serve.console.report import Reports
    from faultbridge.serve.pager.deliver import Paging
    from faultbridge.serve.pager.page import PagerSettings
    from faultbridge.serve.pager.remind import Remind
    from faultbridge.serve.wiring.installation import Installation


@dataclass(frozen=True)
class Pages:
    """Builds the services that send operators pages, summaries and reminders."""

    installation: Installation

    @cached_property
    def settings(self) -> PagerSettings:
        """Return the settings of the pager: links in pages, maximum pages per hour, time until a reminder."""
        from faultbridge.serve.pager.page import Links, PagerSettings

        settings = self.installation.settings
        return PagerSettings(
            links=Links(settings.runbook_url, settings.console_url),
            max_per_hour=settings.max_pages_per_hour,
            remind_after=timedelta(hours=settings.reminder_hours),
        )

    @cached_property
    def page(self) -> Paging:
        """Return the service that sends the pages (operator alerts) for an event."""
        from faultbridge.serve.pager.deliver import Paging

        ports = self.installation.ports
        return Paging(ports.table, ports.pager, ports.clock, self.settings)

    @cached_property
    def chats(self) -> ChatWebhooks:
        """Return the service that posts pages (operator alerts) to chat channels."""
        from faultbridge.adapters.paging import ChatWebhooks

        return ChatWebhooks(self.installation.ports.chat_webhooks)

    @cached_property
    def remind(self) -> Remind:
        """Return the service that sends reminders, summaries of withheld pages, and postponed pages."""
        from faultbridge.serve.pager.remind import Remind

        ports = self.installation.ports
        return Remind(ports.table, ports.pager, ports.clock, self.settings)


@dataclass(frozen=True)
class ArchiveKeeping:
    """Builds the services that write, seal and anchor the archive of timeline entries."""

    installation: Installation

    @cached_property
    def write(self) -> WriteArchive:
        """Return the service that writes timeline entries to the archive."""
        from faultbridge.record.archive.write import WriteArchive

        return WriteArchive(self.installation.ports.sink)

    @cached_property
    def schedule(self) -> ArchiveSchedule:
        """Return the service that anchors each cluster once an hour and seals complete days of its archive.

        An anchor is a locked record of where every entry stream ends.
        """
        from faultbridge.record.archive.anchor import Anchor, RecordAnchor
        from faultbridge.record.archive.seal import ArchiveSchedule, Seal

        of = self.installation
        kept, stack, days = of.ports, of.stack, of.settings.entry_days
        anchor = Anchor(kept.table, kept.vault, kept.clock, stack)
        seal = Seal(kept.table, kept.archive, kept.vault, kept.clock, stack, timedelta(days=days) if days else None)
        return ArchiveSchedule(kept.table, kept.clock, anchor, RecordAnchor(kept.table, kept.clock, stack), seal)


@dataclass(frozen=True)
class ApiAnswers:
    """Builds the handlers of the HTTP API."""

    installation: Installation

    @cached_property
    def answers(self) -> Handlers:
        """Return the functions that answer the requests of the HTTP API."""
        from faultbridge.decode.data import offender_odds
        from faultbridge.record.history import DeviceHistory
        from faultbridge.record.timeline import Timeline, Tokens
        from faultbridge.record.verify import Verify
        from faultbridge.repair.findings.judgments import Judgments
        from faultbridge.repair.registry.job_views import JobViews
        from faultbridge.repair.registry.views import Views
        from faultbridge.serve.api.handlers import Handlers, HardwareHandlers, JobHandlers
        from faultbridge.serve.api.requests import Paging

        of = self.installation
        table, paging = of.ports.table, Paging(Tokens(of.ports.token_secret))
        return Handlers(
            directory=Views(table),
            timeline=Timeline(table),
            verify=Verify(table, of.stack),
            orders=of.repair.case_orders,
            incident_orders=of.incidents.orders,
            clock=of.ports.clock,
            paging=paging,
            hardware=HardwareHandlers(Views(table), DeviceHistory(table), Judgments(of.ledger.append), offender_odds()),
            jobs=JobHandlers(Views(table), JobViews(table), of.jobs.api_jobs, paging, of.ports.clock),
        )


@dataclass(frozen=True)
class Console:
    """Builds the services that read and render the web pages and report files of the console."""

    installation: Installation

    @cached_property
    def facts(self) -> Facts:
        """Return the service that reads the data of web pages and reports, such as nodes and cases."""
        from faultbridge.record.timeline import Timeline
        from faultbridge.repair.registry.views import Views
        from faultbridge.serve.console.facts import Facts

        ports = self.installation.ports
        return Facts(Views(ports.table), Timeline(ports.table), ports.clock, self.installation.rules.rulebook.policy)

    @cached_property
    def reports(self) -> Reports:
        """Return the writer of the report files of the console."""
        from faultbridge.serve.console.report import Reports

        return Reports(self.facts)

    @cached_property
    def pages(self) -> ConsolePages:
        """Return the service that answers requests for web pages of the console."""
        from faultbridge.serve.console.pages import Pages

        return Pages(self.facts)
