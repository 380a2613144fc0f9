"""The outputs of a deployed stack."""

from __future__ import annotations

from botocore.exceptions import ClientError

from faultbridge.adapters.aws_errors import code_of, message_of, translated
from faultbridge.adapters.clients import Clients
from faultbridge.errors import Misconfigured


def stack_outputs(clients: Clients, stack: str) -> dict[str, str]:
    """Read what a stack says of itself; Misconfigured when there is no such stack where the clients look."""
    with translated(f"looking for the stack {stack}"):
        try:
            answer = clients.cloudformation.describe_stacks(StackName=stack)
        except ClientError as error:
            if code_of(error) == "ValidationError" and "does not exist" in message_of(error):
                raise Misconfigured(f"there is no stack {stack!r} here") from None
            raise
    outputs = answer["Stacks"][0].get("Outputs", [])
    return {one["OutputKey"]: one["OutputValue"] for one in outputs}
