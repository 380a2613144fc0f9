"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from botocore.validate import validate_parameters

from faultbridge.adapters.aws.clients import Clients
from tests.contracts.provider import IMAGE
from tests.hyperpod import Response

ZONE, OTHER_ZONE, DEVICE = "us-east-1a", "us-east-1b", "/dev/sdf"


def launch(clients: Clients, zone: str) -> str:
    made: Any = clients.ec2.run_instances(
        ImageId=IMAGE, InstanceType="p4d.24xlarge", MinCount=1, MaxCount=1, Placement={"AvailabilityZone": zone}
    )
    return str(made["Instances"][0]["InstanceId"])


def volume_on(clients: Clients, instance: str, name: str | None) -> str:
    tags: Any = [{"ResourceType": "volume", "Tags": [{"Key": "faultbridge:volume", "Value": name}]}] if name else []
    made = clients.ec2.create_volume(AvailabilityZone=ZONE, Size=8, TagSpecifications=tags)["VolumeId"]
    clients.ec2.attach_volume(VolumeId=made, InstanceId=instance, Device=DEVICE)
    return made


def move_through_sagemaker(sagemaker: Clients, clients: Clients) -> None:
    """Let SageMaker's two calls (fake) move the volumes of moto; botocore validates requests and answers."""

    def answer(model: Any, params: Any, **_: Any) -> tuple[Response, dict[str, Any]]:
        asked = json.loads(params["body"])
        volume, instance = asked["VolumeId"], asked["NodeId"]
        if model.name == "DetachClusterNodeVolume":
            clients.ec2.detach_volume(VolumeId=volume, InstanceId=instance)
        else:
            clients.ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdb")
        answered = asked | {"AttachTime": datetime.now(UTC), "Status": "detaching", "DeviceName": "/dev/sdb"}
        validate_parameters(answered, model.output_shape)
        return Response(200), answered

    for operation in ("DetachClusterNodeVolume", "AttachClusterNodeVolume"):
        sagemaker.sagemaker_no_retry.meta.events.register_first(f"before-call.sagemaker.{operation}", answer)
