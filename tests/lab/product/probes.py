"""Probes: saves time by skipping probes that would find a restart or verification still running.

Such a probe only schedules the next probe. Skipping it does not change the results, because the first probe after the
end of the restart or verification is still made at its time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta

from faultbridge.model.cases import Attempt
from faultbridge.model.nodes import NodeState
from faultbridge.repair.attempt.progress import probe_time, update_attempt
from faultbridge.repair.attempt.step_runner import current_step

MINUTE = timedelta(minutes=1)
PROBE_INTERVAL = timedelta(seconds=30)
"""The first interval between two probes of a step, as in `StepTools`."""


def skip_probes(
    state: NodeState, ready_at: Callable[[str], datetime | None], now: datetime, begin: datetime
) -> NodeState | None:
    """Skip those probes of a restart or verification that would only find that the operation has not ended.

    A probe checks whether the operation has ended. Probes are made by sweeps, which run every minute from `begin` on.
    Returns the node as if the skipped probes had been made: they count as tries, and the next probe is the first that
    finds the operation ended or the attempt's deadline passed. Returns None if no probe can be skipped.

    `ready_at` returns the time at which an operation ends, or None.
    """
    case = state.live_case
    attempt = case.attempt if case else None
    ends = ready_at(attempt.operation) if attempt and attempt.operation else None
    if attempt is None or ends is None or not _only_probe_is_due(state, attempt, now):
        return None
    at, tries, probe_at = now, attempt.tries, attempt.probe_at
    while at < ends and attempt.deadline is not None and at < attempt.deadline:
        probe_at = probe_time(tries, attempt.deadline, at, PROBE_INTERVAL)
        tries += 1
        at = begin + MINUTE * math.ceil((probe_at - begin) / MINUTE)
    return None if tries == attempt.tries else update_attempt(state, tries=tries, probe_at=probe_at)


def _only_probe_is_due(state: NodeState, attempt: Attempt, now: datetime) -> bool:
    if attempt.probe_at != state.due_at or current_step(attempt) is None or attempt.task_token is None:
        return False
    return all(ends is None or ends > now for ends in (condition.quiet_until for condition in state.active()))
