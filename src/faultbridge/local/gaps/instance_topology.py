"""Where instances are in the network.

AWS: `DescribeInstanceTopology` tells the switches over an instance of a supported type.
moto: the call is not implemented and answers 500.
Here: a fake that hangs every four instances of a zone, in the order of their ids, on one switch.
"""

from __future__ import annotations

from typing import Any

from faultbridge.local.gaps import names as patch

RESPONSE = "moto.ec2.responses:EC2Response"
RESULT = "moto.core.responses:ActionResult"
ON_ONE_SWITCH = 4


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (RESPONSE, RESULT)


def is_open() -> bool:
    """Whether the emulator still lacks the call."""
    return not hasattr(patch.resolve(RESPONSE), "describe_instance_topology")


def apply() -> None:
    """Add the call."""
    patch.add(RESPONSE, "describe_instance_topology", _describe_instance_topology)


def _describe_instance_topology(response: Any) -> Any:  # noqa: ANN401 - moto's types
    running = sorted((one for one in response.ec2_backend.all_instances() if one.state == "running"), key=_by_id)
    wanted = set(response._get_param("InstanceIds", []))
    told = [_topology(instance, number // ON_ONE_SWITCH) for number, instance in enumerate(running)]
    return patch.resolve(RESULT)({"Instances": [one for one in told if not wanted or one["InstanceId"] in wanted]})


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
