"""Which instances Systems Manager knows.

AWS: `DescribeInstanceInformation` lists those whose agent has called.
moto: the call is not implemented and answers 500.
Here: a fake that lists every running instance, online from its first moment.
"""

from __future__ import annotations

from typing import Any

from faultbridge.local.gaps import names as patch

RESPONSE = "moto.ssm.responses:SimpleSystemManagerResponse"
RESULT = "moto.core.responses:ActionResult"
NOW = "moto.core.utils:utcnow"
EC2 = "moto.ec2.models:ec2_backends"


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (RESPONSE, RESULT, NOW, EC2)


def is_open() -> bool:
    """Whether the emulator still lacks the call."""
    return not hasattr(patch.resolve(RESPONSE), "describe_instance_information")


def apply() -> None:
    """Add the call."""
    patch.add(RESPONSE, "describe_instance_information", _describe_instance_information)


def _describe_instance_information(response: Any) -> Any:  # noqa: ANN401 - moto's types
    backend = response.ssm_backend
    known = patch.resolve(EC2)[backend.account_id][backend.region_name]
    wanted = _wanted_ids(response)
    found = [
        _information(instance)
        for instance in known.all_instances()
        if instance.state == "running" and (wanted is None or instance.id in wanted)
    ]
    return patch.resolve(RESULT)({"InstanceInformationList": found})


def _wanted_ids(response: Any) -> set[str] | None:  # noqa: ANN401 - moto's types
    """Return the ids that either form of the filter names; None without such a filter."""
    old = response._get_param("InstanceInformationFilterList", [])
    new = response._get_param("Filters", [])
    ids = [each["valueSet"] for each in old if each["key"] == "InstanceIds"]
    ids += [each["Values"] for each in new if each["Key"] == "InstanceIds"]
    return set.union(*map(set, ids)) if ids else None


def _information(instance: Any) -> dict[str, Any]:  # noqa: ANN401 - moto's types
    return {
        "InstanceId": instance.id,
        "PingStatus": "Online",
        "LastPingDateTime": patch.resolve(NOW)(),
        "AgentVersion": "3.3.1957.0",
        "IsLatestVersion": True,
        "PlatformType": "Linux",
        "ResourceType": "EC2Instance",
        "ComputerName": instance.private_dns_name,
        "IPAddress": instance.private_ip_address,
    }
