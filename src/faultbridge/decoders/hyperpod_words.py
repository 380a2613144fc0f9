"""The HyperPod health monitoring agent's own words: its conditions, reasons and actions, and what each asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from faultbridge.domain.faults import Action, Severity

CODES_BY_CONDITION: Mapping[str, str] = {
    "NvidiaGPUUnhealthy": "agent.gpu_unhealthy",
    "NvidiaErrorReboot": "agent.reboot_required",
    "NvidiaErrorTerminate": "agent.replace_required",
    "EfaError": "net.efa_error",
    "InstanceUnreachable": "host.unreachable",
}
CODES_BY_ACTION: Mapping[str, str] = {"reboot": "agent.reboot_required", "replace": "agent.replace_required"}


@dataclass(frozen=True, slots=True)
class Asked:
    """What the agent asks for in one event; `severity` is None where it follows from the code alone."""

    action: Action
    severity: Severity | None


_BY_REASON: Mapping[str, Asked] = {
    "XidUserAppError": Asked(Action.RESTART_APP, Severity.INFO),
    "NvidiaGpuXidRestartApp": Asked(Action.RESTART_APP, None),
    "NvidiaGpuXidErrorPendingReboot": Asked(Action.REBOOT_NODE, Severity.ERROR),
    "NvidiaGpuXidErrorPendingReplacement": Asked(Action.REPLACE_NODE, Severity.FATAL),
}
_BY_ACTION: Mapping[str, Asked] = {
    "reboot": Asked(Action.REBOOT_NODE, Severity.ERROR),
    "replace": Asked(Action.REPLACE_NODE, Severity.FATAL),
    "none": Asked(Action.NONE, Severity.INFO),
}
_BY_CONDITION: Mapping[str, Asked] = {
    "NvidiaErrorReboot": Asked(Action.REBOOT_NODE, Severity.ERROR),
    "NvidiaErrorTerminate": Asked(Action.REPLACE_NODE, Severity.FATAL),
}


def asked(reason: str | None, action: str | None, condition: str | None) -> Asked | None:
    """Return what an event asks for: its reason says it best, then its action, then its condition."""
    known = (
        _BY_REASON.get(reason or ""),
        _BY_ACTION.get((action or "").lower()),
        _BY_CONDITION.get(condition or ""),
    )
    return next((found for found in known if found is not None), None)
