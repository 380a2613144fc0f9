"""Parts of the composition root: taking records in beside the queue, keeping the record, paging people."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from faultbridge.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from faultbridge.api.answers import Answers
    from faultbridge.ports import Ports
    from faultbridge.ports.archive import ArchivePorts
    from faultbridge.services.append import Append, Stack
    from faultbridge.services.archive.daily import KeepRecord
    from faultbridge.services.archive.write import WriteArchive
    from faultbridge.services.ingest import Ingest
    from faultbridge.services.intake.doors import Intake
    from faultbridge.services.inventory import Inventory, Roll
    from faultbridge.services.inventory_events import LookAtEvents
    from faultbridge.services.inventory_sync import SyncInventory
    from faultbridge.services.orders import Orders
    from faultbridge.services.pager import PagerSettings, Paging, Remind
    from faultbridge.services.publish import Publish
    from faultbridge.services.registration import Registration
    from faultbridge.services.rejects import Rejects
    from faultbridge.services.rulebook import Rulebook
    from faultbridge.settings import Settings
    from faultbridge.stages.trust import Trust


class RecordIntake:
    """The services of an installation that take what does not come through the queue."""

    ports: Ports
    stack: Stack
    trust: Trust
    webhook_senders: Callable[[], Callable[[], bytes]] = staticmethod(lambda: lambda: b"{}")
    """Returns what reads the document of who may post; nobody may where an installation has none."""

    inventories: Callable[[], Mapping[str, Inventory]] = staticmethod(dict)
    """Returns what lists the machines of a cluster, by the name of its provider."""

    roll: Callable[[], Roll | None] = staticmethod(lambda: None)
    """Returns what lists the nodes of a cluster's orchestrator."""

    @property
    def append(self) -> Append:
        """Write nodes."""
        raise NotImplementedError  # pragma: no cover - the whole installation has it

    @property
    def rulebook(self) -> Rulebook:
        """Read registrations and policies."""
        raise NotImplementedError  # pragma: no cover - the whole installation has it

    @property
    def registration(self) -> Registration:
        """Register clusters and nodes."""
        raise NotImplementedError  # pragma: no cover - the whole installation has it

    @cached_property
    def rejects(self) -> Rejects:
        """Keep what nobody could use."""
        from faultbridge.services.rejects import Rejects

        return Rejects(self.ports.table, self.ports.objects, self.ports.queue, self.ports.clock, self.trust)

    @cached_property
    def ingest(self) -> Ingest:
        """Take raw records."""
        from faultbridge.decoders import registry
        from faultbridge.services.canary import KeepCanary
        from faultbridge.services.ingest import Ingest
        from faultbridge.services.known import KnownNodes
        from faultbridge.services.lookups import Lookups
        from faultbridge.services.mappings import OwnWords
        from faultbridge.services.placement import Placement
        from faultbridge.services.readings import Readings
        from faultbridge.services.records import Reader
        from faultbridge.services.silence import Silence
        from faultbridge.services.suspects import Suspects

        table = self.ports.table
        lookups = Lookups(table, self.ports.clock)
        rulebook = replace(self.rulebook, table=lookups)
        suspects, silence = Suspects(table, self.ports.clock), Silence(table, self.append, rulebook)
        reader = Reader(self.ports.objects, registry.decode, self.trust, OwnWords(lookups))
        placement = Placement(lookups, rulebook, self.trust)
        nodes, readings = KnownNodes(lookups), Readings(table)
        beside = suspects, silence, self.rejects, KeepCanary(table, self.ports.clock, self.stack)
        return Ingest(nodes, placement, self.append, rulebook, reader, readings, *beside)

    @cached_property
    def intake(self) -> Intake:
        """Take what cannot come through the queue."""
        from faultbridge.services.intake.doors import doors

        ports = self.ports
        return doors(ports.queue, ports.objects, ports.table, ports.clock, self.webhook_senders())

    @cached_property
    def inventory(self) -> SyncInventory:
        """Compare what providers have with what is registered."""
        from faultbridge.services.inventory_sync import SyncInventory
        from faultbridge.services.seating import Seating

        seating = Seating(self.ports.table, self.append, self.rulebook)
        return SyncInventory(self.ports.table, self.registration, seating, self.inventories(), self.roll())

    @cached_property
    def inventory_events(self) -> LookAtEvents:
        """Look at the groups that events are about."""
        from faultbridge.services.inventory_events import LookAtEvents

        return LookAtEvents(self.ports.table, self.inventory)


