"""Silence: a node whose agent was heard of and is heard of no more.

Each node's last sign of life stands beside it with a timer, written again when a quarter of the limit has passed. When
the timer rings, the sweep raises `host.silent` through the same fold as any other fault; the next heartbeat ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from faultbridge.decoders.native.heartbeat import SILENT
from faultbridge.decoders.native.heartbeat import SOURCE as HEARTBEAT
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.edges import Actor
from faultbridge.domain.faults import NODE_COMPONENT, Fault
from faultbridge.domain.nodes import AliasRow, NodeKey, NodeState
from faultbridge.domain.times import from_text, to_text
from faultbridge.errors import Conflict
from faultbridge.ingest.record_reader import Part
from faultbridge.ledger.append import Append
from faultbridge.pipeline.fold.changes import Arrival
from faultbridge.pipeline.normalize.resolve import IncarnationMatch, match_incarnation
from faultbridge.pipeline.observe import observe
from faultbridge.ports import Table
from faultbridge.rules.rulebook import Rulebook, rules_of
from faultbridge.storage import items, keys
from faultbridge.storage.writes import WORK, Absent, AnyOf, Below, Equals, Item, Put

FEW = 2
"""So many nodes may fall silent although nobody else is heard; if more do, it is we who hear nothing."""

MAX_LOOKED_AT = 100
MAX_KEPT = 50_000


@dataclass(frozen=True, slots=True)
class HeartbeatMonitor:
    """Keeps signs of life and judges those that stay away."""

    table: Table
    append: Append
    rulebook: Rulebook
    _stored: dict[NodeKey, datetime] = field(default_factory=dict)

    def heard(self, lives: Mapping[NodeKey, datetime]) -> None:
        """Note signs of life; most come so soon after a stored one that nothing is written, or even read."""
        news = {node: at for node, at in lives.items() if self._is_news(node, at, self._stored.get(node))}
        places = {keys.heartbeat(node): node for node in news}
        found = self.table.get_many(places) if places else {}
        for place, node in places.items():
            known = _last(found.get(place))
            if known is None or self._is_news(node, news[node], known):
                self._note(node, news[node], self._limit(node))
            else:
                self._keep(node, known)

    def _is_news(self, node: NodeKey, at: datetime, known: datetime | None) -> bool:
        return known is None or at - known > self._limit(node) / 4

    def _keep(self, node: NodeKey, at: datetime) -> None:
        if len(self._stored) >= MAX_KEPT:
            self._stored.clear()
        self._stored[node] = at

    def _limit(self, node: NodeKey) -> timedelta:
        return rules_of(self.rulebook, node.cluster).policy.limits.heartbeat_timeout

    def _note(self, node: NodeKey, at: datetime, limit: timedelta) -> None:
        timer: Item = {"gsi4pk": keys.due(node.stream), "gsi4sk": to_text(at + limit + limit / 4)}
        newer = AnyOf((Absent(), Below("last_at", to_text(at))))
        try:
            self.table.write(Put(_item(node, at) | timer, when=newer))
        except Conflict:
            # Somebody else has heard it later.
            return
        self._keep(node, at)

    def deaf(self, overdue: int) -> bool:
        """Tell whether so many nodes are overdue, and so few others heard, that it is rather we who hear nothing."""
        return overdue > FEW and overdue > self._heard_lately()

    def judge(self, node: NodeKey) -> None:
        """Raise silence for a node whose timer rang, unless it was heard meanwhile or is out of service."""
        rules = rules_of(self.rulebook, node.cluster)
        limit = rules.policy.limits.heartbeat_timeout

        def revise(state: NodeState, now: datetime) -> Transition:
            seen = _last(self.table.get(keys.heartbeat(node)))
            if seen is None or seen + limit > now:
                return Transition(state)
            done = Put(_item(node, seen), when=Equals("last_at", to_text(seen)))
            if state.status is None or not state.status.in_service:
                return Transition(state, writes=(done,))
            arrival = Arrival(_fault(seen, limit), seen + limit, f"silence-{to_text(seen)}")
            passed = observe(state, [arrival], rebooted=False, rules=rules, catalog=self.rulebook.catalog(), now=now)
            return Transition(passed.state, passed.drafts, (done,))

        self.append(node, revise, actor=Actor.SWEEP, config=rules.config)

    def _heard_lately(self) -> int:
        """Count nodes whose timer has yet to ring."""
        now = to_text(self.append.clock.now())
        rows = (
            row
            for timer in keys.TIMERS
            for row in self.table.query(timer, after=now, index=WORK, limit=MAX_LOOKED_AT).items
        )
        return sum(keys.is_heartbeat(str(row["sk"])) for row in rows)


def beats(node: NodeKey, state: NodeState, found: Iterable[tuple[Part, AliasRow]]) -> Iterator[tuple[NodeKey, Part]]:
    """Yield the heartbeats among a node's records that its present incarnation sent."""
    for part, row in found:
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


def _fault(seen: datetime, limit: timedelta) -> Fault:
    message = f"No heartbeat for {int(limit.total_seconds())} s."
    return Fault(
        HEARTBEAT,
        SILENT,
        NODE_COMPONENT,
        message,
        observed_at=seen + limit,
        evidence=f"last heartbeat at {to_text(seen)}",
        attributes={"last_heartbeat": to_text(seen)},
    )
