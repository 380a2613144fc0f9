"""Find EC2 capacity for the successor of an instance, and launch it from a launch template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import AWS_ERRORS, OUTAGES, THROTTLES, translate, translated
from faultbridge.adapters.ec2.instances import (
    CASE_TAG,
    FAILURES,
    checks_of,
    failure_of,
    impaired_instances,
    launch_order,
    launched_instance_of,
    listed_instance,
    live_instances,
    presence_of,
    result_of,
)
from faultbridge.model.cluster.config import CapacitySource, ClusterConfig
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import CallResult, Capacity, CapacityEvidence, LaunchedInstance, LaunchRequest
from faultbridge.record.ports.presence import InstanceChecks, Presence

ACTIVE, BLOCK = "active", "capacity-block"
DEFAULT_VERSION = "$Default"
ABSENT = Capacity(CapacityEvidence.ABSENT)
MAX_NAMED = 10
"""Maximum number of reservations that a reason names, those with the most free instances first."""


class Ec2Capacity:
    """Reads from EC2 whether a source of capacity has room for the successor of an instance.

    `frees_slot` is True if the old instance is released before its successor starts. This release makes room for one
    instance in the reservation of the old instance, even if the reservation is full.
    """

    def __init__(self, clients: Clients, *, frees_slot: bool) -> None:
        self._clients, self._frees_slot = clients, frees_slot

    def ask(self, source: CapacitySource, instance_id: str, block: str | None = None) -> Capacity:
        """Return what a reservation or block has for a successor; `ABSENT` for any other source.

        `block` is the id of the capacity block in which the successor starts; None means that of the old instance.
        """
        target = {"CapacityReservationId": block} if block else {}
        questions: Mapping[CapacitySource, Callable[[Mapping[str, Any]], Capacity]] = {
            CapacitySource.OWN_RESERVATION: lambda one: self._own(one, is_block=False),
            CapacitySource.CAPACITY_BLOCK: lambda one: self._own({**one, **target}, is_block=True),
            CapacitySource.OPEN_RESERVATION: self._open,
        }
        question = questions.get(source)
        if question is None:
            return ABSENT
        with translated(f"reading the capacity reservation of {instance_id}"):
            instance = listed_instance(self._clients, instance_id)
        return question(instance) if instance else Capacity(reason="the instance was not found")

    def _own(self, instance: Mapping[str, Any], *, is_block: bool) -> Capacity:
        """Return the capacity of the reservation or capacity block in which the instance runs.

        If `is_block` is True, only a capacity block counts, else only a reservation that is not a block. The evidence
        of the result is:

        - `ABSENT` if the instance runs in no reservation, or in one that does not count.
        - `OWN_RESERVATION` if EC2 describes a reservation that counts, even if this reservation has no free instance.
        - `OWN_RESERVATION` also if the permission to read the reservation is missing, `is_block` is False, and the old
          instance is released first (`frees_slot`), because this release makes room in the reservation.
        - `NONE` if the reservation does not exist, or if EC2 refuses the call for another reason.
        """
        reservation = instance.get("CapacityReservationId")
        if not reservation:
            return Capacity(CapacityEvidence.ABSENT, reason="the instance runs in no capacity reservation")
        try:
            with translated(f"reading capacity reservation {reservation}"):
                answer = self._clients.ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])
        except Misconfigured as error:
            denied = failure_of(error.__cause__) is ProviderFailure.PERMISSION_DENIED
            known = denied and self._frees_slot and not is_block
            evidence = CapacityEvidence.OWN_RESERVATION if known else CapacityEvidence.NONE
            return Capacity(evidence, reason=f"{reservation}; {error}")
        described: Any = next(iter(answer["CapacityReservations"]), None)
        if described is None:
            return Capacity(reason=f"capacity reservation {reservation} does not exist")
        if (described.get("ReservationType") == BLOCK) is not is_block:
            other = "is no capacity block" if is_block else "is a capacity block"
            return Capacity(CapacityEvidence.ABSENT, reason=f"{reservation} {other}")
        return self._of_own(described, str(reservation))

    def _of_own(self, described: Mapping[str, Any], reservation: str) -> Capacity:
        evidence = CapacityEvidence.OWN_RESERVATION
        if described["State"] != ACTIVE:
            reason = f"capacity reservation {reservation} is {described['State']}"
            return Capacity(evidence, free=False, reason=reason, count=0)
        free, total = described["AvailableInstanceCount"], described["TotalInstanceCount"]
        is_block = described.get("ReservationType") == BLOCK
        unavailable, status = self._unavailable(described.get("CapacityBlockId")) if is_block else (0, "")
        return Capacity(
            evidence,
            # A released instance of a full block leaves a slot; with a failed host, that slot may be the failed one.
            free=free + 1 > unavailable if self._frees_slot else free > 0,
            reason=f"{reservation}: {free} of {total} instances free{status}",
            count=free,
            # EC2 terminates the instances of a block that ends; those of another reservation continue on demand.
            ends_at=described.get("EndDate") if is_block else None,
        )

    def _unavailable(self, block: str | None) -> tuple[int, str]:
        """Return how many instances of a block EC2 cannot provide, and its status or the error of reading it as text.

        The number is 0 without a block, and if the status cannot be read.
        """
        if not block:
            return 0, ""
        try:
            with translated(f"reading the status of capacity block {block}"):
                answer = self._clients.ec2.describe_capacity_block_status(CapacityBlockIds=[block])
        except (Misconfigured, Transient) as error:
            return 0, f"; {error}"
        status: Any = next(iter(answer.get("CapacityBlockStatuses") or ()), None)
        if status is None:
            return 0, f"; EC2 has no status of capacity block {block}"
        unavailable = status.get("TotalUnavailableCapacity")
        counts = f"{'unknown' if unavailable is None else unavailable} of {status.get('TotalCapacity', 'unknown')}"
        interconnect = status.get("InterconnectStatus", "unknown")
        text = f"; capacity block {block}: {counts} unavailable after failed status checks, interconnect {interconnect}"
        return unavailable or 0, text

    def _open(self, instance: Mapping[str, Any]) -> Capacity:
        """Return the free capacity of the open reservations that fit the instance.

        The reservation in which the instance runs is not counted. The evidence is `ABSENT` if no other reservation
        fits, or if the launch settings of the instance exclude open reservations. It is `NONE` if EC2 refuses the call.
        """
        chosen = instance.get("CapacityReservationSpecification") or {}
        if chosen.get("CapacityReservationPreference") == "none" or chosen.get("CapacityReservationTarget"):
            reason = "the instance was launched with no reservation, or with a certain one"
            return Capacity(CapacityEvidence.ABSENT, reason=reason)
        placement = instance.get("Placement") or {}
        kind, zone = str(instance.get("InstanceType")), str(placement.get("AvailabilityZone"))
        wanted = {
            "state": ACTIVE,
            "instance-match-criteria": "open",
            "instance-type": kind,
            "availability-zone": zone,
            "tenancy": str(placement.get("Tenancy") or "default"),
            "instance-platform": str(instance.get("PlatformDetails") or "Linux/UNIX"),
        }
        filters: Any = [{"Name": name, "Values": [value]} for name, value in wanted.items()]
        action = f"reading open capacity reservations of {kind} in {zone}"
        try:
            with translated(action):
                pages = self._clients.ec2.get_paginator("describe_capacity_reservations").paginate(Filters=filters)
                found = [one for page in pages for one in page["CapacityReservations"]]
        except Misconfigured as error:
            return Capacity(reason=str(error))
        own = instance.get("CapacityReservationId")
        others = [one for one in found if one["CapacityReservationId"] != own and _accepts(one, instance)]
        if not others:
            return Capacity(CapacityEvidence.ABSENT, reason=f"no other open reservation of {kind} in {zone}")
        free = {one["CapacityReservationId"]: one["AvailableInstanceCount"] for one in others}
        ordered = sorted(free.items(), key=lambda one: (-one[1], one[0]))
        named = ", ".join(f"{name}: {count} free" for name, count in ordered[:MAX_NAMED])
        named += f" and {len(ordered) - MAX_NAMED} more" if len(ordered) > MAX_NAMED else ""
        count = sum(free.values())
        return Capacity(CapacityEvidence.RESERVATION, free=count > 0, reason=named, count=count)


def _accepts(reservation: Mapping[str, Any], instance: Mapping[str, Any]) -> bool:
    """Return whether an open reservation can take an instance.

    The reservation and the instance must be on the same Outpost, or both on no Outpost. The reservation must have the
    placement group of the instance, or no placement group. An interruptible reservation never fits, because EC2 may
    reclaim it at any time.
    """
    placement_group = str(reservation.get("PlacementGroupArn") or "").rpartition("/")[2]
    return (
        not reservation.get("Interruptible")
        and reservation.get("OutpostArn") == instance.get("OutpostArn")
        and placement_group in {"", (instance.get("Placement") or {}).get("GroupName")}
    )


GROUP_TAG = "faultbridge:group"


class Ec2Instances:
    """What the providers of EC2 instances read alike; `frees_slot` as in `Ec2Capacity`."""

    def __init__(self, clients: Clients, *, frees_slot: bool) -> None:
        self._clients, self._capacity = clients, Ec2Capacity(clients, frees_slot=frees_slot)

    def probe(self, instance_id: str) -> Presence:
        """Return whether the instance exists; GONE also if it is terminating, ALIVE also if stopped."""
        return presence_of(self._clients, instance_id)

    def checks(self, instance_id: str) -> InstanceChecks:
        """Return the EC2 status checks of the instance, and whether its SSM agent is connected."""
        return checks_of(self._clients, instance_id)

    def impaired(self) -> frozenset[str]:
        """Return the running instances of the account whose system or instance status check fails."""
        return impaired_instances(self._clients)

    def capacity(self, source: CapacitySource, instance_id: str, group: str) -> Capacity:
        """Return what a source has for a successor; on-demand capacity shows only at a launch (`NONE`).

        No source has capacity for a group that launches nothing (`why_no_launch`), which is read only before an answer
        that could permit a release.
        """
        if source is CapacitySource.ON_DEMAND:
            found = Capacity(reason="EC2 shows on-demand capacity only by a launch")
        else:
            found = self._capacity.ask(source, instance_id)
        if found.evidence is CapacityEvidence.ABSENT or not found.free:
            return found
        with translated(f"reading whether {group} launches instances"):
            refusal = self.why_no_launch(group, instance_id)
        return Capacity(free=False, reason=refusal) if refusal else found

    def why_no_launch(self, group: str, instance_id: str) -> str:
        """Return why a group launches no successor of an instance now; empty if nothing shows that."""
        raise NotImplementedError


class LaunchTemplateProvider(Ec2Instances):
    """A Provider for nodes whose group is a launch template; a Launcher launches the successors."""

    def __init__(self, clients: Clients) -> None:
        super().__init__(clients, frees_slot=False)

    def replace(self, instance_id: str, token: str) -> CallResult:  # noqa: ARG002 - the call names one instance, so it needs no token
        """Terminate the instance by one call without retries; after a lost response `probe` decides."""
        return terminate_instance(self._clients, instance_id)

    def capacity(self, source: CapacitySource, instance_id: str, group: str) -> Capacity:
        """Return what a source has for a successor, which is launched first: on demand `LAUNCH_FIRST`.

        A launch template requests either a capacity block, or any other capacity.
        """
        try:
            with translated(f"reading launch template {group}"):
                block = requested_block(self._clients, group)
        except Misconfigured as error:
            return Capacity(reason=str(error))
        is_block = block is not None
        if is_block is not (source is CapacitySource.CAPACITY_BLOCK):
            requested = "only a capacity block" if is_block else "no capacity block"
            return Capacity(CapacityEvidence.ABSENT, reason=f"launch template {group} requests {requested}")
        if source is CapacitySource.ON_DEMAND:
            return Capacity(CapacityEvidence.LAUNCH_FIRST, reason="the successor starts before the release")
        return self._capacity.ask(source, instance_id, block)

    def candidates(self, group: str, launched_after: datetime) -> tuple[LaunchedInstance, ...]:  # noqa: ARG002 - a template launches nothing by itself
        """Return none: `FleetLauncher.launched` returns the instances that were launched for one case."""
        return ()


def requested_block(clients: Clients, group: str) -> str | None:
    """Return the id of the capacity block that a launch template requests; '' if it names a group of reservations.

    The result is None if the default version of the template does not have the market type `capacity-block`.
    """
    request: Any = {**_template(group), "Versions": [DEFAULT_VERSION]}
    answer: Any = clients.ec2.describe_launch_template_versions(**request)
    version: Mapping[str, Any] = next(iter(answer["LaunchTemplateVersions"]), {})
    data = version.get("LaunchTemplateData") or {}
    if (data.get("InstanceMarketOptions") or {}).get("MarketType") != BLOCK:
        return None
    target = (data.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget") or {}
    return str(target.get("CapacityReservationId") or "")


def _template(group: str) -> dict[str, str]:
    return {"LaunchTemplateId" if group.startswith("lt-") else "LaunchTemplateName": group}


def terminate_instance(clients: Clients, instance_id: str) -> CallResult:
    """Terminate an instance with one call without retries; NOT_FOUND if EC2 has no record of it."""
    terminate = clients.ec2_no_retry.terminate_instances
    answer = result_of(f"terminating {instance_id}", lambda: terminate(InstanceIds=[instance_id]))
    return replace(answer, operation=f"terminate-{instance_id}") if answer.ok else answer


# The client token of a fleet covers the whole request: a repeated call returns the first response again, even if no
# instance was launched. One request therefore names all instance types in order. A separate call for the second type
# could launch a second instance.

STACK_TAG = "faultbridge:stack"
CLUSTER_TAG = "faultbridge:cluster"
MAX_REASON_CHARACTERS = 500


class FleetLauncher:
    """A Launcher by EC2 fleets; each instance has tags with its stack, cluster, group and case."""

    def __init__(self, clients: Clients, stack: str) -> None:
        self._clients, self._stack = clients, stack

    def launched(self, launch_request: LaunchRequest) -> tuple[LaunchedInstance, ...]:
        """Return the live instances of a request's case and its spare, oldest first, but not the replaced one."""
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
        """Launch one instance; a second call has the client token of the first, so it launches no second one."""
        try:
            block = requested_block(self._clients, launch_request.group)
            request = _request(launch_request, self._stack, in_block=block is not None)
            answer: Any = self._clients.ec2_no_retry.create_fleet(**request)
        except AWS_ERRORS as error:
            return CallResult(failure_of(error), str(translate(error, f"launching from {launch_request.group}")))
        launched = [one for part in answer.get("Instances") or () for one in part["InstanceIds"]]
        if not launched:
            return _not_launched(answer.get("Errors") or ())
        return self._unless_gone(launched[0], answer)

    def assign(self, instance_id: str, case: str) -> CallResult:
        """Set the tag `faultbridge:case` of a spare, until then `Spare.owner`, to the case that takes it."""
        tag: Any = {"Key": CASE_TAG, "Value": case}
        create_tags = self._clients.ec2.create_tags
        return result_of(f"tagging {instance_id}", lambda: create_tags(Resources=[instance_id], Tags=[tag]))

    def terminate(self, instance_id: str) -> CallResult:
        """Terminate an instance; the client never retries the call."""
        answer = terminate_instance(self._clients, instance_id)
        gone = answer.failure is ProviderFailure.NOT_FOUND
        return CallResult(reason="the instance is already gone") if gone else answer

    def _unless_gone(self, instance_id: str, answer: Mapping[str, Any]) -> CallResult:
        """Return CONFLICT if the launched instance is gone: a repeated request gets the first response again."""
        operation = str(answer["FleetId"])
        with translated(f"reading {instance_id}"):
            found = listed_instance(self._clients, instance_id)
        if found and presence_of(self._clients, instance_id) is Presence.GONE:
            return CallResult(ProviderFailure.CONFLICT, f"{instance_id} terminated before it was in service", operation)
        return CallResult(reason=f"{instance_id} was launched", operation=operation)


