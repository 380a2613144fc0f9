"""boto3 clients of an embedded stack, and the few calls that several modules here make."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from faultbridge.local.environment import client_environment
from faultbridge.local.state import StackState

if TYPE_CHECKING:
    from collections.abc import Mapping


def client(service: str, environment: Mapping[str, str]) -> Any:  # noqa: ANN401 - boto3 makes its classes at run time
    """Return a boto3 client aimed by the variables of an embedded stack, whatever the process's own say."""
    import boto3
    from botocore.config import Config

    make: Any = boto3.client  # its type knows services by literal names only
    own = f"AWS_ENDPOINT_URL_{service.upper().replace('-', '_')}"
    return make(
        "autoscaling" if service == "auto-scaling" else service,
        endpoint_url=environment.get(own, environment["AWS_ENDPOINT_URL"]),
        region_name=environment["AWS_REGION"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        config=Config(retries={"total_max_attempts": 2}, connect_timeout=5, read_timeout=60),
    )


def of_state(service: str, state: StackState) -> Any:  # noqa: ANN401 - as above
    """Return a boto3 client of the stack with that state."""
    return client(service, client_environment(state.ports))


def outputs(state: StackState) -> dict[str, str]:
    """Return the outputs of the deployed stack."""
    found = of_state("cloudformation", state).describe_stacks(StackName=state.stack)["Stacks"][0]
    return {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", [])}


def resources(state: StackState, *types: str) -> Iterator[tuple[str, str]]:
    """Return the logical and the physical id of each deployed resource of one of these types."""
    pages = of_state("cloudformation", state).get_paginator("list_stack_resources").paginate(StackName=state.stack)
    for page in pages:
        for resource in page["StackResourceSummaries"]:
            if resource["ResourceType"] in types:
                yield resource["LogicalResourceId"], resource.get("PhysicalResourceId", "")


def ensure_bucket(state: StackState, name: str) -> None:
    """Make the bucket that `sam deploy` puts archives in; no harm when it is there."""
    of_state("s3", state).create_bucket(Bucket=name)


def json_attribute(text: str) -> dict[str, Any]:
    """Return a JSON object kept as text in an attribute; empty when there is none."""
    parsed = json.loads(text) if text else {}
    return parsed if isinstance(parsed, dict) else {}
