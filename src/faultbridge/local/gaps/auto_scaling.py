"""Patches that make moto's Auto Scaling groups behave as on AWS.

`gone_instances`
AWS: `TerminateInstanceInAutoScalingGroup` returns `ValidationError` for an instance that no group contains.
moto: the call returns HTTP 500 with an HTML page, which clients treat as an outage and retry.
Here: the call returns the error that AWS returns.

`scaling_activities`
AWS: a launch without capacity does not fail the call that caused it. It becomes a failed scaling activity, and the
group retries the launch. `DescribeScalingActivities` lists the activities, the latest first.
moto: the list is always empty, and a failed launch fails the call that caused it.
Here: successful and failed launches are listed. The group retries a launch when `servers.fault_injection` restores the
capacity.

`instance_refreshes`
AWS: `StartInstanceRefresh` replaces the instances of a group in batches, for minutes to days.
`DescribeInstanceRefreshes` lists the refreshes of a group, the latest first.
moto: the calls for instance refreshes are not implemented.
Here: a refresh replaces all instances immediately. Its status is in progress for one minute or until
`CancelInstanceRefresh`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

from faultbridge.local.gaps.patching import Gap, add_method, replace, resolve, source_has, wrap

TERMINATE = "moto.autoscaling.models:AutoScalingBackend|terminate_instance"
VALIDATION_ERROR = "moto.autoscaling.exceptions:ValidationError"
LAUNCH = "moto.autoscaling.models:FakeAutoScalingGroup|replace_autoscaling_group_instances"
DESCRIBE = "moto.autoscaling.responses:AutoScalingResponse|describe_scaling_activities"
RESPONSE = "moto.autoscaling.responses:AutoScalingResponse"
RESULT = "moto.core.responses:ActionResult"
EC2_ERROR = "moto.ec2.exceptions:EC2ClientError"
NOW = "moto.core.utils:utcnow"

_ATTRIBUTE = "faultbridge_activities"
_REFRESHES = "faultbridge_refreshes"
REFRESH_TIME = timedelta(minutes=1)
IN_PROGRESS = "InProgress"


def _with_validation_error(
    terminate: Callable[..., Any],
    backend: Any,  # noqa: ANN401 - moto's types
    instance_id: str,
    should_decrement: bool,  # noqa: FBT001 - moto's signature
) -> Any:  # noqa: ANN401 - moto's types
    groups = backend.autoscaling_groups.values()
    if not any(state.instance.id == instance_id for group in groups for state in group.instance_states):
        text = f"Instance Id not found - No managed instance found for instance ID: {instance_id}"
        raise resolve(VALIDATION_ERROR)(text)
    return terminate(backend, instance_id, should_decrement)


def _list_activities() -> None:
    wrap(LAUNCH, _recording_activities)
    replace(DESCRIBE, lambda _describe: _describe_scaling_activities)


def _recording_activities(launch: Callable[..., None], group: Any, count: int, tags: dict[str, str]) -> None:  # noqa: ANN401 - moto's group
    before = {state.instance.id for state in group.instance_states}
    try:
        launch(group, count, tags)
    except resolve(EC2_ERROR) as error:
        _record(group, "Failed", f"Launching a new EC2 instance.  Status Reason: {error.message}")
        return
    for state in group.instance_states:
        if state.instance.id not in before:
            _record(group, "Successful", f"Launching a new EC2 instance: {state.instance.id}")


def _record(group: Any, status: str, description: str) -> None:  # noqa: ANN401 - moto's group
    now = resolve(NOW)()
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
    return resolve(RESULT)({"Activities": found})


def _has_no_refreshes() -> bool:
    return not hasattr(resolve(RESPONSE), "describe_instance_refreshes")


def _add_refreshes() -> None:
    add_method(RESPONSE, "start_instance_refresh", _start_refresh)
    add_method(RESPONSE, "cancel_instance_refresh", _cancel_refresh)
    add_method(RESPONSE, "describe_instance_refreshes", _describe_refreshes)


def _start_refresh(response: Any) -> Any:  # noqa: ANN401 - moto's types
    group, backend = _group_of(response), response.autoscaling_backend
    instances = [state.instance.id for state in group.instance_states]
    refresh = {
        "InstanceRefreshId": str(uuid4()),
        "AutoScalingGroupName": group.name,
        "Status": IN_PROGRESS,
        "StartTime": resolve(NOW)(),
        "InstancesToUpdate": len(instances),
        "PercentageComplete": 0,
    }
    vars(group).setdefault(_REFRESHES, []).insert(0, refresh)
    for instance_id in instances:
        backend.terminate_instance(instance_id, False)
    return resolve(RESULT)({"InstanceRefreshId": refresh["InstanceRefreshId"]})


def _cancel_refresh(response: Any) -> Any:  # noqa: ANN401 - moto's types
    running = [one for one in _refreshes(_group_of(response)) if one["Status"] == IN_PROGRESS]
    for one in running:
        one.update(Status="Cancelled", EndTime=resolve(NOW)())
    return resolve(RESULT)({"InstanceRefreshId": running[0]["InstanceRefreshId"]} if running else {})


def _describe_refreshes(response: Any) -> Any:  # noqa: ANN401 - moto's types
    return resolve(RESULT)({"InstanceRefreshes": _refreshes(_group_of(response))})


def _refreshes(group: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - moto's group
    """Return a group's refreshes, the latest first; after a minute, a refresh is `Successful`."""
    found: list[dict[str, Any]] = vars(group).get(_REFRESHES, [])
    now = resolve(NOW)()
    for one in found:
        if one["Status"] == IN_PROGRESS and now >= one["StartTime"] + REFRESH_TIME:
            one.update(Status="Successful", EndTime=now, PercentageComplete=100, InstancesToUpdate=0)
    return found


def _group_of(response: Any) -> Any:  # noqa: ANN401 - moto's types
    name = response._get_param("AutoScalingGroupName")
    try:
        return response.autoscaling_backend.autoscaling_groups[name]
    except KeyError:
        raise resolve(VALIDATION_ERROR)(f"AutoScalingGroup name not found - {name}") from None


GAPS = (
    Gap(
        "gone_instances",
        (TERMINATE, VALIDATION_ERROR),
        source_has(TERMINATE, "next("),
        lambda: wrap(TERMINATE, _with_validation_error),
    ),
    Gap(
        "scaling_activities",
        (LAUNCH, DESCRIBE, RESULT, EC2_ERROR, NOW),
        source_has(DESCRIBE, '{"Activities": []}'),
        _list_activities,
    ),
    Gap("instance_refreshes", (RESPONSE, RESULT, NOW, VALIDATION_ERROR), _has_no_refreshes, _add_refreshes),
)