def _request(launch_request: LaunchRequest, stack: str, *, in_block: bool) -> dict[str, Any]:
    """Return the request for one instance. A capacity block is a target of its own, without on-demand options."""
    specification = {**_template(launch_request.group), "Version": DEFAULT_VERSION}
    template: dict[str, Any] = {"LaunchTemplateSpecification": specification}
    target, options = ("on-demand", {"OnDemandOptions": {"AllocationStrategy": "prioritized"}})
    if in_block:
        target, options = BLOCK, {}
    overrides = list(_overrides(launch_request.instance_types, launch_request.cluster.subnets))
    if overrides:
        template["Overrides"] = overrides
    case, group, cluster = launch_request.case, launch_request.group, launch_request.cluster.cluster
    tags = {STACK_TAG: stack, CLUSTER_TAG: cluster, GROUP_TAG: group, CASE_TAG: case}
    tag_list = [{"Key": key, "Value": value} for key, value in tags.items()]
    return {
        "Type": "instant",
        "ClientToken": sha256(f"{stack}/{launch_request.token}".encode()).hexdigest(),
        "LaunchTemplateConfigs": [template],
        **options,
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": target},
        "TagSpecifications": [{"ResourceType": kind, "Tags": tag_list} for kind in ("fleet", "instance")],
    }


def _overrides(instance_types: Sequence[str], subnets: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield one override per type and subnet; an earlier type has priority in all subnets."""
    for priority, instance_type in enumerate(instance_types or (None,)):
        for subnet in subnets or (None,):
            values = {"InstanceType": instance_type, "SubnetId": subnet}
            override: dict[str, Any] = {key: value for key, value in values.items() if value is not None}
            if override:
                yield {**override, "Priority": float(priority)}


def _not_launched(errors: Sequence[Mapping[str, Any]]) -> CallResult:
    """Return CAPACITY if a type lacked it or EC2 gave no error, else the first retriable failure."""
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
