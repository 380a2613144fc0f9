"""Read CloudFormation outputs and secrets of the deployed stack, and the caller's identity."""

from __future__ import annotations

from functools import cached_property

from botocore.exceptions import ClientError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import code_of, message_of, translated
from faultbridge.model.errors import Misconfigured


def stack_outputs(clients: Clients, stack: str) -> dict[str, str]:
    """Return the outputs of a CloudFormation stack; raises Misconfigured if it does not exist."""
    with translated(f"reading the stack {stack}"):
        try:
            answer = clients.cloudformation.describe_stacks(StackName=stack)
        except ClientError as error:
            if code_of(error) == "ValidationError" and "does not exist" in message_of(error):
                raise Misconfigured(f"stack not found: {stack!r}; check the account, region and stack name") from None
            raise
    outputs = answer["Stacks"][0].get("Outputs", [])
    return {output["OutputKey"]: output["OutputValue"] for output in outputs}


class StackSecret:
    """A secret in AWS Secrets Manager; the object keeps the first value that it reads."""

    def __init__(self, clients: Clients, name: str) -> None:
        self._clients = clients
        self._name = name

    @cached_property
    def value(self) -> bytes:
        """Return the value of the secret; the first use reads it from Secrets Manager."""
        with translated(f"reading the secret {self._name}"):
            answer = self._clients.secrets.get_secret_value(SecretId=self._name)
        return str(answer["SecretString"]).encode()

    def __call__(self) -> bytes:
        """Return `value`, so that the object can be passed as a function that reads the secret."""
        return self.value

    def replace(self, value: bytes) -> None:
        """Store a new value of the secret; this object continues to return the value that it has read."""
        with translated(f"changing the secret {self._name}"):
            self._clients.secrets.put_secret_value(SecretId=self._name, SecretString=value.decode())


def caller_arn(clients: Clients) -> str:
    """Return the ARN of the AWS principal whose credentials the clients use; needs no IAM permission."""
    with translated("reading the caller's identity"):
        return clients.sts.get_caller_identity()["Arn"]
