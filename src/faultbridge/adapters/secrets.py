"""The secret that page tokens are signed with."""

from __future__ import annotations

from functools import cached_property

from faultbridge.adapters.aws_errors import translated
from faultbridge.adapters.clients import Clients


class StackSecret:
    """A secret of the stack, read once a process."""

    def __init__(self, clients: Clients, name: str) -> None:
        self._clients = clients
        self._name = name

    @cached_property
    def value(self) -> bytes:
        """Return the secret."""
        with translated("reading the secret of page tokens"):
            answer = self._clients.secrets.get_secret_value(SecretId=self._name)
        return str(answer["SecretString"]).encode()

    def __call__(self) -> bytes:
        """Return the secret."""
        return self.value
