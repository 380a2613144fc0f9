"""EBS volumes that move from the instance of a node to its successor."""

from __future__ import annotations

from dataclasses import dataclass

VOLUME_TAG = "faultbridge:volume"
"""The tag of volumes that a repair may detach; a policy names its values."""


@dataclass(frozen=True, slots=True)
class MovingVolume:
    """A volume that a repair detaches from `instance_id` and attaches to the instance that returns to service.

    `device` is None where the provider selects the device name.
    """

    volume_id: str
    zone: str
    instance_id: str
    device: str | None = None
