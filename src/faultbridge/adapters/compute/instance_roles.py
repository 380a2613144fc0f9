"""The roles in instance profiles: SQS reports the id of the sender's role, while EC2 names only the profile."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translate
from faultbridge.log import log_cause


class InstanceRoles:
    """Reads the role id of each instance profile once per process; a profile keeps its role until it is changed."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def role_id(self, clients: Clients, instance: Mapping[str, Any]) -> str | None:
        """Return the role id of an instance that EC2 describes; None without a profile or without permission."""
        arn = (instance.get("IamInstanceProfile") or {}).get("Arn")
        if not arn:
            return None
        if arn not in self._known:
            try:
                profile = clients.iam.get_instance_profile(InstanceProfileName=arn.rpartition("/")[2])
            except (ClientError, BotoCoreError) as error:
                reason = str(translate(error, f"reading the instance profile {arn}"))
                log_cause("node_role_unknown", reason=reason, level=logging.WARNING)
                return None
            roles = profile["InstanceProfile"]["Roles"]
            self._known[arn] = roles[0]["RoleId"] if roles else None
        return self._known[arn]
