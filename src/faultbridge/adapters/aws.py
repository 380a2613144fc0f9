"""Every port, fulfilled on AWS or on whatever the endpoint variables point at."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from faultbridge.adapters.clients import Clients
    from faultbridge.domain.clusters import ProviderRole
    from faultbridge.ports import (
        Clock,
        Collector,
        EventBus,
        Launcher,
        ObjectStore,
        Orchestrator,
        Pager,
        Provider,
        RecordQueue,
        Restarter,
        Table,
        Verifier,
        Workflow,
    )
    from faultbridge.registry.instances import Inventory, Roll
    from faultbridge.settings import Settings


class AwsPorts:
    """Every port of one deployment; an adapter is imported and made when it is first asked for."""

    def __init__(self, settings: Settings, clients: Clients | None = None, role: ProviderRole | None = None) -> None:
        """Take the settings of a deployment, clients other than the environment's, and as whom machines are reached."""
        self.settings = settings
        self._clients, self._role = clients, role
        self._elsewhere: dict[ProviderRole, AwsPorts] = {}

    @cached_property
    def clients(self) -> Clients:
        """Make boto3 clients, each when it is first used."""
        from faultbridge.adapters.clients import Clients

        return self._clients or Clients()

    @property
    def compute(self) -> Clients:
        """Make the clients that act on machines, as the role of another account where that has them."""
        return self.clients.assuming(self._role) if self._role else self.clients

    def elsewhere(self, role: ProviderRole) -> AwsPorts:
        """Reach the machines of another account; everything else stays in ours."""
        if role not in self._elsewhere:
            self._elsewhere[role] = AwsPorts(self.settings, self.clients, role)
        return self._elsewhere[role]

    @cached_property
    def clock(self) -> Clock:
        """Tell the time."""
        from faultbridge.adapters.clock import SystemClock

        return SystemClock(self.settings.clock_offset_seconds)

    @cached_property
    def table(self) -> Table:
        """Reach the one table."""
        from faultbridge.adapters.dynamodb import DynamoTable

        return DynamoTable(self.clients, self.settings.table)

    @cached_property
    def bus(self) -> EventBus:
        """Reach the bus."""
        from faultbridge.adapters.eventbridge import EventBridgeBus

        return EventBridgeBus(self.clients, self.settings.bus, self.settings.event_source)

    @cached_property
    def queue(self) -> RecordQueue:
        """Reach the queue of raw records."""
        from faultbridge.adapters.sqs import SqsQueue

        return SqsQueue(self.clients, self.settings.queue_url)

    @cached_property
    def objects(self) -> ObjectStore:
        """Reach the bucket of raw records and evidence."""
        from faultbridge.adapters.s3 import S3Objects
        from faultbridge.storage.wire.message import MAX_BODY_BYTES

        return S3Objects(self.clients, self.settings.bucket, most_bytes=MAX_BODY_BYTES)

    @cached_property
    def inventories(self) -> Mapping[str, Inventory]:
        """Reach what lists machines, by the name of the provider."""
        from faultbridge.adapters.inventory_ec2 import Ec2Inventory
        from faultbridge.adapters.inventory_hyperpod import HyperPodInventory

        return {"ec2-auto-scaling": Ec2Inventory(self.clients), "hyperpod": HyperPodInventory(self.clients)}

    @cached_property
    def roll(self) -> Roll:
        """Reach what lists the nodes of an EKS cluster."""
        from faultbridge.adapters.kubernetes.nodes import EksRoll

        return EksRoll(self.clients)

    @cached_property
    def webhook_senders(self) -> Callable[[], bytes]:
        """Read who may post; nobody may where no secret is named."""
        from faultbridge.adapters.secrets import StackSecret

        name = self.settings.webhook_senders
        return lambda: StackSecret(self.clients, name).value if name else b"{}"

    @cached_property
    def workflow(self) -> Workflow:
        """Reach the state machine."""
        from faultbridge.adapters.step_functions import StepFunctionsWorkflow

        return StepFunctionsWorkflow(self.clients, self.settings.state_machine)

    @cached_property
    def pager(self) -> Pager:
        """Reach people, in every way that the deployment names."""
        from faultbridge.adapters.pagers import pager_of

        return pager_of(self.settings, self.clients)

    @cached_property
    def providers(self) -> Mapping[str, Provider]:
        """Reach what replaces instances, by the name that a cluster's registration gives."""
        from faultbridge.adapters.providers.ec2_auto_scaling import AutoScalingProvider
        from faultbridge.adapters.providers.ec2_launch_template import LaunchTemplateProvider

        return {
            "ec2-auto-scaling": AutoScalingProvider(self.compute),
            "ec2-launch-template": LaunchTemplateProvider(self.compute),
        }

    @cached_property
    def launchers(self) -> Mapping[str, Launcher]:
        """Reach what launches successors, by the name of a provider whose groups do not launch any."""
        from faultbridge.adapters.launchers.ec2_fleet import FleetLauncher

        return {"ec2-launch-template": FleetLauncher(self.compute, self.settings.repair_tag)}

    @cached_property
    def restarters(self) -> Mapping[str, Restarter]:
        """Reach what mends instances in place, by name."""
        from faultbridge.adapters.restarters.ssm import SsmRestarter

        return {"ssm": SsmRestarter(self.compute)}

    @cached_property
    def collector(self) -> Collector:
        """Reach what keeps the evidence of an instance."""
        from faultbridge.adapters.collectors.ssm import SsmCollector

        return SsmCollector(self.clients, self.settings.bucket)

    @cached_property
    def orchestrators(self) -> Mapping[str, Orchestrator]:
        """Reach what cordons and drains, by name."""
        from faultbridge.adapters.orchestrators.eks import EksOrchestrator
        from faultbridge.adapters.orchestrators.none import NoOrchestrator

        return {"none": NoOrchestrator(), "eks": EksOrchestrator(self.clients, self.clock)}

    @cached_property
    def verifiers(self) -> Mapping[str, Verifier]:
        """Reach what proves a node good, by name."""
        from faultbridge.adapters.verifiers.ssm_dcgm import Output, SsmDcgmVerifier
        from faultbridge.decoders.dcgm_diag import read_report

        settings = self.settings
        output = Output(settings.bucket, settings.output_prefix, self.objects)
        verifier = SsmDcgmVerifier(
            self.compute,
            level=settings.verify_level,
            timeout_seconds=settings.verify_seconds,
            read_report=read_report,
            output=output,
        )
        return {"ssm-dcgm": verifier}
