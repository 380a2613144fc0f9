"""Build every adapter of one deployment, each on first use."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from faultbridge.adapters.extensions import Parts
from faultbridge.model.cluster.config import KARPENTER, PARALLEL_CLUSTER, PCS, SLURM
from faultbridge.model.errors import Misconfigured
from faultbridge.record.ports.installation import ComputePorts, Ports
from faultbridge.record.ports.table import Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from faultbridge.adapters.aws.clients import Clients
    from faultbridge.adapters.aws.stack import StackSecret
    from faultbridge.adapters.ec2.request_log import RequestLog
    from faultbridge.adapters.hyperpod.cluster import HyperPodCluster
    from faultbridge.adapters.slurm.access import SlurmOperations
    from faultbridge.adapters.slurm.fleets import SlurmRecords
    from faultbridge.model.cluster.config import ClusterConfig, ProviderRole
    from faultbridge.model.settings import Settings
    from faultbridge.record.ports.callbacks import JobCallback
    from faultbridge.record.ports.compute import Collector, Launcher, Provider, Restarter, Verifier
    from faultbridge.record.ports.inventory import Inventory, NodeListing
    from faultbridge.record.ports.messaging import EventBus, Pager, RecordQueue, Workflow
    from faultbridge.record.ports.objects import Archive, ArchiveSink, ObjectStore, Vault
    from faultbridge.record.ports.orchestrator import Orchestrator, VolumeAttachments, Volumes
    from faultbridge.record.ports.table import Clock, Table


Port = TypeVar("Port")


def at_first_use(build: Callable[[Any], Port]) -> Port:
    """Return a property that builds an adapter at its first use; for the type checker, it is the field itself."""
    return cast("Port", cached_property(build))


class AwsComputePorts(ComputePorts):
    """The adapters that reach the instances of a cluster; each adapter is built on first use.

    One object serves all clusters that are registered with the same AWS role, and the same HyperPod cluster, EKS
    cluster of Karpenter or Slurm of ParallelCluster. Each of them may be None.
    """

    def __init__(
        self,
        settings: Settings,
        clients: Clients | None = None,
        role: ProviderRole | None = None,
        hyperpod_cluster: str | None = None,
        karpenter_cluster: str | None = None,
        slurm: ClusterConfig | None = None,
    ) -> None:
        """Store the settings, the AWS role for calls on instances, and the HyperPod or Karpenter cluster.

        - If `clients` is None, a `Clients` object is created on first use.
        - If `role` is None, the calls on instances use the credentials of Faultbridge's own account.
        - `hyperpod_cluster` is None for a cluster without HyperPod.
        - `karpenter_cluster` is the EKS cluster of a cluster with Karpenter, else None.
        - `slurm` is the registration of a cluster of ParallelCluster, else None.
        """
        self.settings = settings
        self._clients, self._role, self._hyperpod_cluster = clients, role, hyperpod_cluster
        self._karpenter_cluster, self._slurm = karpenter_cluster, slurm
        self._by_cluster: dict[tuple[object, ...], AwsComputePorts] = {}

    @cached_property
    def clients(self) -> Clients:
        """Return the AWS clients; each is created on first use."""
        from faultbridge.adapters.aws.clients import Clients

        return self._clients or Clients()

    @property
    def compute(self) -> Clients:
        """Return the AWS clients for calls on instances.

        The clients use the credentials of the role that is registered for the cluster. If no role is registered, the
        clients use the credentials of Faultbridge's own account.
        """
        return self.clients.for_role(self._role)

    @cached_property
    def _hyperpod(self) -> HyperPodCluster:
        from faultbridge.adapters.hyperpod.cluster import HyperPodCluster

        return HyperPodCluster(self.compute, self._hyperpod_cluster)

    @cached_property
    def _requests(self) -> RequestLog:
        from faultbridge.adapters.ec2.request_log import RequestLog

        return RequestLog(self.table, self.clock)

    @cached_property
    def _slurm_records(self) -> SlurmRecords:
        from faultbridge.adapters.slurm.fleets import SlurmRecords

        return SlurmRecords(self.compute, self._connect_slurm)

    def _connect_slurm(self) -> SlurmOperations:
        if self._slurm is None:
            raise Misconfigured(f"no registration of a cluster with provider {PARALLEL_CLUSTER} was given")
        return self.slurm_operations(self._slurm)

    def _document(self, secret: str) -> bytes:
        """Return the JSON document of a secret, or an empty one if the settings name no secret."""
        from faultbridge.adapters.aws.stack import StackSecret

        return StackSecret(self.clients, secret).value if secret else b"{}"

    @cached_property
    def slurm_operations(self) -> Callable[[ClusterConfig], SlurmOperations]:
        """Return the function that returns the Slurm operations of a cluster."""
        from faultbridge.adapters.slurm.access import connections

        tokens = self.settings.slurm_tokens
        return connections(self.clients, lambda: self._document(tokens))

    @property
    def surroundings(self) -> Surroundings:
        """Return what each extension receives when it is built: the clock, and the AWS role or None."""
        return Surroundings(self.clock, self._role)

    @at_first_use
    def clock(self) -> Clock:
        """Return the system clock."""
        from faultbridge.adapters.clock import SystemClock

        return SystemClock(self.settings.clock_offset_seconds)

    @at_first_use
    def table(self) -> Table:
        """Return the DynamoDB table in which Faultbridge stores all its items."""
        from faultbridge.adapters.aws.dynamodb import DynamoTable

        return DynamoTable(self.clients, self.settings.table)

    @at_first_use
    def objects(self) -> ObjectStore:
        """Return the store for raw records and evidence in an S3 bucket."""
        from faultbridge.adapters.aws.objects import S3Objects
        from faultbridge.model.storage.wire.message import MAX_BODY_BYTES

        return S3Objects(self.clients, self.settings.bucket, max_bytes=MAX_BODY_BYTES)

    @at_first_use
    def providers(self) -> Mapping[str, Provider]:
        """Return the adapters that replace instances, by the provider name in a cluster's registration."""
        from faultbridge.adapters.ec2.auto_scaling import AutoScalingProvider
        from faultbridge.adapters.ec2.launch import LaunchTemplateProvider
        from faultbridge.adapters.hyperpod.provider import HyperPodProvider
        from faultbridge.adapters.kubernetes.karpenter import KarpenterProvider
        from faultbridge.adapters.slurm.fleets import ParallelClusterProvider, PcsProvider
        from faultbridge.record.ports.compute import Provider

        built_in: dict[str, Provider] = {
            "ec2-auto-scaling": AutoScalingProvider(self.compute),
            "ec2-launch-template": LaunchTemplateProvider(self.compute),
            "hyperpod": HyperPodProvider(self._hyperpod),
            KARPENTER: KarpenterProvider(self.compute, self._karpenter_cluster, self.clock.now),
            PARALLEL_CLUSTER: ParallelClusterProvider(self.compute, self._slurm_records),
            PCS: PcsProvider(self.compute),
        }
        return Parts("providers", Provider, built_in, self.surroundings)

    @at_first_use
    def launchers(self) -> Mapping[str, Launcher]:
        """Return the launchers by provider name.

        A launcher starts the successor of an instance, for providers whose groups do not launch successors themselves.
        """
        from faultbridge.adapters.ec2.launch import FleetLauncher
        from faultbridge.record.ports.compute import Launcher

        built_in: dict[str, Launcher] = {"ec2-launch-template": FleetLauncher(self.compute, self.settings.repair_tag)}
        return Parts("launchers", Launcher, built_in, self.surroundings)

    @at_first_use
    def restarters(self) -> Mapping[str, Restarter]:
        """Return the adapters that reset GPUs and reboot nodes, by the restarter name of a registered cluster."""
        from faultbridge.adapters.ec2.restart import SsmRestarter
        from faultbridge.adapters.hyperpod.provider import HyperPodRestarter
        from faultbridge.adapters.slurm.fleets import SlurmRestarter
        from faultbridge.record.ports.compute import Restarter

        hyperpod, ssm = HyperPodRestarter(self._hyperpod, self._requests), SsmRestarter(self.compute)
        slurm = SlurmRestarter(self._slurm_records, self._requests, ssm)
        built_in: dict[str, Restarter] = {"ssm": ssm, "hyperpod": hyperpod, SLURM: slurm}
        return Parts("restarters", Restarter, built_in, self.surroundings)

    @at_first_use
    def volumes(self) -> Mapping[str, Volumes]:
        """Return the adapters that move volumes between instances, by provider name."""
        from faultbridge.adapters.ec2.volumes import Ec2Volumes
        from faultbridge.adapters.hyperpod.volumes import HyperPodVolumes
        from faultbridge.record.ports.orchestrator import Volumes

        built_in: dict[str, Volumes] = {
            "ec2-auto-scaling": Ec2Volumes(self.compute, of_groups=True),
            "ec2-launch-template": Ec2Volumes(self.compute),
            "hyperpod": HyperPodVolumes(self.compute, self._hyperpod),
        }
        return Parts("volumes", Volumes, built_in, self.surroundings)

    @at_first_use
    def collector(self) -> Collector:
        """Return the adapter that collects the log bundles of instances.

        For a HyperPod cluster, the adapter collects nothing and reports where HyperPod keeps the logs.
        """
        if self._hyperpod_cluster:
            from faultbridge.adapters.hyperpod.cluster import HyperPodLogs

            return HyperPodLogs()
        from faultbridge.adapters.ec2.log_bundle import SsmLogCollector

        return SsmLogCollector(self.compute, self.clients, self.settings.bucket)

    @at_first_use
    def verifiers(self) -> Mapping[str, Verifier]:
        """Return the adapters that run diagnostics on instances, by the verifier name of a registered cluster."""
        from faultbridge.adapters.ec2.dcgm_verifier import OutputBucket, SsmDcgmVerifier
        from faultbridge.adapters.ec2.pair_verifier import Ec2Peers, PeerLeases, SsmPairVerifier
        from faultbridge.adapters.hyperpod.provider import HyperPodVerifier
        from faultbridge.decode.dcgm.diag import read_report
        from faultbridge.decode.verification import DeepChecks, GpuProcesses, PeerChecks
        from faultbridge.record.ports.compute import Verifier
        from faultbridge.repair.registry.verification import VerificationPeers

        settings = self.settings
        output = OutputBucket(settings.bucket, settings.output_prefix, self.objects)
        verifier = partial(
            SsmDcgmVerifier,
            self.compute,
            level=settings.verify_level,
            timeout_seconds=settings.verify_seconds,
            read_report=read_report,
            output=output,
            processes=(processes := GpuProcesses(settings.ignore_processes)),
        )
        deep, hyperpod = verifier(deep=DeepChecks()), HyperPodVerifier(self._hyperpod, self._requests)
        pair = SsmPairVerifier(
            self.compute,
            deep=deep,
            level=settings.verify_level,
            tests=PeerChecks(processes),
            peers=Ec2Peers(self.compute, VerificationPeers(self.table, self.clock), settings.repair_tag),
            leases=PeerLeases(self.table, self.clock),
        )
        built_in: dict[str, Verifier] = {
            "ssm-dcgm": verifier(),
            "ssm-deep": deep,
            "ssm-pair": pair,
            "hyperpod": hyperpod,
        }
        return Parts("verifiers", Verifier, built_in, self.surroundings)


