"""Detach and attach EBS volumes of EC2 instances.

The IAM roles allow this only for volumes with the tag `faultbridge:volume`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.adapters.ec2.instances import listed_instance, result_of
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.nodes import VOLUME_TAG
from faultbridge.record.ports.compute import CallResult
from faultbridge.record.ports.orchestrator import Attachment, Volume

FAILURES = {
    # The attachment changes at this moment, or another call changed it: the next read decides.
    "IncorrectState": ProviderFailure.CONFLICT,
    "VolumeInUse": ProviderFailure.CONFLICT,
    "InvalidVolume.NotFound": ProviderFailure.NOT_FOUND,
    "InvalidAttachment.NotFound": ProviderFailure.NOT_FOUND,
    "InvalidVolume.ZoneMismatch": ProviderFailure.PROVIDER_ERROR,
}
FREE, UNKNOWN_ZONES = "detached", frozenset[str]()


class Ec2Volumes:
    """A Volumes adapter for EC2; with `of_groups`, groups are Auto Scaling groups, whose zones are known."""

    def __init__(self, clients: Clients, *, of_groups: bool = False) -> None:
        self._clients, self._of_groups = clients, of_groups

    def attached(self, instance_id: str, names: Sequence[str]) -> tuple[Volume, ...]:
        """Return an instance's volumes on which the tag `faultbridge:volume` has one of the values `names`."""
        values = {"attachment.instance-id": [instance_id], f"tag:{VOLUME_TAG}": list(names)}
        found = self._described(f"listing the volumes of {instance_id}", values) if names else ()
        return tuple(one for one in found if one.on(instance_id))

    def read(self, volume_ids: Iterable[str]) -> tuple[Volume, ...]:
        """Return those of the given volumes that exist, also without the tag `faultbridge:volume`."""
        ids = list(volume_ids)
        return self._described("reading volumes", {"volume-id": ids}) if ids else ()

    def zone_of(self, instance_id: str) -> str | None:
        """Return the Availability Zone of an instance; None if EC2 does not list the instance."""
        with translated(f"reading the zone of {instance_id}"):
            found = listed_instance(self._clients, instance_id)
        return (found.get("Placement") or {}).get("AvailabilityZone")

    def successor_zones(self, group: str) -> frozenset[str]:
        """Return the zones in which a group may launch; none for a launch template or a group that is gone."""
        if not self._of_groups:
            return UNKNOWN_ZONES
        with translated(f"reading the zones of {group}"):
            answer = self._clients.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])
        return frozenset(zone for one in answer["AutoScalingGroups"] for zone in one["AvailabilityZones"])

    def detach(self, volume_id: str, instance_id: str) -> CallResult:
        """Start to detach a volume by one call without retries; succeeds also if it is already detached."""
        detach = self._clients.ec2_no_retry.detach_volume
        request: Any = {"VolumeId": volume_id, "InstanceId": instance_id}
        answer = result_of(f"detaching {volume_id}", lambda: detach(**request), FAILURES)
        still = answer.ok or any(one.on(instance_id) for one in self.read([volume_id]))
        return answer if still else CallResult(reason="already detached")

    def attach(self, volume_id: str, instance_id: str, device: str | None) -> CallResult:
        """Start to attach a volume by one call without retries; EC2 requires the former `device` name."""
        if device is None:
            return CallResult(ProviderFailure.PROVIDER_ERROR, f"{volume_id} has no device name")
        attach = self._clients.ec2_no_retry.attach_volume
        request: Any = {"VolumeId": volume_id, "InstanceId": instance_id, "Device": device}
        return result_of(f"attaching {volume_id}", lambda: attach(**request), FAILURES)

    def _described(self, action: str, values: dict[str, list[str]]) -> tuple[Volume, ...]:
        filters: list[Any] = [{"Name": name, "Values": wanted} for name, wanted in values.items()]
        with translated(action):
            pages = self._clients.ec2.get_paginator("describe_volumes").paginate(Filters=filters)
            found = [_volume(one) for page in pages for one in page["Volumes"]]
        return tuple(sorted(found, key=lambda one: one.volume_id))


def _volume(one: Any) -> Volume:  # noqa: ANN401 - the stubs' type exists only for type checkers
    attachments = tuple(
        Attachment(found["InstanceId"], found.get("State", ""), found.get("Device"))
        for found in one.get("Attachments", ())
        if found.get("InstanceId") and found.get("State") != FREE
    )
    tagged = any(tag.get("Key") == VOLUME_TAG for tag in one.get("Tags", ()))
    shared = bool(one.get("MultiAttachEnabled"))
    return Volume(one["VolumeId"], one["AvailabilityZone"], attachments, shared, tagged)
