"""Finds what nodes report: faults shortly before a job failed, and logs that continue afterwards."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.explain.signals.signal import Role, Signal, Trust
from faultbridge.explain.verdict.mechanisms import DECISIVE, Outlook
from faultbridge.explain.verdict.situation import Situation

NODE_DOMAINS = frozenset({"hardware", "network"})


def faults_shortly_before(situation: Situation) -> tuple[Signal, ...]:
    """Return the decisive faults of hardware or network that nodes reported shortly before the job failed.

    A decisive fault is enough to prove a failure mechanism. Mechanisms with the outlook STOP do not count. The time
    range starts `fault_seconds` (a limit of the weights) before the job may have begun to fail
    (`TimeLine.failing_since`). It ends at the first failure of the job, plus a tolerance for clocks that differ
    (`skew_seconds`).
    """
    since, until = situation.line.failing_since, situation.line.failed_at
    if since is None or until is None:
        return ()
    limits = situation.weights.limits
    since -= timedelta(seconds=limits["fault_seconds"])
    until += timedelta(seconds=limits["skew_seconds"])
    own = (one for one in situation.line.signals if one.trust is Trust.NODE and one.role is not Role.CONTEXT)
    in_time = (one for one in own if one.at and since <= one.at <= until)
    return tuple(one for one in in_time if _is_of_hardware(situation, one))


def continues_after(situation: Situation, sign: Signal) -> bool:
    """Return whether a node's log continues after the line of the job that names the node.

    A log continues if its last time is more than `skew_seconds` after the line. The node was then still alive. If the
    line (`sign`) has no time, the time of the job's first failure is used instead. If that time is unknown too, any
    time in the node's log is enough.
    """
    at = sign.at or situation.line.failed_at
    skew = timedelta(seconds=situation.weights.limits["skew_seconds"])
    logs = (one for one in situation.spans if one.trust is Trust.NODE and one.node == sign.node)
    return any(one.last_at is not None and (at is None or one.last_at > at + skew) for one in logs)


def _is_of_hardware(situation: Situation, one: Signal) -> bool:
    return any(
        mechanism.domain in NODE_DOMAINS and mechanism.outlook is not Outlook.STOP
        and mechanism.strength(one) == DECISIVE
        for mechanism in situation.mechanisms
    )  # fmt: skip