class RecordKeeping:
    """The services of an installation that write, seal, anchor and tell the record."""

    ports: Ports
    stack: Stack
    archive_ports: ArchivePorts | None = None
    entry_days: int = 0
    mirrored: Callable[[], frozenset[str]] = staticmethod(frozenset)
    """Returns the clusters whose events are copied in the shape of HyperPod's."""

    @property
    def orders(self) -> Orders:
        """Take what people decide about cases."""
        raise NotImplementedError  # pragma: no cover - the whole installation has it

    @property
    def keeping(self) -> ArchivePorts:
        """Reach what keeps the record for years."""
        if self.archive_ports is None:
            raise Misconfigured("this installation keeps no archive")
        return self.archive_ports

    @cached_property
    def publish(self) -> Publish:
        """Put entries on the bus."""
        from faultbridge.services.publish import Publish

        return Publish(self.ports.table, self.ports.bus, self.stack.id, self.mirrored())

    @cached_property
    def write_archive(self) -> WriteArchive:
        """Hand entries to the archive."""
        from faultbridge.services.archive.write import WriteArchive

        return WriteArchive(self.keeping.sink)

    @cached_property
    def archive(self) -> KeepRecord:
        """Anchor and seal."""
        from faultbridge.services.archive.anchor import Anchor
        from faultbridge.services.archive.daily import KeepRecord
        from faultbridge.services.archive.on_chain import PutOnChain
        from faultbridge.services.archive.seal import Seal

        kept, stack = self.keeping, self.stack
        keep = timedelta(days=self.entry_days) if self.entry_days else None
        anchor = Anchor(kept.table, kept.vault, kept.clock, stack)
        seal = Seal(kept.table, kept.archive, kept.vault, kept.clock, stack, keep)
        on_chain = PutOnChain(kept.table, kept.clock, stack)
        return KeepRecord(kept.table, kept.clock, anchor, on_chain, seal)

    @cached_property
    def timeline(self) -> Answers:
        """Answer questions about the record."""
        from faultbridge.api.answers import Answers
        from faultbridge.api.tokens import Tokens
        from faultbridge.services.directory import Directory
        from faultbridge.services.timeline import Timeline
        from faultbridge.services.verify import Verify

        table = self.ports.table
        return Answers(
            directory=Directory(table),
            timeline=Timeline(table),
            verify=Verify(table, self.stack),
            orders=self.orders,
            clock=self.ports.clock,
            tokens=Tokens(self.keeping.token_secret),
        )


def pager_settings(settings: Settings) -> PagerSettings:
    """Read how people are paged from the settings of a deployment."""
    from faultbridge.services.pager import Links, PagerSettings

    return PagerSettings(
        links=Links(settings.runbook_url, settings.timeline_url),
        most_an_hour=settings.pages_an_hour,
        remind_after=timedelta(hours=settings.reminder_hours),
    )


class PagePeople:
    """The services of an installation that reach people."""

    ports: Ports
    pager_settings: Callable[[], PagerSettings] | None = None

    @cached_property
    def page(self) -> Paging:
        """Turn events into pages."""
        from faultbridge.services.pager import Paging

        return Paging(self.ports.table, self.ports.pager, self.ports.clock, self._how)

    @cached_property
    def remind(self) -> Remind:
        """Send summaries and reminders."""
        from faultbridge.services.pager import Remind

        return Remind(self.ports.table, self.ports.pager, self.ports.clock, self._how)

    @property
    def _how(self) -> PagerSettings:
        from faultbridge.services.pager import PagerSettings

        return self.pager_settings() if self.pager_settings else PagerSettings()
