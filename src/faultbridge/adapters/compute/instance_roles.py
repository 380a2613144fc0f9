"""The roles in instance profiles: SQS reports the id of the sender's role, while EC2 names only the profile."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translate
from faultbridge.log import log_cause


class InstanceRoles:
    """Reads the role id of each instance profile once per process; a changed role is noticed by the next process."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def role_ids(self, clients: Clients, instances: Iterable[Mapping[str, Any]]) -> dict[str, str]:
        """Return role ids by instance id, without the instances that have no readable profile with a role.

        A profile that cannot be read is logged, and read again by the next call.
        """
        profiles = {str(one["InstanceId"]): arn for one in instances if (arn := _profile(one))}
        for arn in sorted({*profiles.values()} - self._known.keys()):
            try:
                profile = clients.iam.get_instance_profile(InstanceProfileName=arn.rpartition("/")[2])
            except (ClientError, BotoCoreError) as error:
                reason = str(translate(error, f"reading the instance profile {arn}"))
                log_cause("node_role_unknown", reason=reason, level=logging.WARNING)
                continue
            roles = profile["InstanceProfile"]["Roles"]
            self._known[arn] = roles[0]["RoleId"] if roles else None
        return {instance: role for instance, arn in profiles.items() if (role := self._known.get(arn))}


def _profile(instance: Mapping[str, Any]) -> str:
    """Return the ARN of the profile of an instance that EC2 describes; empty if it has none."""
    return str((instance.get("IamInstanceProfile") or {}).get("Arn") or "")
