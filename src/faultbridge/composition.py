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
    from faultbridge.archive.schedule import KeepRecord
    from faultbridge.archive.write import WriteArchive
    from faultbridge.gateway.intake import Intake
    from faultbridge.ingest.ingest import Ingest
    from faultbridge.ingest.rejects import Rejects
    from faultbridge.ledger.append import Append, Stack
    from faultbridge.ledger.publish import Publish
    from faultbridge.pager.deliver import Paging
    from faultbridge.pager.page import PagerSettings
    from faultbridge.pager.remind import Remind
    from faultbridge.pipeline.normalize.trust import Trust
    from faultbridge.ports import Ports
    from faultbridge.ports.objects import ArchivePorts
    from faultbridge.registry.instances import Inventory, Roll
    from faultbridge.registry.inventory_events import LookAtEvents
    from faultbridge.registry.inventory_sync import SyncInventory
    from faultbridge.registry.registration import Registration
    from faultbridge.repair.case_orders import CaseOrders
    from faultbridge.rules.rulebook import Rulebook
    from faultbridge.settings import Settings


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
        from faultbridge.ingest.rejects import Rejects

        return Rejects(self.ports.table, self.ports.objects, self.ports.queue, self.ports.clock, self.trust)

    @cached_property
    def ingest(self) -> Ingest:
        """Take raw records."""
        from faultbridge.decoders import registry
        from faultbridge.ingest.caches import ItemCache, NodeCache
        from faultbridge.ingest.canary import RecordCanary
        from faultbridge.ingest.counter_store import CounterStore
        from faultbridge.ingest.heartbeat_monitor import HeartbeatMonitor
        from faultbridge.ingest.ingest import Ingest
        from faultbridge.ingest.mappings import CustomerMappings
        from faultbridge.ingest.node_lookup import NodeLookup
        from faultbridge.ingest.poison_messages import PoisonMessages
        from faultbridge.ingest.record_reader import RecordReader

        table = self.ports.table
        item_cache = ItemCache(table, self.ports.clock)
        rulebook = replace(self.rulebook, table=item_cache)
        poison_messages, silence = (
            PoisonMessages(table, self.ports.clock),
            HeartbeatMonitor(table, self.append, rulebook),
        )
        reader = RecordReader(self.ports.objects, registry.decode, self.trust, CustomerMappings(item_cache))
        node_lookup = NodeLookup(item_cache, rulebook, self.trust)
        nodes, readings = NodeCache(item_cache), CounterStore(table)
        beside = poison_messages, silence, self.rejects, RecordCanary(table, self.ports.clock, self.stack)
        return Ingest(nodes, node_lookup, self.append, rulebook, reader, readings, *beside)

    @cached_property
    def intake(self) -> Intake:
        """Take what cannot come through the queue."""
        from faultbridge.gateway.intake import doors

        ports = self.ports
        return doors(ports.queue, ports.objects, ports.table, ports.clock, self.webhook_senders())

    @cached_property
    def inventory(self) -> SyncInventory:
        """Compare what providers have with what is registered."""
        from faultbridge.registry.inventory_sync import SyncInventory
        from faultbridge.registry.replacement_detection import ReplacementDetection

        seating = ReplacementDetection(self.ports.table, self.append, self.rulebook)
        return SyncInventory(self.ports.table, self.registration, seating, self.inventories(), self.roll())

    @cached_property
    def inventory_events(self) -> LookAtEvents:
        """Look at the groups that events are about."""
        from faultbridge.registry.inventory_events import LookAtEvents

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
    def orders(self) -> CaseOrders:
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
        from faultbridge.ledger.publish import Publish

        return Publish(self.ports.table, self.ports.bus, self.stack.id, self.mirrored())

    @cached_property
    def write_archive(self) -> WriteArchive:
        """Hand entries to the archive."""
        from faultbridge.archive.write import WriteArchive

        return WriteArchive(self.keeping.sink)

    @cached_property
    def archive(self) -> KeepRecord:
        """Anchor and seal."""
        from faultbridge.archive.anchor import Anchor, PutOnChain
        from faultbridge.archive.schedule import KeepRecord
        from faultbridge.archive.seal import Seal

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
        from faultbridge.ledger.page_tokens import Tokens
        from faultbridge.ledger.timeline import Timeline
        from faultbridge.ledger.verify import Verify
        from faultbridge.registry.views import Views

        table = self.ports.table
        return Answers(
            directory=Views(table),
            timeline=Timeline(table),
            verify=Verify(table, self.stack),
            orders=self.orders,
            clock=self.ports.clock,
            tokens=Tokens(self.keeping.token_secret),
        )


def pager_settings(settings: Settings) -> PagerSettings:
    """Read how people are paged from the settings of a deployment."""
    from faultbridge.pager.page import Links, PagerSettings

    return PagerSettings(
        links=Links(settings.runbook_url, settings.timeline_url),
        max_per_hour=settings.max_pages_per_hour,
        remind_after=timedelta(hours=settings.reminder_hours),
    )


class PagePeople:
    """The services of an installation that reach people."""

    ports: Ports
    pager_settings: Callable[[], PagerSettings] | None = None

    @cached_property
    def page(self) -> Paging:
        """Turn events into pages."""
        from faultbridge.pager.deliver import Paging

        return Paging(self.ports.table, self.ports.pager, self.ports.clock, self._how)

    @cached_property
    def remind(self) -> Remind:
        """Send summaries and reminders."""
        from faultbridge.pager.remind import Remind

        return Remind(self.ports.table, self.ports.pager, self.ports.clock, self._how)

    @property
    def _how(self) -> PagerSettings:
        from faultbridge.pager.page import PagerSettings

        return self.pager_settings() if self.pager_settings else PagerSettings()
