"""The ports that a whole installation needs: those of the services, of the archive and of the inventory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.ports import ComputeAccess, JobCallback, Ports
from faultbridge.ports.objects import Archive, ArchiveSink, Vault
from faultbridge.registry.instances import Inventory, NodeListing


class AllPorts(Ports, Protocol):
    """Every port of one installation; `adapters.aws.AwsPorts` implements them on AWS."""

    @property
    def archive(self) -> Archive:
        """Return the bucket of archived entries."""

    @property
    def vault(self) -> Vault:
        """Return the store of anchors and sealed manifests, in which no caller can change an object."""

    @property
    def sink(self) -> ArchiveSink:
        """Return the port that delivers entries to the archive."""

    @property
    def token_secret(self) -> Callable[[], bytes]:
        """Return the function that reads the secret that signs page tokens."""

    @property
    def webhook_senders(self) -> Callable[[], bytes]:
        """Return the function that reads the JSON document of the allowed webhook senders."""

    @property
    def chat_webhooks(self) -> Callable[[], bytes]:
        """Return the function that reads the JSON document with the webhook addresses of chats."""

    @property
    def job_callbacks(self) -> Mapping[str, JobCallback]:
        """Return the callbacks for jobs that may resume, by name."""

    @property
    def inventories(self) -> Mapping[str, Inventory]:
        """Return the adapters that list the instances of a provider's groups, by provider name."""

    @property
    def node_listing(self) -> NodeListing | None:
        """Return the port that lists the nodes of an orchestrator, or None if there is none."""

    def for_cluster(self, config: ClusterConfig) -> ComputeAccess:
        """Return the access to the instances of a cluster, in its account and its HyperPod cluster."""
