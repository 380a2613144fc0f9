"""The shell scripts that restart an instance; each does its work once for a token, however often it is run.

What was done stands under `/var/lib/faultbridge`, a file a token, so that a command that is delivered twice or late
finds it done.
"""

from __future__ import annotations

import shlex

from faultbridge.domain.cases import RepairAction

FOLDER = "/var/lib/faultbridge"
RESET_SECONDS = 300
BOOT_ID = "boot_id="
REBOOT_NOW = 194
"""The exit code by which a script asks the SSM agent to boot the instance and to run the script again after it."""

# What keeps a GPU busy on a host without work of its own; started again afterwards if it ran before.
GPU_SERVICES = ("nvidia-dcgm", "dcgm-exporter", "nvidia-persistenced", "nvidia-fabricmanager")


def script(repair_action: RepairAction, token: str) -> tuple[str, ...]:
    """Return the lines of the script of a repair action."""
    done = shlex.quote(f"{FOLDER}/{token}.{repair_action.value}")
    head = ("set -u", f"done={done}", f"mkdir -p {FOLDER}", 'exec 9>"$done.lock"', "flock 9")
    return (*head, *(_RESET if repair_action is RepairAction.RESET_GPU else _REBOOT))


_RESET = (
    'if [ -s "$done" ]; then echo "reset already"; exit "$(cat "$done")"; fi',
    'ran=""',
    f"for service in {' '.join(GPU_SERVICES)}; do",
    '  if systemctl is-active --quiet "$service"; then ran="$service $ran"; systemctl stop "$service"; fi',
    "done",
    # All of them at once: those that are joined by NVSwitch cannot be reset alone.
    f"timeout {RESET_SECONDS} nvidia-smi --gpu-reset",
    "code=$?",
    'for service in $ran; do systemctl start "$service"; done',
    'echo "$code" > "$done"',
    'exit "$code"',
)

_REBOOT = (
    "boot=$(cat /proc/sys/kernel/random/boot_id)",
    'if [ -s "$done" ] && [ "$(cat "$done")" != "$boot" ]; then',
    f'  echo "{BOOT_ID}$boot"',
    "  exit 0",
    "fi",
    'echo "$boot" > "$done"',
    "sync",
    f"exit {REBOOT_NOW}",
)
