"""Launches by an EC2 fleet of type `instant`: one call, one instance, of the first type that there is capacity for.

A fleet's client token belongs to its whole request, and a repetition gives the first answer again, also where that was
that nothing was launched (what a token came to, it comes to for ever). The order of types is therefore the fleet's own
to keep: a second call for the second type could be one for a second instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from faultbridge.adapters.aws_errors import OUTAGES, THROTTLES, translate, translated
from faultbridge.adapters.clients import Clients
from faultbridge.adapters.providers.ec2_launch_template import GROUP_TAG, terminated
from faultbridge.adapters.providers.failures import FAILURES, failure_of
from faultbridge.adapters.providers.instances import age_of, candidate_of, living, presence_of
from faultbridge.ports import Answer, Candidate, Presence, ProviderFailure, Vacancy

STACK_TAG = "faultbridge:stack"
CLUSTER_TAG = "faultbridge:cluster"
CASE_TAG = "faultbridge:case"
MAX_WORDS = 500


class FleetLauncher:
    """A Launcher that marks what it launches: with the stack that may act on it, its cluster, group and case."""

    def __init__(self, clients: Clients, stack: str) -> None:
        self._clients, self._stack = clients, stack

    def launched(self, vacancy: Vacancy) -> tuple[Candidate, ...]:
        """List what lives and carries the tag of the case, or is its spare; not the one that is to be replaced."""
        with translated(f"looking for what was launched for {vacancy.case}"):
            named = {f"tag:{CASE_TAG}": vacancy.case, f"tag:{STACK_TAG}": self._stack}
            found = [candidate_of(one) for one in living(self._clients, named)]
            if vacancy.spare and vacancy.spare not in {one.instance_id for one in found}:
                found += map(candidate_of, living(self._clients, {"instance-id": vacancy.spare}))
        others = (one for one in found if one.instance_id != vacancy.instead_of)
        return tuple(sorted(others, key=age_of))

    def launch(self, vacancy: Vacancy) -> Answer:
        """Launch an instance; the client never repeats the call, and a repetition of ours has the same client token."""
        try:
            answer: Any = self._clients.ec2_once.create_fleet(
                **_request(vacancy, self._tags(vacancy), f"{self._stack}/{vacancy.token}")
            )
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            return Answer(failure_of(error), str(translate(error, f"launching from {vacancy.group}")))
        launched = [one for part in answer.get("Instances") or () for one in part["InstanceIds"]]
        if not launched:
            return _refused(answer.get("Errors") or ())
        return self._unless_gone(launched[0], answer)

    def mark(self, instance_id: str, case: str) -> Answer:
        """Write the case over the place of the pool that the machine was launched for."""
        try:
            self._clients.ec2.create_tags(Resources=[instance_id], Tags=[{"Key": CASE_TAG, "Value": case}])
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            return Answer(failure_of(error), str(translate(error, f"marking {instance_id}")))
        return Answer()

    def end(self, instance_id: str) -> Answer:
        """Terminate the instance; the call is never repeated by the client."""
        return terminated(self._clients, instance_id)

    def _unless_gone(self, instance_id: str, answer: Mapping[str, Any]) -> Answer:
        """Tell one that ended before it served from one that nobody has heard of yet."""
        operation = str(answer["FleetId"])
        with translated(f"looking for {instance_id}"):
            found = self._clients.ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": [instance_id]}])
        if found["Reservations"] and presence_of(self._clients, instance_id) is Presence.GONE:
            return Answer(ProviderFailure.CONFLICT, f"{instance_id} ended before it served", operation)
        return Answer(reason=f"{instance_id} was launched", operation=operation)

    def _tags(self, vacancy: Vacancy) -> dict[str, str]:
        return {
            STACK_TAG: self._stack,
            CLUSTER_TAG: vacancy.cluster.cluster,
            GROUP_TAG: vacancy.group,
            CASE_TAG: vacancy.case,
        }


def _request(vacancy: Vacancy, tags: Mapping[str, str], token: str) -> dict[str, Any]:
    name = "LaunchTemplateId" if vacancy.group.startswith("lt-") else "LaunchTemplateName"
    template: dict[str, Any] = {"LaunchTemplateSpecification": {name: vacancy.group, "Version": "$Default"}}
    overrides = list(_overrides(vacancy.instance_types, vacancy.cluster.subnets))
    if overrides:
        template["Overrides"] = overrides
    marks = [{"Key": key, "Value": value} for key, value in tags.items()]
    return {
        "Type": "instant",
        "ClientToken": sha256(token.encode()).hexdigest(),
        "LaunchTemplateConfigs": [template],
        "OnDemandOptions": {"AllocationStrategy": "prioritized"},
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
        "TagSpecifications": [{"ResourceType": kind, "Tags": marks} for kind in ("fleet", "instance")],
    }


def _overrides(instance_types: Sequence[str], subnets: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Ask for each type in each subnet; a type comes before the next one wherever it is to be had."""
    for priority, instance_type in enumerate(instance_types or (None,)):
        for subnet in subnets or (None,):
            said = {"InstanceType": instance_type, "SubnetId": subnet}
            override: dict[str, Any] = {key: value for key, value in said.items() if value is not None}
            if override:
                yield {**override, "Priority": float(priority)}


def _refused(errors: Sequence[Mapping[str, Any]]) -> Answer:
    """Say why nothing was launched: for want of capacity if that is so of any type."""
    found = [_failure(str(one.get("ErrorCode"))) for one in errors]
    weighed = sorted(found, key=lambda one: (one is not ProviderFailure.CAPACITY, not one.retriable))
    words = "; ".join(dict.fromkeys(_words(one) for one in errors)) or "no instance, and no word why"
    return Answer(next(iter(weighed), ProviderFailure.CAPACITY), words[:MAX_WORDS])


def _failure(code: str) -> ProviderFailure:
    # Within an answer these say that this launch did not come about; the token is used up all the same.
    if code in THROTTLES or code in OUTAGES:
        return ProviderFailure.CONFLICT
    return FAILURES.get(code, ProviderFailure.PROVIDER_ERROR)


def _words(error: Mapping[str, Any]) -> str:
    override = (error.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    where = " in ".join(filter(None, (override.get("InstanceType"), override.get("SubnetId"))))
    return f"{where}: {error.get('ErrorCode')}" if where else f"{error.get('ErrorCode')}: {error.get('ErrorMessage')}"
