"""The class `Installation`: the ports and settings of one deployment, from which its services are wired."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field

if TYPE_CHECKING:
    from faultbridge.adapters.aws.clients import Clients
    from faultbridge.decide.normalize.trust import Trust
    from faultbridge.model.settings import Settings
    from faultbridge.record.append import Append, Stack
    from faultbridge.record.cluster_reads import ClusterReads
    from faultbridge.record.ports.installation import Ports
    from faultbridge.record.rulebook import Rulebook

Service = TypeVar("Service")


class Timing(Struct, frozen=True):
    """The sleep function and the random number generator, replaceable in simulation and tests."""

    pause: Callable[[float], None] = time.sleep
    random: random.Random = field(default_factory=random.Random)


class Installation(Struct, frozen=True, dict=True):
    """One deployment of Faultbridge: its ports and settings, and the services that most other services share.

    `services` has the services that functions with `once` have built, by these functions.
    """

    ports: Ports
    settings: Settings
    timing: Timing = field(default_factory=Timing)
    services: dict[Callable[[Installation], Any], Any] = field(default_factory=dict)

    @cached_property
    def table(self) -> ClusterReads:
        """Return the DynamoDB table. While `ClusterReads.once` runs, services share reads of a cluster."""
        from faultbridge.record.cluster_reads import ClusterReads

        return ClusterReads(self.ports.table, self.ports.clock)

    @cached_property
    def stack(self) -> Stack:
        """Return the id and the name of this deployment (stack). Event ids are derived from the id."""
        from faultbridge.record.append import Stack

        return Stack(self.settings.stack_id, self.settings.stack)

    @cached_property
    def trust(self) -> Trust:
        """Return the rules that decide which sender may report about which node."""
        from faultbridge.decide.normalize.trust import Trust

        settings = self.settings
        return Trust(settings.sender_proof, settings.own_senders, settings.events_queue)

    @cached_property
    def append(self) -> Append:
        """Return the service that writes the states and timeline entries of nodes."""
        from faultbridge.record.append import Append

        return Append(self.table, self.ports.clock, self.stack, self.timing.pause, self.timing.random)

    @cached_property
    def rulebook(self) -> Rulebook:
        """Return the service that reads cluster registrations and policies."""
        from faultbridge.decode import data
        from faultbridge.decode.data.policies import default_policy
        from faultbridge.record.rulebook import Rulebook

        return Rulebook(self.table, self.stack.id, data.load_catalog, default_policy, data.gpus_by_instance_type)


def once(wire: Callable[[Installation], Service]) -> Callable[[Installation], Service]:
    """Make a wiring function build its service at the first call for an installation, and return it at each later."""

    @wraps(wire)
    def built(installation: Installation) -> Service:
        services = installation.services
        if built not in services:
            services[built] = wire(installation)
        service: Service = services[built]
        return service

    return built


def on_aws(settings: Settings, clients: Clients | None = None) -> Installation:
    """Build the installation that the settings describe, with adapters for AWS.

    `clients` are the AWS clients to use. With None, the adapters create clients with the credentials and the region of
    the process.
    """
    from faultbridge.adapters.aws.ports import AwsPorts

    return Installation(AwsPorts(settings, clients), settings)
