"""GPU reset and reboot through SSM Run Command; the script on the instance does its work once a token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from faultbridge.adapters import ssm_commands
from faultbridge.adapters.aws_errors import code_of, translate, translated
from faultbridge.adapters.clients import Clients
from faultbridge.adapters.providers.failures import failure_of
from faultbridge.adapters.restarters.scripts import BOOT_ID, script
from faultbridge.adapters.ssm_commands import RUNNING, UNFINISHED
from faultbridge.domain.cases import RepairAction
from faultbridge.errors import Transient
from faultbridge.ports import Answer, ProviderFailure, Restart, RestartState

SECONDS = 1800
REASON_CHARACTERS = 300
SUCCESS = "Success"


class SsmRestarter:
    """A Restarter for instances whose SSM agent answers."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def restart(self, repair_action: RepairAction, instance_id: str, token: str) -> Answer:
        """Send the repair action's script, unless one was sent with this token.

        The call is never repeated by the client: what became of one that was lost is for a look to find out.
        """
        try:
            sent = ssm_commands.find(self._clients.ssm, instance_id, _named(repair_action, token))
            if sent is None:
                lines, once = script(repair_action, token), self._clients.ssm_once
                sent = ssm_commands.send(once, instance_id, _named(repair_action, token), lines, seconds=SECONDS)
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            return Answer(_failure(error), str(translate(error, f"{repair_action.value} of {instance_id}")))
        return Answer(operation=sent)

    def look(self, repair_action: RepairAction, instance_id: str, token: str) -> Restart:
        """Read how the command stands; one that was never sent is `absent`."""
        try:
            with translated(f"looking after the {repair_action.value} of {instance_id}"):
                sent = ssm_commands.find(self._clients.ssm, instance_id, _named(repair_action, token))
                found = ssm_commands.invocation(self._clients.ssm, instance_id, sent) if sent else None
        except Transient as error:
            return Restart(RestartState.UNKNOWN, str(error))
        if sent is None:
            return Restart(RestartState.ABSENT)
        if found is None:
            return Restart(RestartState.UNKNOWN, "SSM does not know the command yet", sent)
        return _judged(repair_action, found, sent)


def _named(repair_action: RepairAction, token: str) -> str:
    """Tell the command of a repair action from a verification's, which has a token of the same attempt."""
    return f"{token} {repair_action.value}"


def _failure(error: Exception) -> ProviderFailure:
    # The agent does not answer, or the instance is gone: either way nothing was sent.
    if isinstance(error, ClientError) and code_of(error) == "InvalidInstanceId":
        return ProviderFailure.NOT_FOUND
    return failure_of(error)


def _judged(repair_action: RepairAction, found: Mapping[str, Any], operation: str) -> Restart:
    details, output = ssm_commands.details_of(found), str(found.get("StandardOutputContent", ""))
    if details not in UNFINISHED and found["Status"] in RUNNING:
        return Restart(RestartState.RUNNING, operation=operation)
    if found["Status"] != SUCCESS:
        words = str(found.get("StandardErrorContent", "")).strip() or output.strip()
        reason = f"the {repair_action.value} ended as {details or found['Status']}: {words}".rstrip(": ")
        return Restart(RestartState.FAILED, reason[:REASON_CHARACTERS], operation)
    lines = (line.removeprefix(BOOT_ID) for line in output.splitlines() if line.startswith(BOOT_ID))
    return Restart(RestartState.DONE, operation=operation, boot_id=next(lines, None))