class AwsPorts(AwsComputePorts, Ports):
    """All adapters of one deployment; each adapter is imported and built on first use."""

    def for_cluster(self, config: ClusterConfig) -> AwsComputePorts:
        """Return the adapters for a cluster, built with its registered AWS role and HyperPod or EKS cluster.

        Calls on instances use the credentials of the role. All other calls use the credentials of Faultbridge's own
        account.
        """
        karpenter_cluster = config.eks_cluster if config.provider == KARPENTER else None
        slurm = config if config.provider == PARALLEL_CLUSTER else None
        access = config.provider_role, config.hyperpod_cluster, karpenter_cluster
        key = (*access, slurm and (slurm.slurm_head_node, slurm.slurm_rest))
        if key not in self._by_cluster:
            self._by_cluster[key] = AwsComputePorts(self.settings, self.clients, *access, slurm)
        return self._by_cluster[key]

    @at_first_use
    def bus(self) -> EventBus:
        """Return the event bus on EventBridge."""
        from faultbridge.adapters.aws.messaging import EventBridgeBus

        return EventBridgeBus(self.clients, self.settings.bus, self.settings.event_source)

    @at_first_use
    def queue(self) -> RecordQueue:
        """Return the queue of raw records on SQS."""
        from faultbridge.adapters.aws.messaging import SqsQueue

        return SqsQueue(self.clients, self.settings.queue_url)

    @at_first_use
    def inventories(self) -> Mapping[str, Inventory]:
        """Return the adapters that list the instances of a cluster's groups, by provider name."""
        from faultbridge.adapters.ec2.inventory import Ec2Inventory
        from faultbridge.adapters.hyperpod.inventory import HyperPodInventory
        from faultbridge.adapters.kubernetes.karpenter import KarpenterInventory
        from faultbridge.adapters.slurm.fleets import TaggedInventory
        from faultbridge.record.ports.inventory import Inventory

        hyperpod = HyperPodInventory(self.clients)
        built_in: dict[str, Inventory] = {
            "ec2-auto-scaling": Ec2Inventory(self.clients),
            "hyperpod": hyperpod,
            KARPENTER: KarpenterInventory(self.clients),
            PARALLEL_CLUSTER: (tagged := TaggedInventory(self.clients)),
            PCS: tagged,
        }
        return Parts("inventories", Inventory, built_in, self.surroundings)

    @at_first_use
    def node_listing(self) -> NodeListing:
        """Return the adapter that lists the nodes of EKS clusters."""
        from faultbridge.adapters.kubernetes.orchestrator import EksNodeListing

        return EksNodeListing(self.clients)

    def webhook_senders(self) -> bytes:
        """Return the document of the allowed webhook senders, read again at each call."""
        return self._document(self.settings.webhook_senders)

    def chat_webhooks(self) -> bytes:
        """Return the document with the webhook addresses of chats, read again at each call."""
        return self._document(self.settings.chat_webhooks)

    def on_call(self) -> bytes:
        """Return the document of the people who give orders in Slack and PagerDuty, read again at each call."""
        return self._document(self.settings.on_call)

    @at_first_use
    def job_callbacks(self) -> Mapping[str, JobCallback]:
        """Return the callbacks, by the callback name in a cluster's registration.

        A callback notifies a system of the customer, such as a scheduler, that a job may resume.
        """
        from faultbridge.adapters.callbacks import JobTopic, JobWebhook, SlurmRequeue
        from faultbridge.adapters.slurm.access import connect

        secret = self.settings.job_callbacks
        webhook = JobWebhook(lambda: self._document(secret), self.clock)
        return {
            "webhook": webhook,
            "sns": JobTopic(self.clients, self.settings.job_topic),
            "slurm-requeue": SlurmRequeue(connect(self.clients)),
            **self.checkpoint_callbacks,
        }

    @at_first_use
    def checkpoint_callbacks(self) -> Mapping[str, JobCallback]:
        """Return the callbacks that carry requests for checkpoints."""
        from faultbridge.adapters.callbacks import JobAnnotation, SlurmSignal

        return {
            "slurm-signal": SlurmSignal(self.slurm_operations),
            "kubernetes-annotation": JobAnnotation(self.clients),
        }

    @at_first_use
    def workflow(self) -> Workflow:
        """Return the Step Functions state machine that runs repair attempts."""
        from faultbridge.adapters.aws.step_functions import StepFunctionsWorkflow

        return StepFunctionsWorkflow(self.clients, self.settings.state_machine)

    @at_first_use
    def pager(self) -> Pager:
        """Return the pager, which sends each page through every configured channel."""
        from faultbridge.adapters.paging import pager_from_settings

        return pager_from_settings(self.settings, self.clients)

    @at_first_use
    def orchestrators(self) -> Mapping[str, Orchestrator]:
        """Return the adapters that cordon and drain nodes, by the orchestrator name of a registered cluster."""
        from faultbridge.adapters.kubernetes.orchestrator import EksOrchestrator, NoOrchestrator
        from faultbridge.adapters.slurm.orchestrator import SlurmOrchestrator
        from faultbridge.record.ports.orchestrator import Orchestrator

        slurm = SlurmOrchestrator(self.slurm_operations, self.clock)
        eks = EksOrchestrator(self.clients, self.clock)
        built_in: dict[str, Orchestrator] = {"none": NoOrchestrator(), "eks": eks, "slurm": slurm}
        return Parts("orchestrators", Orchestrator, built_in, self.surroundings)

    @at_first_use
    def volume_attachments(self) -> Mapping[str, VolumeAttachments]:
        """Return the adapters that list the volumes still attached to a node, by orchestrator name.

        A volume is still attached if the storage driver of the cluster has not detached it.
        """
        from faultbridge.adapters.kubernetes.orchestrator import EksVolumeAttachments

        return {"eks": EksVolumeAttachments(self.clients)}

    @at_first_use
    def archive(self) -> Archive:
        """Return the archive, which stores entries in an S3 bucket."""
        from faultbridge.adapters.aws.objects import S3Objects

        return S3Objects(self.clients, self.settings.archive_bucket)

    @at_first_use
    def vault(self) -> Vault:
        """Return the vault, an S3 bucket under Object Lock that stores anchors and sealed manifests.

        An anchor records where each stream of entries ends.
        """
        from faultbridge.adapters.aws.objects import LockedObjects

        return LockedObjects(self.clients, self.settings.vault_bucket)

    @at_first_use
    def sink(self) -> ArchiveSink:
        """Return the adapter that delivers entries to the archive.

        The adapter uses Firehose if the settings name a delivery stream, else S3.
        """
        stream = self.settings.archive_stream
        if not stream:
            from faultbridge.record.archive.write import ObjectSink

            return ObjectSink(self.archive)
        from faultbridge.adapters.aws.firehose import FirehoseArchiveSink

        return FirehoseArchiveSink(self.clients, stream)

    @cached_property
    def _token_secret(self) -> StackSecret:
        from faultbridge.adapters.aws.stack import StackSecret

        return StackSecret(self.clients, self.settings.token_secret)

    def token_secret(self) -> bytes:
        """Return the secret key for the page tokens of the HTTP API, read once by a process."""
        return self._token_secret.value
