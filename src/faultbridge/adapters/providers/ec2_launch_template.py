"""Replacement of instances that stand alone, launched from an EC2 launch template: no group has them."""

from __future__ import annotations

from datetime import datetime

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from faultbridge.adapters.aws_errors import translate, translated
from faultbridge.adapters.clients import Clients
from faultbridge.adapters.providers.failures import failure_of
from faultbridge.adapters.providers.instances import age_of, candidate_of, living, presence_of
from faultbridge.ports import Answer, Candidate, Capacity, Evidence, Presence, ProviderFailure

GROUP_TAG = "faultbridge:group"


class LaunchTemplateProvider:
    """A Provider for nodes whose group is a launch template; their successors are launched by a Launcher."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def replace(self, instance_id: str, token: str) -> Answer:  # noqa: ARG002 - the call itself can hit only once
        """Terminate the instance; one that is gone already is done.

        The call is never repeated by the client: what became of one that was lost is for a probe to find out.
        """
        return terminated(self._clients, instance_id)

    def probe(self, instance_id: str) -> Presence:
        """Tell whether the instance is there; one that is shutting down is gone, a stopped one is not."""
        return presence_of(self._clients, instance_id)

    def capacity(self, instance_id: str, group: str) -> Capacity:  # noqa: ARG002 - a launch finds it out
        """Tell that nothing is given up before its successor runs."""
        return Capacity(Evidence.LAUNCH_FIRST)

    def candidates(self, group: str, launched_after: datetime) -> tuple[Candidate, ...]:
        """List the running instances that Faultbridge launched from the template since an instant, oldest first.

        A template that nothing was launched from has none; whether it is there, a launch finds out.
        """
        earliest = launched_after.replace(microsecond=0)
        with translated(f"looking for instances of {group}"):
            found = map(candidate_of, living(self._clients, {f"tag:{GROUP_TAG}": group}))
            young = [one for one in found if one.running and one.launched_at >= earliest]
        return tuple(sorted(young, key=age_of))


def terminated(clients: Clients, instance_id: str) -> Answer:
    """Terminate an instance, by one call; one that is gone already is done."""
    try:
        clients.ec2_once.terminate_instances(InstanceIds=[instance_id])
    except (ClientError, BotoCoreError, ResponseParserError) as error:
        failure = failure_of(error)
        if failure is ProviderFailure.NOT_FOUND:
            return Answer(reason="the instance is gone already")
        return Answer(failure, str(translate(error, f"terminating {instance_id}")))
    return Answer(operation=f"terminate-{instance_id}")
