"""Heartbeat monitor: records the fault `host.silent` for a node whose heartbeats stopped.

The fault is recorded by `observe`, which also processes all other faults. The node's next heartbeat clears it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct, field

from faultbridge.decide.fold.changes import Arrival
from faultbridge.decide.observe import observe
from faultbridge.decode.native import HEARTBEAT, SILENT
from faultbridge.model.conditions import condition_key
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor
from faultbridge.model.faults import NODE_COMPONENT, Fault, Snapshot
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.times import to_text
from faultbridge.record.append import Append
from faultbridge.record.ports.presence import CheckResult, InstanceChecks, Presence
from faultbridge.record.rulebook import rules_of
from faultbridge.serve.ingest.canary import LAST_RECORDED, last_sent_at
from faultbridge.serve.ingest.heartbeat_log import WRITE_AFTER, HeartbeatLog


class Answer(StrEnum):
    """What is known about the instance of a node without heartbeats. Earlier members take precedence."""

    GONE = "gone"
    HOST_IMPAIRED = "host_impaired"
    IMPAIRED = "impaired"
    UNREACHABLE = "unreachable"
    REACHABLE = "reachable"
    ALIVE = "alive"
    UNKNOWN = "unknown"


_TEXTS = {
    Answer.GONE: "The provider has no such instance any more.",
    Answer.HOST_IMPAIRED: "The system status check of its instance failed: the host, its power or its network.",
    Answer.IMPAIRED: "The instance status check of its instance failed: the operating system or its network settings.",
    Answer.UNREACHABLE: "Its SSM agent lost its connection: the operating system or the network path failed.",
    Answer.REACHABLE: "Its SSM agent is connected: the agent of Faultbridge or its path to the queue failed.",
    Answer.ALIVE: "The provider still has its instance: the agent, the operating system or the network path failed.",
}


class ProbedInstance(Struct, frozen=True):
    """What the provider reports about an instance: whether it exists, and its status checks.

    `orchestrator` states whether the orchestrator reports the node as ready; `answer` ignores it.
    """

    presence: Presence = Presence.UNKNOWN
    checks: InstanceChecks = field(default_factory=InstanceChecks)
    orchestrator: CheckResult = CheckResult.UNKNOWN

    @property
    def answer(self) -> Answer:
        """Return the first member of `Answer` that the provider's report supports.

        A failed status check therefore takes precedence over a connected SSM agent. The answer is UNKNOWN if the report
        supports no other member.
        """
        if self.presence.is_gone:
            return Answer.GONE
        known = (
            (self.checks.system is CheckResult.FAILED, Answer.HOST_IMPAIRED),
            (self.checks.instance is CheckResult.FAILED, Answer.IMPAIRED),
            (self.checks.agent is CheckResult.FAILED, Answer.UNREACHABLE),
            (self.checks.agent is CheckResult.PASSED, Answer.REACHABLE),
            (self.presence is Presence.ALIVE, Answer.ALIVE),
        )
        return next((answer for holds, answer in known if holds), Answer.UNKNOWN)


def missing_heartbeat_fault(last: datetime, timeout: timedelta, due: datetime, probed: ProbedInstance) -> Fault:
    """Return the fault `host.silent` for a node whose last heartbeat (`last`) is older than the timeout.

    `due` is the time at which the timeout ended; the fault starts then. `probed` is what the provider reports about the
    instance. The message and the attributes of the fault contain this report.
    """
    answer, checks = probed.answer, probed.checks
    text = f"No heartbeat for {int(timeout.total_seconds())} s."
    return Fault(
        HEARTBEAT,
        SILENT,
        NODE_COMPONENT,
        f"{text} {_TEXTS[answer]}" if answer in _TEXTS else text,
        observed_at=due,
        evidence=f"last heartbeat at {to_text(last)}",
        attributes={
            "last_heartbeat": to_text(last),
            "instance": answer.value,
            "system_status": checks.system.value,
            "instance_status": checks.instance.value,
            "ssm_agent": checks.agent.value,
            "orchestrator": probed.orchestrator.value,
        },
    )


ALWAYS_PLAUSIBLE = 2
"""This many overdue nodes are no sign of a failed intake while only one canary is missing."""

CANARY_OVERDUE, CANARY_MISSING = timedelta(minutes=7), timedelta(minutes=11)
"""A canary is recorded every five minutes: after these times, one or two of them are missing."""

HEARTBEAT_GRACE = timedelta(minutes=2, seconds=30)
"""Within this time, a new heartbeat of a running node (one every 140 s) reaches the queue."""

Probe = Callable[[NodeState], ProbedInstance]
"""Returns what the provider reports about the instance of a node."""


def unprobed(_: NodeState) -> ProbedInstance:
    """Return a result in which everything is unknown, without a call to the provider."""
    return ProbedInstance()


class HeartbeatMonitor(Struct, frozen=True):
    """Records missing heartbeats as faults, and ends these faults."""

    log: HeartbeatLog
    append: Append

    def last_canary(self) -> datetime | None:
        """Return when the last recorded canary (a test record) was sent; None before the first canary."""
        return last_sent_at(self.log.table, LAST_RECORDED)

    def intake_failed(
        self, canary: datetime | None, overdue: int, on_time: int, heartbeat: datetime | None = None
    ) -> bool:
        """Return whether the intake has failed: no records arrive at all, so missing heartbeats prove nothing.

        The result is True only if all of these conditions are met:

        - A canary (a test record) was recorded before, and the last one, sent at `canary`, is more than 7 minutes old.
        - The last heartbeat of any node, which arrived at `heartbeat`, is more than 150 seconds old or unknown. If it
          is newer, only the canary failed.
        - The canary is more than 11 minutes old, or the number of nodes with an overdue heartbeat (`overdue`) is more
          than 2 and more than the number of the other nodes (`on_time`).
        """
        now = self.append.clock.now()
        if canary is None or now - canary <= CANARY_OVERDUE:
            return False
        if heartbeat is not None and now - heartbeat <= HEARTBEAT_GRACE:
            log_cause("canary_missing", reason="heartbeats arrive and the canary does not", level=logging.WARNING)
            return False
        if now - canary <= CANARY_MISSING and (overdue <= ALWAYS_PLAUSIBLE or overdue <= on_time):
            return False
        log_cause(
            "missing_heartbeats_ignored",
            reason="no records arrive: the canary is overdue",
            level=logging.WARNING,
            overdue=overdue,
            on_time=on_time,
        )
        return True

    def check(
        self,
        node: NodeKey,
        last: datetime,
        arrived: datetime | None,
        probe: Probe = unprobed,
        timeout: timedelta | None = None,
    ) -> bool:
        """Record `host.silent` for a node in service whose last heartbeat, at `last`, is too old.

        Returns True if the fault is recorded, or if no fault is needed because the node is not in service. Returns
        False if it is too early to decide; the next sweep then checks again. It is too early in two cases:

        - Less than a timeout has passed since `last`, since the former fault `host.silent` of the node ended, or since
          the time before which its observations are ignored.
        - No record has arrived since the next heartbeat of this node should have arrived, so the intake may have
          failed.

        `arrived` is the later of two times: when the latest recorded canary (a test record) was sent, and when the
        latest heartbeat of any node was received. Before the first canary it is None, and the second case does not
        apply. `timeout` replaces that of the policy.
        """
        timeout = timeout or rules_of(self.log.rulebook, node.cluster).policy.limits.heartbeat_timeout
        if not _is_conclusive(arrived, last, timeout):
            return False

        def revise(state: NodeState, now: datetime) -> Transition:
            due = _watched_since(state, last) + timeout
            if not _in_service(state) or not _is_due(arrived, due, timeout, now) or _is_recorded(state, due):
                return Transition(state)
            fault = missing_heartbeat_fault(last, timeout, due, probe(state))
            return self._observe(state, Arrival(fault, due, f"silence-{to_text(due)}"), now)

        state = self.append(node, revise, actor=Actor.SWEEP).state
        due = _watched_since(state, last) + timeout
        return not _in_service(state) or _is_due(arrived, due, timeout, self.append.clock.now())

    def clear(self, node: NodeKey, at: datetime) -> None:
        """End the fault `host.silent` of a node, because a heartbeat arrived at the time `at`.

        Usually ingest has ended the fault already. This call covers a heartbeat that arrived while the fault was
        recorded.
        """

        def revise(state: NodeState, now: datetime) -> Transition:
            if all(condition.code != SILENT for condition in state.active()):
                return Transition(state)
            snapshot = Snapshot(HEARTBEAT, {SILENT: (NODE_COMPONENT,)}, (), at)
            return self._observe(state, Arrival(snapshot, at, f"heartbeat-{to_text(at)}"), now)

        self.append(node, revise, actor=Actor.SWEEP)

    def _observe(self, state: NodeState, arrival: Arrival, now: datetime) -> Transition:
        rules, catalog = rules_of(self.log.rulebook, state.key.cluster), self.log.rulebook.catalog()
        observed = observe(state, [arrival], rules=rules, catalog=catalog, now=now)
        return Transition(observed.state, observed.drafts)


def _in_service(state: NodeState) -> bool:
    return state.status is not None and state.status.in_service


def _watched_since(state: NodeState, last: datetime) -> datetime:
    """Return when the node's current period without heartbeats started."""
    ended = state.tombstones.get(condition_key(SILENT, NODE_COMPONENT))
    evicted = state.evicted.get(SILENT, last)
    return max(last, state.floor or last, evicted, ended.ended_at if ended else last)


def _is_recorded(state: NodeState, due: datetime) -> bool:
    return any(condition.code == SILENT and condition.last_at >= due for condition in state.active())


def _is_due(arrived: datetime | None, due: datetime, timeout: timedelta, now: datetime) -> bool:
    return now >= due and _is_conclusive(arrived, due - timeout, timeout)


def _is_conclusive(arrived: datetime | None, last: datetime, timeout: timedelta) -> bool:
    """Return whether the intake still worked after the node's next heartbeat should have arrived.

    Only then does a missing heartbeat show a fault. `arrived` is the later of two times: when the latest canary (a test
    record) was sent, and when the latest heartbeat of any node was received. Before the first canary it is None. The
    result is then True, so that missing heartbeats are reported.
    """
    return arrived is None or arrived > last + timeout * WRITE_AFTER + HEARTBEAT_GRACE
