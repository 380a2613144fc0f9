"""Roles of other accounts: taken when a call needs them, renewed as their credentials run out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from boto3.session import Session
from botocore.credentials import (
    CredentialProvider,
    CredentialResolver,
    DeferredRefreshableCredentials,
    create_assume_role_refresher,
)
from botocore.session import Session as CoreSession

if TYPE_CHECKING:
    from mypy_boto3_sts.client import STSClient

    from faultbridge.domain.clusters import ProviderRole

SESSION_NAME = "faultbridge"
"""Under which name a role is taken; CloudTrail of the other account shows it."""


def session_of(role: ProviderRole, sts: STSClient, region: str | None) -> Session:
    """Return a session that acts as a role; `sts` is ours."""
    core = CoreSession()
    core.register_component("credential_provider", CredentialResolver([_Taken(role, sts)]))
    return Session(botocore_session=core, region_name=region)


class _Taken(CredentialProvider):
    """What botocore asks for credentials."""

    METHOD = "assume-role"

    def __init__(self, role: ProviderRole, sts: STSClient) -> None:
        super().__init__()
        self._role, self._sts = role, sts

    def load(self) -> DeferredRefreshableCredentials:
        asked = {"RoleArn": self._role.arn, "RoleSessionName": SESSION_NAME}
        if self._role.external_id:
            asked["ExternalId"] = self._role.external_id
        return DeferredRefreshableCredentials(create_assume_role_refresher(self._sts, asked), self.METHOD)
