"""Maps conditions, reasons and actions of the HyperPod agent to fault codes and recommendations."""

from __future__ import annotations

from collections.abc import Mapping

from faultbridge.dataclass import dataclass
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
class Recommendation:
    """The action, and perhaps the severity, that the HyperPod health agent recommends in one event.

    `severity` is None if the fault code determines the severity.
    """

    action: Action
    severity: Severity | None


_BY_REASON: Mapping[str, Recommendation] = {
    "XidUserAppError": Recommendation(Action.RESTART_APP, Severity.INFO),
    "NvidiaGpuXidRestartApp": Recommendation(Action.RESTART_APP, None),
    "NvidiaGpuXidErrorPendingReboot": Recommendation(Action.REBOOT_NODE, Severity.ERROR),
    "NvidiaGpuXidErrorPendingReplacement": Recommendation(Action.REPLACE_NODE, Severity.FATAL),
}
_BY_ACTION: Mapping[str, Recommendation] = {
    "reboot": Recommendation(Action.REBOOT_NODE, Severity.ERROR),
    "replace": Recommendation(Action.REPLACE_NODE, Severity.FATAL),
    "none": Recommendation(Action.NONE, Severity.INFO),
}
_BY_CONDITION: Mapping[str, Recommendation] = {
    "NvidiaErrorReboot": Recommendation(Action.REBOOT_NODE, Severity.ERROR),
    "NvidiaErrorTerminate": Recommendation(Action.REPLACE_NODE, Severity.FATAL),
}


def recommendation_of(reason: str | None, action: str | None, condition: str | None) -> Recommendation | None:
    """Return the recommendation of an event, or None if it has none.

    The first of these that implies a recommendation determines it: the reason, the action, the condition.
    """
    matches = (
        _BY_REASON.get(reason or ""),
        _BY_ACTION.get((action or "").lower()),
        _BY_CONDITION.get(condition or ""),
    )
    return next((match for match in matches if match is not None), None)
