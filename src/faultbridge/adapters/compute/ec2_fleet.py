"""Launch one instance, of the first type with capacity, through an EC2 fleet of type `instant`.

The client token of a fleet covers the whole request: a repeated call returns the first response again, even if no
instance was launched. One request therefore names all instance types in order. A separate call for the second type
could launch a second instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import OUTAGES, THROTTLES, translate, translated
from faultbridge.adapters.compute.failures import FAILURES, failure_of
from faultbridge.adapters.compute.instances import (
    CASE_TAG,
    launch_order,
    launched_instance_of,
    live_instances,
    presence_of,
)
from faultbridge.adapters.compute.launch_template import GROUP_TAG, terminate_instance
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.ports import CallResult, LaunchedInstance, LaunchRequest, Presence, ProviderFailure

STACK_TAG = "faultbridge:stack"
CLUSTER_TAG = "faultbridge:cluster"
MAX_REASON_CHARACTERS = 500


class FleetLauncher:
    """A Launcher that launches instances through EC2 fleets.

    A launched instance has tags with its stack, cluster, group and case.
    """

    def __init__(self, clients: Clients, stack: str) -> None:
        self._clients, self._stack = clients, stack

    def launched(self, launch_request: LaunchRequest) -> tuple[LaunchedInstance, ...]:
        """Return the live instances that were launched for the case of a request, oldest first.

        The list includes the spare that the case took, even if the tag of the spare does not name the case yet. The
        list excludes the instance that is being replaced.
        """
        with translated(f"listing the instances launched for {launch_request.case}"):
            filters = {f"tag:{CASE_TAG}": launch_request.case, f"tag:{STACK_TAG}": self._stack}
            found = [launched_instance_of(one) for one in live_instances(self._clients, filters)]
            if launch_request.spare and launch_request.spare not in {one.instance_id for one in found}:
                found += map(launched_instance_of, live_instances(self._clients, {"instance-id": launch_request.spare}))
        others = (one for one in found if one.instance_id != launch_request.instead_of)
        return tuple(sorted(others, key=launch_order))

    def launched_in(self, cluster: ClusterConfig) -> tuple[LaunchedInstance, ...]:
        """Return the live instances with the tags of this stack and of a cluster, oldest first."""
        with translated(f"listing the instances launched in {cluster.cluster}"):
            filters = {f"tag:{CLUSTER_TAG}": cluster.cluster, f"tag:{STACK_TAG}": self._stack}
            found = [launched_instance_of(one) for one in live_instances(self._clients, filters)]
        return tuple(sorted(found, key=launch_order))

    def launch(self, launch_request: LaunchRequest) -> CallResult:
        """Launch one instance for a request.

        The client never retries the call. A second call for the request has the client token of the first call, so it
        launches no second instance.
        """
        try:
            answer: Any = self._clients.ec2_no_retry.create_fleet(
                **_request(launch_request, self._tags(launch_request), f"{self._stack}/{launch_request.token}")
            )
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            return CallResult(failure_of(error), str(translate(error, f"launching from {launch_request.group}")))
        launched = [one for part in answer.get("Instances") or () for one in part["InstanceIds"]]
        if not launched:
            return _not_launched(answer.get("Errors") or ())
        return self._unless_gone(launched[0], answer)

    def assign(self, instance_id: str, case: str) -> CallResult:
        """Set the tag `faultbridge:case` of a spare instance to the case that takes the instance.

        Before this call, the value of the tag is `Spare.owner`.
        """
        try:
            self._clients.ec2.create_tags(Resources=[instance_id], Tags=[{"Key": CASE_TAG, "Value": case}])
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            return CallResult(failure_of(error), str(translate(error, f"tagging {instance_id}")))
        return CallResult()

    def terminate(self, instance_id: str) -> CallResult:
        """Terminate an instance; the client never retries the call."""
        answer = terminate_instance(self._clients, instance_id)
        gone = answer.failure is ProviderFailure.NOT_FOUND
        return CallResult(reason="the instance is already gone") if gone else answer

    def _unless_gone(self, instance_id: str, answer: Mapping[str, Any]) -> CallResult:
        """Return success for a launch, or CONFLICT if the launched instance is terminating or terminated.

        A repeated request gets the first response again. The instance that this response names may be gone by then.
        `answer` is EC2's response to the fleet request. An instance that EC2 does not list yet counts as launched.
        """
        operation = str(answer["FleetId"])
        with translated(f"reading {instance_id}"):
            found = self._clients.ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": [instance_id]}])
        if found["Reservations"] and presence_of(self._clients, instance_id) is Presence.GONE:
            return CallResult(ProviderFailure.CONFLICT, f"{instance_id} terminated before it was in service", operation)
        return CallResult(reason=f"{instance_id} was launched", operation=operation)

    def _tags(self, launch_request: LaunchRequest) -> dict[str, str]:
        return {
            STACK_TAG: self._stack,
            CLUSTER_TAG: launch_request.cluster.cluster,
            GROUP_TAG: launch_request.group,
            CASE_TAG: launch_request.case,
        }


def _request(launch_request: LaunchRequest, tags: Mapping[str, str], token: str) -> dict[str, Any]:
    name = "LaunchTemplateId" if launch_request.group.startswith("lt-") else "LaunchTemplateName"
    template: dict[str, Any] = {"LaunchTemplateSpecification": {name: launch_request.group, "Version": "$Default"}}
    overrides = list(_overrides(launch_request.instance_types, launch_request.cluster.subnets))
    if overrides:
        template["Overrides"] = overrides
    tag_list = [{"Key": key, "Value": value} for key, value in tags.items()]
    return {
        "Type": "instant",
        "ClientToken": sha256(token.encode()).hexdigest(),
        "LaunchTemplateConfigs": [template],
        "OnDemandOptions": {"AllocationStrategy": "prioritized"},
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
        "TagSpecifications": [{"ResourceType": kind, "Tags": tag_list} for kind in ("fleet", "instance")],
    }


def _overrides(instance_types: Sequence[str], subnets: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield one launch template override per instance type and subnet.

    An earlier type has priority over a later type in all subnets.
    """
    for priority, instance_type in enumerate(instance_types or (None,)):
        for subnet in subnets or (None,):
            values = {"InstanceType": instance_type, "SubnetId": subnet}
            override: dict[str, Any] = {key: value for key, value in values.items() if value is not None}
            if override:
                yield {**override, "Priority": float(priority)}


