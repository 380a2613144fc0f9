"""`Ports`: all interfaces to outside systems of one installation, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from faultbridge.model.errors import Misconfigured

if TYPE_CHECKING:
    from faultbridge.model.cluster.config import ClusterConfig
    from faultbridge.record.ports.callbacks import JobCallback
    from faultbridge.record.ports.compute import Collector, Launcher, Provider, Restarter, Verifier
    from faultbridge.record.ports.inventory import Inventory, NodeListing
    from faultbridge.record.ports.messaging import EventBus, Pager, RecordQueue, Workflow
    from faultbridge.record.ports.objects import Archive, ArchiveSink, ObjectStore, Vault
    from faultbridge.record.ports.orchestrator import Orchestrator, VolumeAttachments, Volumes
    from faultbridge.record.ports.table import Clock, Table


class ComputeAccess(Protocol):
    """The ports that change or verify the instances of one account, by the names that a registration uses."""

    @property
    def providers(self) -> Mapping[str, Provider]: ...  # noqa: D102 - see `Ports`
    @property
    def launchers(self) -> Mapping[str, Launcher]: ...  # noqa: D102 - see `Ports`
    @property
    def restarters(self) -> Mapping[str, Restarter]: ...  # noqa: D102 - see `Ports`
    @property
    def verifiers(self) -> Mapping[str, Verifier]: ...  # noqa: D102 - see `Ports`
    @property
    def volumes(self) -> Mapping[str, Volumes]: ...  # noqa: D102 - see `Ports`
    @property
    def collector(self) -> Collector: ...  # noqa: D102 - see `Ports`


@dataclass(eq=False)
class ComputePorts:
    """The ports that reach the instances of one account.

    - `providers`: replace instances, by the provider name in a cluster's registration.
    - `launchers`: launch the successors of instances, for providers whose groups launch none. By provider name.
    - `restarters`: reset GPUs and reboot nodes, by the restarter name in a registration.
    - `verifiers`: run diagnostics on instances, by the verifier name in a registration.
    - `volumes`: move volumes between instances, by provider name.
    - `collector`: collects the log bundles of instances.
    """

    providers: Mapping[str, Provider]
    launchers: Mapping[str, Launcher]
    restarters: Mapping[str, Restarter]
    verifiers: Mapping[str, Verifier]
    volumes: Mapping[str, Volumes]
    collector: Collector


@dataclass(eq=False)
class Ports(ComputePorts):
    """All ports of one installation; `AwsPorts` builds each of them on AWS at first use.

    - `clock`, `table`, `objects`: the time, the one DynamoDB table, the store of raw records and evidence.
    - `queue`: the SQS queue of raw records.
    - `bus`: the event bus that publishes events to customers.
    - `workflow`: the engine that drives repair attempts.
    - `pager`: sends pages to operators.
    - `orchestrators`: cordon and drain nodes, by the orchestrator name in a registration.
    - `volume_attachments`: list the volumes that a storage driver still uses, by orchestrator name.
    - `inventories`: list the instances of node groups, by provider name.
    - `node_listing`: lists the nodes of orchestrators, or None if there is no such adapter.
    - `job_callbacks`: notify another system that a job may resume, by the callback name in a registration. They include
      `checkpoint_callbacks`, which carry requests for checkpoints.
    - `archive`, `sink`: the bucket of archived entries, and the port that delivers entries to it.
    - `vault`: the store of anchors and sealed manifests, whose objects cannot be changed.
    - `token_secret`: reads the secret that signs the page tokens of API lists.
    - `webhook_senders`: reads the JSON document of the senders that may post to the webhook.
    - `chat_webhooks`: reads the JSON document with the webhook URLs of chats.
    - `on_call`: reads the JSON document of the people who give orders in Slack and PagerDuty.
    """

    clock: Clock
    table: Table
    objects: ObjectStore
    queue: RecordQueue
    bus: EventBus
    workflow: Workflow
    pager: Pager
    orchestrators: Mapping[str, Orchestrator]
    volume_attachments: Mapping[str, VolumeAttachments]
    inventories: Mapping[str, Inventory]
    node_listing: NodeListing | None
    job_callbacks: Mapping[str, JobCallback]
    checkpoint_callbacks: Mapping[str, JobCallback]
    archive: Archive
    sink: ArchiveSink
    vault: Vault
    token_secret: Callable[[], bytes]
    webhook_senders: Callable[[], bytes]
    chat_webhooks: Callable[[], bytes]
    on_call: Callable[[], bytes]

    def for_cluster(self, config: ClusterConfig) -> ComputeAccess:
        """Return the ports that use the IAM role and the HyperPod cluster of a registered cluster.

        These ports have no roles: they serve every cluster that needs none, and raise Misconfigured for another.
        """
        if config.provider_role is not None:
            raise Misconfigured(f"no role can be assumed here: {config.provider_role.arn}")
        return self
