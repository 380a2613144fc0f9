"""Create instances on the fake compute plane of a running stack, and inject faults into them.

The calls use the routes of `servers.compute_plane`, which stores the faults in `servers.fault_injection`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from faultbridge.local.clients import client, http_call
from faultbridge.local.servers import fault_injection
from faultbridge.local.stack.lifecycle import DEFAULT_STACK, endpoint_environment
from faultbridge.model.errors import Misconfigured

INSTANCE_TYPE = "p5.48xlarge"
# The deployed functions may change only groups and instances with this tag.
REPAIR_TAG = "faultbridge:stack"

_IMAGE = "ami-12c6146b"  # an image that moto includes
_ZONE = "us-east-1a"


def create_fleet(
    group: str,
    size: int,
    instance_type: str = INSTANCE_TYPE,
    *,
    stack: str = DEFAULT_STACK,
    environment: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
) -> list[str]:
    """Create an Auto Scaling group of GPU instances, and return the instance ids in launch order.

    A group that already has instances is not changed. The group gets a tag that permits the stack to repair it, and the
    given `tags`. `environment` is by default that of the stack; raises `Misconfigured` if it is not deployed.
    """
    aimed = dict(environment) if environment is not None else endpoint_environment(stack=stack)
    if not aimed:
        raise Misconfigured("no embedded stack is running; run `faultbridge up`")
    scaling = client("auto-scaling", aimed)
    found = _group_instances(scaling, group)
    if found is None:
        _create_group(client("ec2", aimed), scaling, group, size, instance_type, {REPAIR_TAG: stack, **(tags or {})})
    elif not found:
        scaling.update_auto_scaling_group(AutoScalingGroupName=group, MaxSize=size + 1, DesiredCapacity=size)
    return _group_instances(scaling, group) or []


def _create_group(
    ec2: Any,  # noqa: ANN401 - a boto3 client
    scaling: Any,  # noqa: ANN401 - a boto3 client
    group: str,
    size: int,
    instance_type: str,
    tags: Mapping[str, str],
) -> None:
    data = {"ImageId": _IMAGE, "InstanceType": instance_type}
    ec2.create_launch_template(LaunchTemplateName=group, LaunchTemplateData=data)
    scaling.create_auto_scaling_group(
        AutoScalingGroupName=group,
        LaunchTemplate={"LaunchTemplateName": group, "Version": "$Latest"},
        MinSize=0,
        MaxSize=size + 1,
        DesiredCapacity=size,
        AvailabilityZones=[_ZONE],
        Tags=[{"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in tags.items()],
    )


def _group_instances(scaling: Any, group: str) -> list[str] | None:  # noqa: ANN401 - a boto3 client
    groups = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"]
    return [instance["InstanceId"] for instance in groups[0]["Instances"]] if groups else None


def set_command_output(
    endpoint: str, instance_id: str, *, exit_code: int, stdout: str, until: str | None = None
) -> None:
    """Set the result of later commands on an instance, except restarts and uploads of log bundles.

    `heal_instance`, `reset_faults` and, if given, the restart `until` (`reset` or `reboot`) remove the result.
    """
    body = {"instance_id": instance_id, "exit_code": exit_code, "stdout": stdout, "until": until}
    http_call(f"{endpoint}/faultbridge/command-output", body)


def break_diagnostics(endpoint: str, instance_id: str, *, until: str | None = None) -> None:
    """Make diagnostics of an instance fail until `heal_instance` or the restart `until`."""
    set_command_output(
        endpoint,
        instance_id,
        exit_code=fault_injection.DIAGNOSTICS_FAILED,
        stdout=fault_injection.failed_diagnostics(),
        until=until,
    )


def heal_instance(endpoint: str, instance_id: str) -> None:
    """Remove the injected fault of one instance, so that its diagnostics pass again."""
    http_call(f"{endpoint}/faultbridge/heal", {"instance_id": instance_id})


def make_next_instance_bad(endpoint: str) -> None:
    """Make the diagnostics of the next launched instance fail: the memory of one of its eight GPUs is bad."""
    break_diagnostics(endpoint, fault_injection.NEXT_LAUNCH)


def set_capacity(endpoint: str, instance_type: str, *, available: bool, zone: str = fault_injection.ANY_ZONE) -> None:
    """Remove or restore the capacity of an instance type in a zone; groups then launch what is missing."""
    body = {"instance_type": instance_type, "zone": zone, "available": available}
    http_call(f"{endpoint}/faultbridge/capacity", body, timeout=30.0)


def set_reservations(endpoint: str, reservations: Sequence[Mapping[str, Any]]) -> None:
    """Set the reservations that `DescribeCapacityReservations` lists; launches do not use them."""
    http_call(f"{endpoint}/faultbridge/capacity-reservations", {"reservations": [dict(one) for one in reservations]})


def set_launch_faults(endpoint: str, seed: int, rates: fault_injection.LaunchFaultRates) -> None:
    """Make later launches slow, failing or bad at the given rates; `seed` makes the faults reproducible."""
    http_call(f"{endpoint}/faultbridge/launch-faults", {"seed": seed, "rates": asdict(rates)})


def configure_kubernetes(endpoint: str, cluster: str, **settings: Any) -> None:  # noqa: ANN401 - any JSON
    """Configure the fake API of an EKS cluster: `pods`, `budgets`, `register_taints`, `reachable`."""
    http_call(f"{endpoint}/faultbridge/kubernetes-cluster", {"cluster": cluster, **settings})


def configure_hyperpod(endpoint: str, cluster: str, **settings: Any) -> None:  # noqa: ANN401 - any JSON
    """Configure a fake HyperPod cluster: `faulty` instance ids, `capacity`, `node_recovery`."""
    http_call(f"{endpoint}/faultbridge/hyperpod-cluster", {"cluster": cluster, **settings})


def reset_faults(endpoint: str) -> None:
    """Remove all injected faults and reservations, and reset the fake Kubernetes and HyperPod clusters."""
    http_call(f"{endpoint}/faultbridge/reset", {})
