"""Find the id of the IAM role in the instance profile of an instance.

SQS reports the role id of the sender of a message, but EC2 names only the instance profile of an instance. The role id
of the profile is therefore read from IAM, so that a sender can be compared with an instance.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translate
from faultbridge.log import log_cause


class InstanceRoles:
    """Reads the role ids of instance profiles, and caches them for the life of the object.

    If a profile later gets another role, the object continues to return the old role.
    """

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def role_ids(self, clients: Clients, instances: Iterable[Mapping[str, Any]]) -> dict[str, str]:
        """Return the role id of each instance, by instance id.

        An instance is left out if it has no profile, no role, or a profile that cannot be read. A failed read is
        logged, and the next call repeats it.
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
    return str((instance.get("IamInstanceProfile") or {}).get("Arn") or "")
