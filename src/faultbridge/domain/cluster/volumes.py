"""EBS volumes that move from the instance of a node to its successor."""

from __future__ import annotations

from collections.abc import Sequence

from faultbridge.dataclass import dataclass

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


def left_behind(names: Sequence[str], recorded: Sequence[MovingVolume]) -> str:
    """Return what a reason adds about the volumes of an instance that another controller terminated.

    `names` are the values of the tag in the policy. The text is empty without them, or if a repair has recorded the
    volumes, which it then attaches to the successor.
    """
    if not names or recorded:
        return ""
    return f"; its volumes with the tag {VOLUME_TAG} ({', '.join(names)}) were not recorded: attach those that remain"
