"""What an Auto Scaling group says of its own doing.

AWS: a launch that finds no capacity does not fail the call that led to it; it is a failed scaling activity, and
the group goes on trying. `DescribeScalingActivities` lists these, the latest first.
moto: the list is always empty, and an error of a launch fails whatever call led to it.
Here: launches, good and failed, are listed; the group tries again when the script gives capacity back.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from faultbridge.local.gaps import names as patch

LAUNCH = "moto.autoscaling.models:FakeAutoScalingGroup|replace_autoscaling_group_instances"
DESCRIBE = "moto.autoscaling.responses:AutoScalingResponse|describe_scaling_activities"
RESULT = "moto.core.responses:ActionResult"
ERROR = "moto.ec2.exceptions:EC2ClientError"
NOW = "moto.core.utils:utcnow"

_ATTRIBUTE = "faultbridge_activities"


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (LAUNCH, DESCRIBE, RESULT, ERROR, NOW)


def is_open() -> bool:
    """Whether the emulator's list is still always empty."""
    return '{"Activities": []}' in inspect.getsource(patch.resolve(DESCRIBE))


def apply() -> None:
    """Keep and list launches."""
    patch.replace(LAUNCH, _kept)
    patch.replace(DESCRIBE, lambda _describe: _describe_scaling_activities)


def _kept(launch: Callable[..., None]) -> Callable[..., None]:
    def replace_autoscaling_group_instances(group: Any, count: int, tags: dict[str, str]) -> None:  # noqa: ANN401 - moto's group
        before = {state.instance.id for state in group.instance_states}
        try:
            launch(group, count, tags)
        except patch.resolve(ERROR) as error:
            _keep(group, "Failed", f"Launching a new EC2 instance.  Status Reason: {error.message}")
            return
        for state in group.instance_states:
            if state.instance.id not in before:
                _keep(group, "Successful", f"Launching a new EC2 instance: {state.instance.id}")

    return replace_autoscaling_group_instances


def _keep(group: Any, status: str, description: str) -> None:  # noqa: ANN401 - moto's group
    now = patch.resolve(NOW)()
    activity = {
        "ActivityId": str(uuid4()),
        "AutoScalingGroupName": group.name,
        "Description": description,
        "Cause": "an instance was launched in response to a difference between desired and actual capacity.",
        "StartTime": now,
        "EndTime": now,
        "StatusCode": status,
        "StatusMessage": description if status == "Failed" else "",
        "Progress": 100,
        "Details": "{}",
    }
    vars(group).setdefault(_ATTRIBUTE, []).insert(0, activity)


def _describe_scaling_activities(response: Any) -> Any:  # noqa: ANN401 - moto's types
    name = response._get_param("AutoScalingGroupName")
    groups = response.autoscaling_backend.autoscaling_groups.values()
    found = [activity for group in groups if name in {None, group.name} for activity in vars(group).get(_ATTRIBUTE, [])]
    return patch.resolve(RESULT)({"Activities": found})
