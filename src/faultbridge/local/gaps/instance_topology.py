"""Patch that adds the network topology of EC2 instances to moto.

`instance_topology`
AWS: `DescribeInstanceTopology` lists the network switches above an instance of a supported type.
moto: the call is not implemented and returns HTTP 500.
Here: the running instances of all zones are numbered in the order of their ids. In each group of four, the instances of
the same zone are under one fake switch.
"""

from __future__ import annotations

from typing import Any

from faultbridge.local.gaps import patching
from faultbridge.local.gaps.patching import Gap

RESPONSE = "moto.ec2.responses:EC2Response"
RESULT = "moto.core.responses:ActionResult"
INSTANCES_PER_SWITCH = 4


def _lacks_topology() -> bool:
    return not hasattr(patching.resolve(RESPONSE), "describe_instance_topology")


def _describe_instance_topology(response: Any) -> Any:  # noqa: ANN401 - moto's types
    running = sorted((one for one in response.ec2_backend.all_instances() if one.state == "running"), key=_by_id)
    wanted = set(response._get_param("InstanceIds", []))
    topologies = [_topology(instance, number // INSTANCES_PER_SWITCH) for number, instance in enumerate(running)]
    found = [topology for topology in topologies if not wanted or topology["InstanceId"] in wanted]
    return patching.resolve(RESULT)({"Instances": found})


def _by_id(instance: Any) -> str:  # noqa: ANN401 - moto's types
    return str(instance.id)


def _topology(instance: Any, switch: int) -> dict[str, Any]:  # noqa: ANN401 - moto's types
    zone = instance.placement.zone
    return {
        "InstanceId": instance.id,
        "InstanceType": instance.instance_type,
        "AvailabilityZone": zone,
        "ZoneId": f"{zone}-id",
        "NetworkNodes": [f"nn-{zone}-top", f"nn-{zone}-middle", f"nn-{zone}-{switch:04d}"],
    }


GAPS = (
    Gap(
        "instance_topology",
        (RESPONSE, RESULT),
        _lacks_topology,
        lambda: patching.add_method(RESPONSE, "describe_instance_topology", _describe_instance_topology),
    ),
)
