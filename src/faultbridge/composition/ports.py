"""The ports that a whole installation needs: those of the services, of the archive and of the inventory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from faultbridge.domain.cluster.config import ProviderRole
from faultbridge.ports import Ports
from faultbridge.ports.objects import Archive, ArchiveSink, Vault
from faultbridge.registry.instances import Inventory, NodeListing
from faultbridge.repair.attempt.step_tools import ComputeAccess


class AllPorts(Ports, Protocol):
    """Every port of one installation; `adapters.aws.AwsPorts` implements them on AWS."""

    @property
    def archive(self) -> Archive:
        """Return the archive of entries."""

    @property
    def vault(self) -> Vault:
        """Return the store of anchors, in which no caller can overwrite an object."""

    @property
    def sink(self) -> ArchiveSink:
        """Return the delivery of entries to the archive."""

    @property
    def token_secret(self) -> Callable[[], bytes]:
        """Return the reader of the secret that signs page tokens."""

    @property
    def webhook_senders(self) -> Callable[[], bytes]:
        """Return the reader of the JSON document that lists who may post webhooks."""

    @property
    def inventories(self) -> Mapping[str, Inventory]:
        """Return the listings of instances by provider name."""

    @property
    def node_listing(self) -> NodeListing | None:
        """Return the listing of nodes of an orchestrator, if there is one."""

    def for_role(self, role: ProviderRole) -> ComputeAccess:
        """Return the access to instances in another account."""
