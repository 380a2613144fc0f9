"""Heartbeat monitor: records the fault `host.silent` for a node whose heartbeats stopped.

The time at which the queue received a node's last heartbeat is stored with a timer. It is written again after half of
the timeout. When the timer is due, the sweep records the fault through the same fold as every other fault. The next
heartbeat clears it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from faultbridge.decoders.native.heartbeat import SOURCE as HEARTBEAT
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.edges import Actor
from faultbridge.domain.nodes import AliasRow, NodeKey, NodeState
from faultbridge.domain.times import from_text, to_text
from faultbridge.errors import Conflict
from faultbridge.ingest.canary import LAST_RECORDED, last_sent_at
from faultbridge.ingest.missing_heartbeat import ProbedInstance, missing_heartbeat_fault
from faultbridge.ingest.record_reader import RecordPart
from faultbridge.ledger.append import Append
from faultbridge.log import log_cause
from faultbridge.pipeline.fold.changes import Arrival
from faultbridge.pipeline.normalize.resolve import IncarnationMatch, match_incarnation
from faultbridge.pipeline.observe import observe
from faultbridge.ports import Table
from faultbridge.rules.rulebook import Rulebook, rules_of
from faultbridge.storage import items, keys
from faultbridge.storage.writes import WORK, Absent, AnyOf, Below, Equals, Item, Put

ALWAYS_PLAUSIBLE = 2
"""This many overdue nodes are no sign of a failed intake while only one canary is missing."""

CANARY_OVERDUE, CANARY_MISSING = timedelta(minutes=7), timedelta(minutes=11)
"""A canary is recorded every five minutes: after these times, one or two of them are missing."""

HEARTBEAT_GRACE = timedelta(minutes=2, seconds=30)
"""A node that still runs has sent a heartbeat within this time, one every two minutes, and it has reached the queue."""

STORE_AFTER = 0.5
"""A heartbeat is stored if the stored one is older than this share of the timeout; DynamoDB charges for writes. A
silent node is reported after one to one and a half timeouts."""

MAX_TIMERS_READ = 100
MAX_REMEMBERED = 50_000


Probe = Callable[[NodeState], ProbedInstance]
"""Returns what the provider reports about the instance of a node."""


def unprobed(_: NodeState) -> ProbedInstance:
    """Return that nothing is known, without a probe."""
    return ProbedInstance()


@dataclass(frozen=True, slots=True)
class HeartbeatMonitor:
    """Stores heartbeats, and records missing ones as faults."""

    table: Table
    append: Append
    rulebook: Rulebook
    _stored: dict[NodeKey, datetime] = field(default_factory=dict)

    def record(self, heartbeats: Mapping[NodeKey, datetime]) -> None:
        """Store heartbeats. One that closely follows the stored one of its node is skipped without a call; most are."""
        due = {node: at for node, at in heartbeats.items() if self._must_store(node, at, self._stored.get(node))}
        nodes = {keys.heartbeat(node): node for node in due}
        found = self.table.get_many(nodes) if nodes else {}
        for key, node in nodes.items():
            last = _last(found.get(key))
            if last is None or self._must_store(node, due[node], last):
                self._store(node, due[node], self._timeout(node))
            else:
                self._remember(node, last)

    def intake_failed(self, overdue: int) -> bool:
        """Return whether no records arrive at all: a canary is overdue, and so are most heartbeats.

        After two missing canaries, heartbeats do not matter. Before the first canary, nothing shows that the intake
        ever worked, so missing heartbeats are reported as faults.
        """
        now, canary = self.append.clock.now(), last_sent_at(self.table, LAST_RECORDED)
        if canary is None or now - canary <= CANARY_OVERDUE:
            return False
        on_time = self._on_time()
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

    def check(self, node: NodeKey, probe: Probe = unprobed) -> None:
        """Record `host.silent` for a node in service whose timer is due and whose heartbeat is missing.

        Until a canary shows that a heartbeat would have arrived, nothing is recorded, and the next sweep checks again.
        """
        rules, canary = rules_of(self.rulebook, node.cluster), last_sent_at(self.table, LAST_RECORDED)
        timeout = rules.policy.limits.heartbeat_timeout

        def revise(state: NodeState, now: datetime) -> Transition:
            last = _last(self.table.get(keys.heartbeat(node)))
            if last is None or last + timeout > now or not _is_conclusive(canary, last, timeout):
                return Transition(state)
            without_timer = Put(_item(node, last), when=Equals("last_at", to_text(last)))
            if state.status is None or not state.status.in_service:
                return Transition(state, writes=(without_timer,))
            arrival = Arrival(
                missing_heartbeat_fault(last, timeout, probe(state)), last + timeout, f"silence-{to_text(last)}"
            )
            observed = observe(state, [arrival], rebooted=False, rules=rules, catalog=self.rulebook.catalog(), now=now)
            return Transition(observed.state, observed.drafts, (without_timer,))

        self.append(node, revise, actor=Actor.SWEEP)

    def _must_store(self, node: NodeKey, at: datetime, last: datetime | None) -> bool:
        return last is None or at - last > self._timeout(node) * STORE_AFTER

    def _timeout(self, node: NodeKey) -> timedelta:
        return rules_of(self.rulebook, node.cluster).policy.limits.heartbeat_timeout

    def _store(self, node: NodeKey, at: datetime, timeout: timedelta) -> None:
        """Write a heartbeat with its timer, unless a newer one is stored."""
        timer: Item = {"gsi4pk": keys.due(node.stream), "gsi4sk": to_text(at + timeout + timeout * STORE_AFTER)}
        newer = AnyOf((Absent(), Below("last_at", to_text(at))))
        try:
            self.table.write(Put(_item(node, at) | timer, when=newer))
        except Conflict as conflict:
            log_cause(
                "heartbeat_not_stored",
                reason="newer_heartbeat_stored",
                cluster=node.cluster,
                node=node.node,
                error=str(conflict),
            )
            return
        self._remember(node, at)

    def _remember(self, node: NodeKey, at: datetime) -> None:
        if len(self._stored) >= MAX_REMEMBERED:
            self._stored.clear()
        self._stored[node] = at

    def _on_time(self) -> int:
        """Count the nodes whose timer is not due yet."""
        now = to_text(self.append.clock.now())
        rows = (
            row
            for timer in keys.TIMERS
            for row in self.table.query(timer, after=now, index=WORK, limit=MAX_TIMERS_READ).items
        )
        return sum(keys.is_heartbeat(str(row["sk"])) for row in rows)


def current_heartbeats(
    node: NodeKey, state: NodeState, parts: Iterable[tuple[RecordPart, AliasRow]]
) -> Iterator[tuple[NodeKey, RecordPart]]:
    """Yield the heartbeats among a node's records. Those of an earlier instance or boot are left out."""
    for part, row in parts:
        record = part.record
        if (
            record.source == HEARTBEAT
            and match_incarnation(state, record, row.instance_id, record.sent_at) is not IncarnationMatch.EARLIER
        ):
            yield node, part


def _item(node: NodeKey, at: datetime) -> Item:
    return items.item(keys.heartbeat(node), at, {"last_at": to_text(at)})


def _last(found: Mapping[str, object] | None) -> datetime | None:
    return from_text(str(found["last_at"])) if found else None


def _is_conclusive(canary: datetime | None, last: datetime, timeout: timedelta) -> bool:
    """Return whether a canary arrived that was sent after the node's next stored heartbeat was due.

    Without any canary so far, nothing shows that the intake ever worked, so missing heartbeats are reported.
    """
    return canary is None or canary > last + timeout * STORE_AFTER + HEARTBEAT_GRACE
