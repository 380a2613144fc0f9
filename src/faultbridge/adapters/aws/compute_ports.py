"""Build the adapters that reach the instances of a cluster, each on first use."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from faultbridge import ports
from faultbridge.adapters.extensions import Parts
from faultbridge.ports import Surroundings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from faultbridge.adapters.aws.clients import Clients
    from faultbridge.adapters.compute.hyperpod_cluster import HyperPodCluster
    from faultbridge.adapters.compute.request_log import RequestLog
    from faultbridge.domain.cluster.config import ProviderRole
    from faultbridge.ports import Clock, Collector, Launcher, ObjectStore, Provider, Restarter, Table, Verifier, Volumes
    from faultbridge.settings import Settings


class ComputePorts:
    """The adapters that reach the instances of a cluster; each adapter is built on first use.

    One object serves all clusters that are registered with the same AWS role and the same HyperPod cluster. Each of the
    two may be None.
    """

    def __init__(
        self,
        settings: Settings,
        clients: Clients | None = None,
        role: ProviderRole | None = None,
        hyperpod_cluster: str | None = None,
    ) -> None:
        """Store the settings, the AWS role for calls on instances, and the HyperPod cluster.

        - If `clients` is None, a `Clients` object is created on first use.
        - If `role` is None, the calls on instances use the credentials of Faultbridge's own account.
        - `hyperpod_cluster` is None for a cluster without HyperPod.
        """
        self.settings = settings
        self._clients, self._role, self._hyperpod_cluster = clients, role, hyperpod_cluster
        self._by_cluster: dict[tuple[ProviderRole | None, str | None], ComputePorts] = {}

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
        from faultbridge.adapters.compute.hyperpod_cluster import HyperPodCluster

        return HyperPodCluster(self.compute, self._hyperpod_cluster)

    @cached_property
    def _requests(self) -> RequestLog:
        from faultbridge.adapters.compute.request_log import RequestLog

        return RequestLog(self.table, self.clock)

    @property
    def surroundings(self) -> Surroundings:
        """Return what each extension receives when it is built: the clock, and the AWS role or None."""
        return Surroundings(self.clock, self._role)

    @cached_property
    def clock(self) -> Clock:
        """Return the system clock."""
        from faultbridge.adapters.clock import SystemClock

        return SystemClock(self.settings.clock_offset_seconds)

    @cached_property
    def table(self) -> Table:
        """Return the DynamoDB table in which Faultbridge stores all its items."""
        from faultbridge.adapters.dynamodb.table import DynamoTable

        return DynamoTable(self.clients, self.settings.table)

    @cached_property
    def objects(self) -> ObjectStore:
        """Return the store for raw records and evidence in an S3 bucket."""
        from faultbridge.adapters.objects.s3 import S3Objects
        from faultbridge.storage.wire.message import MAX_BODY_BYTES

        return S3Objects(self.clients, self.settings.bucket, max_bytes=MAX_BODY_BYTES)

    @cached_property
    def providers(self) -> Mapping[str, Provider]:
        """Return the adapters that replace instances, by the provider name in a cluster's registration."""
        from faultbridge.adapters.compute.auto_scaling import AutoScalingProvider
        from faultbridge.adapters.compute.hyperpod_provider import HyperPodProvider
        from faultbridge.adapters.compute.launch_template import LaunchTemplateProvider

        built_in: dict[str, Provider] = {
            "ec2-auto-scaling": AutoScalingProvider(self.compute),
            "ec2-launch-template": LaunchTemplateProvider(self.compute),
            "hyperpod": HyperPodProvider(self._hyperpod),
        }
        return Parts("providers", ports.Provider, built_in, self.surroundings)

    @cached_property
    def launchers(self) -> Mapping[str, Launcher]:
        """Return the launchers by provider name.

        A launcher starts the successor of an instance, for providers whose groups do not launch successors themselves.
        """
        from faultbridge.adapters.compute.ec2_fleet import FleetLauncher

        built_in: dict[str, Launcher] = {"ec2-launch-template": FleetLauncher(self.compute, self.settings.repair_tag)}
        return Parts("launchers", ports.Launcher, built_in, self.surroundings)

    @cached_property
    def restarters(self) -> Mapping[str, Restarter]:
        """Return the adapters that reset GPUs and reboot nodes, by the restarter name of a registered cluster."""
        from faultbridge.adapters.compute.hyperpod_restart import HyperPodRestarter
        from faultbridge.adapters.compute.ssm_restart import SsmRestarter

        hyperpod = HyperPodRestarter(self._hyperpod, self._requests)
        built_in: dict[str, Restarter] = {"ssm": SsmRestarter(self.compute), "hyperpod": hyperpod}
        return Parts("restarters", ports.Restarter, built_in, self.surroundings)

    @cached_property
    def volumes(self) -> Mapping[str, Volumes]:
        """Return the adapters that move volumes between instances, by provider name."""
        from faultbridge.adapters.volumes.ec2_volumes import Ec2Volumes
        from faultbridge.adapters.volumes.hyperpod_volumes import HyperPodVolumes

        built_in: dict[str, Volumes] = {
            "ec2-auto-scaling": Ec2Volumes(self.compute, of_groups=True),
            "ec2-launch-template": Ec2Volumes(self.compute),
            "hyperpod": HyperPodVolumes(self.compute, self._hyperpod),
        }
        return Parts("volumes", ports.Volumes, built_in, self.surroundings)

    @cached_property
    def collector(self) -> Collector:
        """Return the adapter that collects the log bundles of instances.

        For a HyperPod cluster, the adapter collects nothing and reports where HyperPod keeps the logs.
        """
        if self._hyperpod_cluster:
            from faultbridge.adapters.compute.hyperpod_logs import HyperPodLogs

            return HyperPodLogs()
        from faultbridge.adapters.compute.log_bundle import SsmLogCollector

        return SsmLogCollector(self.compute, self.clients, self.settings.bucket)

    @cached_property
    def verifiers(self) -> Mapping[str, Verifier]:
        """Return the adapters that run diagnostics on instances, by the verifier name of a registered cluster."""
        from faultbridge.adapters.compute.dcgm_verifier import OutputBucket, SsmDcgmVerifier
        from faultbridge.adapters.compute.hyperpod_verifier import HyperPodVerifier
        from faultbridge.adapters.verification.ec2_peers import Ec2Peers
        from faultbridge.adapters.verification.pair_verifier import SsmPairVerifier
        from faultbridge.adapters.verification.peer_leases import PeerLeases
        from faultbridge.decoders.dcgm.diag import read_report
        from faultbridge.decoders.verification.deep_checks import DeepChecks
        from faultbridge.decoders.verification.gpu_processes import GpuProcesses
        from faultbridge.decoders.verification.peer_checks import PeerChecks
        from faultbridge.registry.verification.peers import VerificationPeers

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
        return Parts("verifiers", ports.Verifier, built_in, self.surroundings)