def _not_launched(errors: Sequence[Mapping[str, Any]]) -> CallResult:
    """Return the failed result of a fleet request that launched no instance.

    The failure is CAPACITY if any instance type lacked capacity, or if EC2 gave no error. Otherwise the first failure
    that may be retried is used, or the first failure if none may be retried.
    """
    failures = [_failure(str(one.get("ErrorCode"))) for one in errors]
    ordered = sorted(failures, key=lambda one: (one is not ProviderFailure.CAPACITY, not one.retriable))
    reason = "; ".join(dict.fromkeys(_reason(one) for one in errors)) or "no instance was launched; EC2 gave no reason"
    return CallResult(next(iter(ordered), ProviderFailure.CAPACITY), reason[:MAX_REASON_CHARACTERS])


def _failure(code: str) -> ProviderFailure:
    # Inside a response, throttling and outages mean that this launch failed; the token is used all the same.
    if code in THROTTLES or code in OUTAGES:
        return ProviderFailure.CONFLICT
    return FAILURES.get(code, ProviderFailure.PROVIDER_ERROR)


def _reason(error: Mapping[str, Any]) -> str:
    override = (error.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    where = " in ".join(filter(None, (override.get("InstanceType"), override.get("SubnetId"))))
    return f"{where}: {error.get('ErrorCode')}" if where else f"{error.get('ErrorCode')}: {error.get('ErrorMessage')}"
