"""The ports (interfaces to outside systems) that a whole installation needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.record.ports import ComputeAccess, JobCallback, Ports
from faultbridge.record.ports.objects import Archive, ArchiveSink, Vault
from faultbridge.repair.registry.instances import Inventory, NodeListing


class AllPorts(Ports, Protocol):
    """The ports (interfaces to outside systems) of one installation; `AwsPorts` implements them on AWS."""

    @property
    def archive(self) -> Archive:
        """Return the bucket of archived timeline entries."""

    @property
    def vault(self) -> Vault:
        """Return the store of anchors and sealed manifests, whose objects cannot be changed.

        An anchor is a record of where every entry stream ends.
        """

    @property
    def sink(self) -> ArchiveSink:
        """Return the port that delivers timeline entries to the archive."""

    @property
    def token_secret(self) -> Callable[[], bytes]:
        """Return the function that reads the secret for signing the page tokens of API lists."""

    @property
    def webhook_senders(self) -> Callable[[], bytes]:
        """Return the function that reads the JSON document of the senders that may post to the webhook."""

    @property
    def chat_webhooks(self) -> Callable[[], bytes]:
        """Return the function that reads the JSON document with the webhook URLs of chat channels."""

    @property
    def job_callbacks(self) -> Mapping[str, JobCallback]:
        """Return the job callbacks by name. A callback notifies another system that a job may resume."""

    @property
    def inventories(self) -> Mapping[str, Inventory]:
        """Return the adapters that list the instances of node groups, by the name of their provider."""

    @property
    def node_listing(self) -> NodeListing | None:
        """Return the adapter that lists the nodes of orchestrators, or None if there is no such adapter."""

    def for_cluster(self, config: ClusterConfig) -> ComputeAccess:
        """Return the adapters that use the IAM role and the HyperPod cluster that `config` names."""
