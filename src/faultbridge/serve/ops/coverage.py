"""Finds the nodes from which no report arrives, and pages for a registered group that stays unseen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.coverage import NO_DATA_AFTER, UNSEEN_AFTER, Coverage, last_report
from faultbridge.model.entries import Draft
from faultbridge.model.enums import Actor, NoteKind
from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.codec import pack
from faultbridge.model.storage.writes import Put
from faultbridge.model.times import truncate
from faultbridge.record.append import Append
from faultbridge.record.cluster_stream import append_to_cluster, cluster_writes
from faultbridge.record.coverage import coverage_of, read_heartbeats
from faultbridge.record.queries import nodes_in_use
from faultbridge.record.rulebook import Rulebook, rules_of

UPDATE_AFTER = timedelta(minutes=5)
"""The coverage of a cluster is computed again after this time."""

BATCH = 500


class UpdateCoverage(Struct, frozen=True):
    """Computes and stores from which nodes of a cluster reports arrive.

    It reads the list of nodes, the last heartbeats, and the states of those nodes that have no heartbeat, at most every
    five minutes. A group none of whose nodes reported for an hour gets one page, which ends with its first report.
    """

    append: Append
    rulebook: Rulebook

    def update(self, cluster: str) -> Coverage:
        """Return the coverage of a cluster, computed again if it is five minutes old."""
        now, before = truncate(self.append.clock.now()), coverage_of(self.append.table, cluster)
        if before is not None and now - before.at < UPDATE_AFTER:
            return before
        rules = rules_of(self.rulebook, cluster)
        found = self._compute(rules.config, rules.policy.limits.heartbeat_timeout * NO_DATA_AFTER, before, now)
        drafts = tuple(_notes(before, found, now))
        put = Put(items.item(keys.cluster_coverage(cluster), now, {"coverage": pack(found)}))
        if drafts:
            append_to_cluster(lambda: self._record(cluster, drafts, put, now))
        else:
            self.append.table.write(put)
        return found

    def _compute(self, config: ClusterConfig, limit: timedelta, before: Coverage | None, now: datetime) -> Coverage:
        nodes = {one.node: one.group or "" for one in nodes_in_use(self.append.table, config)}
        heartbeats = read_heartbeats(self.append.table, config.cluster, now).last
        reported = {name: at for name, at in heartbeats.items() if name in nodes}
        never, missing, unheard = list[str](), list[str](), 0
        others = sorted(nodes.keys() - reported.keys())
        for first in range(0, len(others), BATCH):
            batch = [NodeKey(config.cluster, name) for name in others[first : first + BATCH]]
            for state in self.append.read_many(batch):
                last = last_report(state, None)
                since = last.at if last else state.incarnation.since if state.incarnation else now
                never += [] if last else [state.key.node]
                missing += [state.key.node] if since < now - limit else []
                unheard += last is None or since < now - limit
        silent = sum(at < now - limit for at in reported.values())
        unseen = set(nodes.values()) - {group for name, group in nodes.items() if name not in set(never)}
        known = before.unseen if before else {}
        unseen_since = {group: known.get(group, now) for group in sorted(unseen)}
        return Coverage(
            at=now,
            nodes=len(nodes),
            reporting=len(nodes) - unheard - silent,
            never=tuple(never),
            no_data=tuple(missing),
            unseen=unseen_since,
            paged=tuple(group for group, at in unseen_since.items() if now - at >= UNSEEN_AFTER),
        )

    def _record(self, cluster: str, drafts: tuple[Draft, ...], put: Put, now: datetime) -> None:
        table = self.append.table
        state = items.read_cluster(cluster, table.get(keys.cluster_state(cluster)))
        _, writes = cluster_writes(self.append.stack, state, state, drafts, actor=Actor.SWEEP, severity=None, now=now)
        table.transact([*writes, put])


def _notes(before: Coverage | None, after: Coverage, now: datetime) -> Iterator[Draft]:
    """Draft a note for each group that is unseen for an hour, and for each that has reported since its note."""
    known = frozenset(before.paged if before else ())
    for group in sorted(set(after.paged) ^ known):
        unseen = group in after.paged
        name = f"group {group}" if group else "the nodes without a group"
        text = f"no node of {name} has ever reported" if unseen else f"{name} has reported, or was removed"
        facts: Mapping[str, str] = {"group": group or "-"}
        stage = "overdue" if unseen else "over"
        yield entry_builder.note(kind=NoteKind.INVENTORY, text=text, at=now, facts=facts, stage=stage)
