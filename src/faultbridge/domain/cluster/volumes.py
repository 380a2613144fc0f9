"""EBS volumes that a repair moves from the old instance of a node to its successor."""

from __future__ import annotations

from collections.abc import Sequence

from faultbridge.dataclass import dataclass

VOLUME_TAG = "faultbridge:volume"
"""The tag of volumes that a repair may detach; a policy names its values."""


@dataclass(frozen=True, slots=True)
class MovingVolume:
    """A volume that a repair detaches from `instance_id` and attaches to the node's next instance.

    If the old instance returns to service, the volume is attached to that instance again. `device` is None if the
    provider selects the device name.
    """

    volume_id: str
    zone: str
    instance_id: str
    device: str | None = None


def left_behind(names: Sequence[str], recorded: Sequence[MovingVolume]) -> str:
    """Return a hint for operators about the volumes of an instance that another controller terminated.

    The hint is added to the reason of a case. An operator must then attach the remaining volumes to the next instance.
    `names` are the values of the volume tag that the policy names. `recorded` are the volumes that a repair recorded.
    If there are recorded volumes, the hint is empty, because the repair attaches them. Without `names`, no volume is
    moved, and the hint is empty too.
    """
    if not names or recorded:
        return ""
    return f"; its volumes with the tag {VOLUME_TAG} ({', '.join(names)}) were not recorded: attach those that remain"
