"""Reset GPUs or reboot an instance through SSM Run Command.

The script on the instance acts at most once per token, even if SSM runs it several times. Before it acts, it writes a
marker file for the token under `/var/lib/faultbridge`. If the marker cannot be stored durably, the script does nothing
and fails.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import AWS_ERRORS, code_of, translate, translated
from faultbridge.adapters.ec2 import commands
from faultbridge.adapters.ec2.instances import failure_of
from faultbridge.model.enums import ProviderFailure, RepairAction
from faultbridge.model.errors import Transient
from faultbridge.record.ports.compute import CallResult, Restart, RestartState

SECONDS = 1800
REASON_CHARACTERS = 300
SUCCESS = "Success"


class SsmRestarter:
    """A Restarter that resets GPUs and reboots instances through their SSM agent."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def restart(self, repair_action: RepairAction, instance_id: str, token: str) -> CallResult:
        """Send the script once per token; after a lost response `status` decides. Only throttling is repeated."""
        if repair_action not in _LINES:
            return CallResult(ProviderFailure.PROVIDER_ERROR, f"SSM has no restart script for {repair_action.value}")
        try:
            sent = commands.find(self._clients.ssm, instance_id, _command_token(repair_action, token))
            if sent is None:
                lines, ssm = script(repair_action, token), self._clients.ssm_no_retry
                sent = commands.send(ssm, instance_id, _command_token(repair_action, token), lines, seconds=SECONDS)
        except AWS_ERRORS as error:
            return CallResult(_failure(error), str(translate(error, f"{repair_action.value} of {instance_id}")))
        return CallResult(operation=sent)

    def status(self, repair_action: RepairAction, instance_id: str, token: str) -> Restart:
        """Return the status of the restart; `absent` without a command, `unknown` after a temporary error."""
        try:
            with translated(f"reading the {repair_action.value} of {instance_id}"):
                sent = commands.find(self._clients.ssm, instance_id, _command_token(repair_action, token))
                found = commands.invocation(self._clients.ssm, instance_id, sent) if sent else None
        except Transient as error:
            return Restart(RestartState.UNKNOWN, str(error))
        if sent is None:
            return Restart(RestartState.ABSENT)
        if found is None:
            return Restart(RestartState.UNKNOWN, "SSM does not list the command yet", sent)
        return _restart_status(repair_action, found, sent)


def _command_token(repair_action: RepairAction, token: str) -> str:
    """Return a token of its own, because verifications of the same attempt use `token` for their commands."""
    return f"{token} {repair_action.value}"


def _failure(error: Exception) -> ProviderFailure:
    # The SSM agent does not respond, or the instance is gone. In both cases no command was sent.
    if isinstance(error, ClientError) and code_of(error) == "InvalidInstanceId":
        return ProviderFailure.NOT_FOUND
    return failure_of(error)


def _restart_status(repair_action: RepairAction, found: Mapping[str, Any], operation: str) -> Restart:
    details, output = commands.details_of(found), str(found.get("StandardOutputContent", ""))
    if commands.is_running(found):
        return Restart(RestartState.RUNNING, operation=operation)
    if found["Status"] != SUCCESS:
        message = str(found.get("StandardErrorContent", "")).strip() or output.strip()
        reason = f"{repair_action.value} ended as {details or found['Status']}: {message}".rstrip(": ")
        return Restart(RestartState.FAILED, reason[:REASON_CHARACTERS], operation)
    lines = (line.removeprefix(BOOT_ID) for line in output.splitlines() if line.startswith(BOOT_ID))
    return Restart(RestartState.DONE, operation=operation, boot_id=next(lines, None))


FOLDER = "/var/lib/faultbridge"
RESET_SECONDS = 300
BOOT_ID = "boot_id="
STARTED = "started"
REBOOT_NOW = 194
"""Exit code that makes the SSM agent reboot the instance and run the script again afterwards."""

# Services that hold the GPUs of an idle host. Those that ran before the reset are started again after it.
GPU_SERVICES = ("nvidia-dcgm", "dcgm-exporter", "nvidia-persistenced", "nvidia-fabricmanager")


CANNOT_RECORD = 73
"""Exit code of a script that did nothing, because its marker cannot be written."""

UNFINISHED_BEFORE = 75
"""Exit code of a script that did nothing, because an earlier run of its token did not finish."""


def script(repair_action: RepairAction, token: str) -> tuple[str, ...]:
    """Return the script for a GPU reset or a reboot; raises KeyError for any other repair action."""
    done = shlex.quote(f"{FOLDER}/{token}.{repair_action.value}")
    return ("set -u", f"done={done}", *_HEAD, *_LINES[repair_action])


# `mark` returns success only when the marker is on disk. The rename keeps a full disk from leaving half a marker.
_HEAD = (
    'refuse() { echo "$2; nothing was done" >&2; exit "$1"; }',
    "mark() {",
    '  echo "$1" > "$done.new" && sync "$done.new" && mv "$done.new" "$done" && sync "${done%/*}"',
    "}",
    f'mkdir -p {FOLDER} && touch "$done.lock" || refuse {CANNOT_RECORD} "{FOLDER} is not writable"',
    f'exec 9>> "$done.lock" && flock 9 || refuse {CANNOT_RECORD} "$done.lock cannot be locked"',
    'before=""',
    f'if [ -e "$done" ]; then before=$(cat "$done") && [ -n "$before" ] || before={STARTED}; fi',
)

_RESET = (
    f'if [ "$before" = {STARTED} ]; then refuse {UNFINISHED_BEFORE} "an earlier run of this reset did not finish"; fi',
    'if [ -n "$before" ]; then echo "reset already"; exit "$before"; fi',
    f'mark {STARTED} || refuse {CANNOT_RECORD} "$done cannot be written"',
    'ran=""',
    f"for service in {' '.join(GPU_SERVICES)}; do",
    '  if systemctl is-active --quiet "$service"; then ran="$service $ran"; systemctl stop "$service"; fi',
    "done",
    # Reset all GPUs at once: GPUs connected through NVSwitch cannot be reset one by one.
    f"timeout {RESET_SECONDS} nvidia-smi --gpu-reset",
    "code=$?",
    'for service in $ran; do systemctl start "$service"; done',
    'mark "$code" || echo "$done cannot be written; the reset is not repeated" >&2',
    'exit "$code"',
)

_REBOOT = (
    "boot=$(cat /proc/sys/kernel/random/boot_id) || exit",
    f'if [ "$before" = {STARTED} ]; then refuse {UNFINISHED_BEFORE} "$done cannot be read"; fi',
    'if [ -n "$before" ] && [ "$before" != "$boot" ]; then',
    f'  echo "{BOOT_ID}$boot"',
    "  exit 0",
    "fi",
    # A marker in memory is lost by the reboot, so the agent would run this script and reboot without end.
    f'case "$(stat -f -c %T {FOLDER})" in',
    f'  tmpfs | ramfs) refuse {CANNOT_RECORD} "{FOLDER} does not survive a reboot" ;;',
    "esac",
    f'[ -n "$before" ] || mark "$boot" || refuse {CANNOT_RECORD} "$done cannot be written"',
    f"exit {REBOOT_NOW}",
)

_LINES: Mapping[RepairAction, tuple[str, ...]] = {RepairAction.RESET_GPU: _RESET, RepairAction.REBOOT_NODE: _REBOOT}
