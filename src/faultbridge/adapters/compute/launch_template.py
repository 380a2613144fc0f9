"""Replace instances that were launched from an EC2 launch template and are in no Auto Scaling group."""

from __future__ import annotations

from datetime import datetime

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translate
from faultbridge.adapters.capacity.ec2_capacity import Ec2Capacity
from faultbridge.adapters.compute.failures import failure_of
from faultbridge.adapters.compute.instance_checks import checks_of
from faultbridge.adapters.compute.instances import presence_of
from faultbridge.domain.cluster.capacity_sources import CapacitySource
from faultbridge.ports import (
    CallResult,
    Capacity,
    CapacityEvidence,
    InstanceChecks,
    LaunchedInstance,
    Presence,
)

GROUP_TAG = "faultbridge:group"


class LaunchTemplateProvider:
    """A Provider for nodes whose group is an EC2 launch template.

    A Launcher launches the successors of these nodes.
    """

    def __init__(self, clients: Clients) -> None:
        self._clients, self._capacity = clients, Ec2Capacity(clients, frees_slot=False)

    def replace(self, instance_id: str, token: str) -> CallResult:  # noqa: ARG002 - the call names one instance, so it needs no token
        """Terminate the instance; returns NOT_FOUND if EC2 has no record of it.

        The client never retries the call. After a lost response, `probe` determines whether the instance was
        terminated.
        """
        return terminate_instance(self._clients, instance_id)

    def probe(self, instance_id: str) -> Presence:
        """Return whether the instance exists, as ALIVE, GONE, UNLISTED or UNKNOWN.

        GONE includes a terminating instance, and ALIVE includes a stopped instance. UNKNOWN means that the call to EC2
        failed temporarily.
        """
        return presence_of(self._clients, instance_id)

    def checks(self, instance_id: str) -> InstanceChecks:
        """Return the EC2 status checks of the instance, and whether its SSM agent is connected."""
        return checks_of(self._clients, instance_id)

    def capacity(self, source: CapacitySource, instance_id: str, group: str) -> Capacity:  # noqa: ARG002 - a template has no capacity data
        """Return the capacity that a source, such as a reservation, has for the successor of an instance.

        For on-demand capacity, the evidence is `LAUNCH_FIRST`, without a call to EC2, because the successor starts
        before the old instance is released.
        """
        if source is CapacitySource.ON_DEMAND:
            return Capacity(CapacityEvidence.LAUNCH_FIRST, reason="the successor starts before the release")
        return self._capacity.ask(source, instance_id)

    def candidates(self, group: str, launched_after: datetime) -> tuple[LaunchedInstance, ...]:  # noqa: ARG002 - a template launches nothing by itself
        """Return no instances: an instance from the template `group` is not necessarily a successor.

        The instance may belong to any case, cluster or stack. `FleetLauncher.launched` returns the instances that were
        launched for one case.
        """
        return ()


def terminate_instance(clients: Clients, instance_id: str) -> CallResult:
    """Terminate an instance with one call, which the client never retries.

    The call succeeds if the instance was terminated before. The result is NOT_FOUND if EC2 has no record of it.
    """
    try:
        clients.ec2_no_retry.terminate_instances(InstanceIds=[instance_id])
    except (ClientError, BotoCoreError, ResponseParserError) as error:
        return CallResult(failure_of(error), str(translate(error, f"terminating {instance_id}")))
    return CallResult(operation=f"terminate-{instance_id}")
