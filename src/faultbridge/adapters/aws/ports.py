"""Build every adapter of one deployment, each on first use."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from faultbridge import ports
from faultbridge.adapters.aws.compute_ports import ComputePorts
from faultbridge.adapters.extensions import Parts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from faultbridge.domain.cluster.config import ClusterConfig
    from faultbridge.ports import EventBus, JobCallback, Orchestrator, Pager, RecordQueue, VolumeAttachments, Workflow
    from faultbridge.ports.objects import Archive, ArchiveSink, Vault
    from faultbridge.registry.instances import Inventory, NodeListing


class AwsPorts(ComputePorts):
    """All adapters of one deployment; each adapter is imported and built on first use."""

    def for_cluster(self, config: ClusterConfig) -> ComputePorts:
        """Return the adapters for a cluster, built with its registered AWS role and HyperPod cluster.

        Calls on instances use the credentials of the role. All other calls use the credentials of Faultbridge's own
        account.
        """
        access = config.provider_role, config.hyperpod_cluster
        if access not in self._by_cluster:
            self._by_cluster[access] = ComputePorts(self.settings, self.clients, *access)
        return self._by_cluster[access]

    @cached_property
    def bus(self) -> EventBus:
        """Return the event bus on EventBridge."""
        from faultbridge.adapters.messaging.eventbridge import EventBridgeBus

        return EventBridgeBus(self.clients, self.settings.bus, self.settings.event_source)

    @cached_property
    def queue(self) -> RecordQueue:
        """Return the queue of raw records on SQS."""
        from faultbridge.adapters.messaging.sqs import SqsQueue

        return SqsQueue(self.clients, self.settings.queue_url)

    @cached_property
    def inventories(self) -> Mapping[str, Inventory]:
        """Return the adapters that list the instances of a cluster's groups, by provider name."""
        from faultbridge.adapters.compute.ec2_inventory import Ec2Inventory
        from faultbridge.adapters.compute.hyperpod_inventory import HyperPodInventory
        from faultbridge.registry import instances

        hyperpod = HyperPodInventory(self.clients)
        built_in: dict[str, Inventory] = {"ec2-auto-scaling": Ec2Inventory(self.clients), "hyperpod": hyperpod}
        return Parts("inventories", instances.Inventory, built_in, self.surroundings)

    @cached_property
    def node_listing(self) -> NodeListing:
        """Return the adapter that lists the nodes of EKS clusters."""
        from faultbridge.adapters.kubernetes.node_listing import EksNodeListing

        return EksNodeListing(self.clients)

    @cached_property
    def webhook_senders(self) -> Callable[[], bytes]:
        """Return a function that reads the allowed webhook senders from their secret.

        Each call of the function reads the secret again. If the settings name no secret, the function returns an empty
        JSON object, so no sender is allowed.
        """
        from faultbridge.adapters.aws.stack import StackSecret

        name = self.settings.webhook_senders
        return lambda: StackSecret(self.clients, name).value if name else b"{}"

    @cached_property
    def chat_webhooks(self) -> Callable[[], bytes]:
        """Return a function that reads the webhook addresses of chats from their secret.

        Each call of the function reads the secret again. If the settings name no secret, the function returns an empty
        JSON object, so no chat has an address.
        """
        from faultbridge.adapters.aws.stack import StackSecret

        name = self.settings.chat_webhooks
        return lambda: StackSecret(self.clients, name).value if name else b"{}"

    @cached_property
    def job_callbacks(self) -> Mapping[str, JobCallback]:
        """Return the callbacks, by the callback name in a cluster's registration.

        A callback notifies a system of the customer, such as a scheduler, that a job may resume.
        """
        from faultbridge.adapters.aws.stack import StackSecret
        from faultbridge.adapters.callbacks.job_annotation import JobAnnotation
        from faultbridge.adapters.callbacks.job_topic import JobTopic
        from faultbridge.adapters.callbacks.job_webhook import JobWebhook
        from faultbridge.adapters.callbacks.slurm_requeue import SlurmRequeue
        from faultbridge.adapters.slurm.head_node import connect

        name = self.settings.job_callbacks
        webhook = JobWebhook(lambda: StackSecret(self.clients, name).value if name else b"{}", self.clock)
        return {
            "webhook": webhook,
            "sns": JobTopic(self.clients, self.settings.job_topic),
            "slurm-requeue": SlurmRequeue(connect(self.clients)),
            "kubernetes-annotation": JobAnnotation(self.clients),
        }

    @cached_property
    def workflow(self) -> Workflow:
        """Return the Step Functions state machine that runs repair attempts."""
        from faultbridge.adapters.messaging.step_functions import StepFunctionsWorkflow

        return StepFunctionsWorkflow(self.clients, self.settings.state_machine)

    @cached_property
    def pager(self) -> Pager:
        """Return the pager, which sends each page through every configured channel."""
        from faultbridge.adapters.paging.channels import pager_from_settings

        return pager_from_settings(self.settings, self.clients)

    @cached_property
    def orchestrators(self) -> Mapping[str, Orchestrator]:
        """Return the adapters that cordon and drain nodes, by the orchestrator name of a registered cluster."""
        from faultbridge.adapters.aws.stack import StackSecret
        from faultbridge.adapters.kubernetes.orchestrator import EksOrchestrator, NoOrchestrator
        from faultbridge.adapters.slurm.access import connections
        from faultbridge.adapters.slurm.orchestrator import SlurmOrchestrator

        name = self.settings.slurm_tokens
        connect = connections(self.clients, lambda: StackSecret(self.clients, name).value if name else b"{}")
        slurm = SlurmOrchestrator(connect, self.clock)
        eks = EksOrchestrator(self.clients, self.clock)
        built_in: dict[str, Orchestrator] = {"none": NoOrchestrator(), "eks": eks, "slurm": slurm}
        return Parts("orchestrators", ports.Orchestrator, built_in, self.surroundings)

    @cached_property
    def volume_attachments(self) -> Mapping[str, VolumeAttachments]:
        """Return the adapters that list the volumes still attached to a node, by orchestrator name.

        A volume is still attached if the storage driver of the cluster has not detached it.
        """
        from faultbridge.adapters.kubernetes.volume_attachments import EksVolumeAttachments

        return {"eks": EksVolumeAttachments(self.clients)}

    @cached_property
    def archive(self) -> Archive:
        """Return the archive, which stores entries in an S3 bucket."""
        from faultbridge.adapters.objects.s3 import S3Objects

        return S3Objects(self.clients, self.settings.archive_bucket)

    @cached_property
    def vault(self) -> Vault:
        """Return the vault, an S3 bucket under Object Lock that stores anchors and sealed manifests.

        An anchor records where each stream of entries ends.
        """
        from faultbridge.adapters.objects.s3 import LockedObjects

        return LockedObjects(self.clients, self.settings.vault_bucket)

    @cached_property
    def sink(self) -> ArchiveSink:
        """Return the adapter that delivers entries to the archive.

        The adapter uses Firehose if the settings name a delivery stream, else S3.
        """
        stream = self.settings.archive_stream
        if not stream:
            from faultbridge.archive.write import ObjectSink

            return ObjectSink(self.archive)
        from faultbridge.adapters.objects.firehose import FirehoseArchiveSink

        return FirehoseArchiveSink(self.clients, stream)

    @cached_property
    def token_secret(self) -> Callable[[], bytes]:
        """Return a function that reads the secret key for the pagination tokens of the HTTP API."""
        from faultbridge.adapters.aws.stack import StackSecret

        return StackSecret(self.clients, self.settings.token_secret)
