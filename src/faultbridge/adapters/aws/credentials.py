"""AWS identities: sessions for roles in other accounts, and the ARN of the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.credentials import (
    CredentialProvider,
    CredentialResolver,
    DeferredRefreshableCredentials,
    create_assume_role_refresher,
)

from faultbridge.adapters.aws.clients import new_session
from faultbridge.adapters.aws.errors import translated

if TYPE_CHECKING:
    from botocore.session import Session
    from mypy_boto3_sts.client import STSClient

    from faultbridge.adapters.aws.clients import Clients
    from faultbridge.model.cluster.config import ProviderRole

SESSION_NAME = "faultbridge"
"""Session name of an assumed role; CloudTrail of the other account shows it."""


def caller_arn(clients: Clients) -> str:
    """Return the ARN of the AWS principal whose credentials the clients use; needs no IAM permission."""
    with translated("reading the caller's identity"):
        return clients.sts.get_caller_identity()["Arn"]


def session_for_role(role: ProviderRole, sts: STSClient, region: str | None) -> Session:
    """Return a session with the credentials of a role, which `sts`, a client of our own account, assumes."""
    session = new_session(region)
    session.register_component("credential_provider", CredentialResolver([_AssumedRole(role, sts)]))
    return session


class _AssumedRole(CredentialProvider):
    """Assumes a role on first use, and renews the credentials before they expire."""

    METHOD = "assume-role"

    def __init__(self, role: ProviderRole, sts: STSClient) -> None:
        super().__init__()
        self._role, self._sts = role, sts

    def load(self) -> DeferredRefreshableCredentials:
        request = {"RoleArn": self._role.arn, "RoleSessionName": SESSION_NAME}
        if self._role.external_id:
            request["ExternalId"] = self._role.external_id
        return DeferredRefreshableCredentials(create_assume_role_refresher(self._sts, request), self.METHOD)
