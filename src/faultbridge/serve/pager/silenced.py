"""Silenced pages: which pages a silence of the cluster holds, and the one line when the silence is over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.model.cluster.config import ClusterConfig, failure_domains
from faultbridge.model.cluster.silences import Silence, Subject
from faultbridge.model.enums import EntryType
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import incidents, items, keys
from faultbridge.model.storage.writes import Delete, Path, Update, Value
from faultbridge.model.times import to_milliseconds
from faultbridge.record.ports.messaging import PageUrgency
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import cluster_control, query_all
from faultbridge.serve.pager.page import Links, Location, Page, PageState
from faultbridge.serve.pager.rules import NO_ACTION

COUNT_TTL = timedelta(days=7)
"""How long after its end the count of a silence is stored, if the line about its end cannot be sent."""


class Held(Struct, frozen=True, kw_only=True):
    """A silence of which pages were held: its id, what it covers, who ordered it and why, and how many were held."""

    id: str
    scope: str
    by: str
    reason: str
    count: int


def subject_of(node: NodeState | None, config: ClusterConfig | None, mode: str | None) -> Subject:
    """Return what a page about a node, or about a whole cluster (None), is about for the matchers of silences."""
    if node is None or config is None:
        return Subject()
    place = node.placement
    found = failure_domains(config.cluster, node.key.node, place.domain, place.domains, config.domains)
    return Subject(node.key.node, place.group, tuple(one.name for one in found), mode)


class Silenced(Struct, frozen=True):
    """Decides with the stored silences of a cluster which pages are held, and counts the held pages."""

    table: Table
    clock: Clock

    def active(self, cluster: str) -> Mapping[str, Silence]:
        """Return the silences of a cluster that hold pages now, by id."""
        control = cluster_control(self.table, cluster)
        now = self.clock.now()
        return {name: one for name, one in control.silences.items() if one.is_active(now)}

    def holding(self, silences: Mapping[str, Silence], page: Page, subject: Subject) -> Silence | None:
        """Return a silence that holds a page now, or None.

        A page about an incident is held only while the silence covers all of its nodes. It is sent once the incident
        outgrows the silence.
        """
        incident = page.key.rpartition(":")[2] if page.event_type == EntryType.CLUSTER_INCIDENT else None
        for one in silences.values():
            if one.matches(subject) if incident is None else self._covers(one, page.location.cluster, incident):
                return one
        return None

    def _covers(self, silence: Silence, cluster: str, incident_id: str) -> bool:
        if not silence.matchers:
            return True
        row = self.table.get(incidents.incident_key(cluster, incident_id))
        stored = self.table.get(keys.cluster_config(cluster))
        # The fault of an incident has a family, which covers many failure modes.
        if row is None or stored is None or silence.mode is not None:
            return False
        incident, config = incidents.read_incident(row), items.read_config(stored)
        if not incident.nodes or len(incident.nodes) < incident.affected:
            return False
        nodes = {keys.node_state(key): key for key in (NodeKey(cluster, name) for name in incident.nodes)}
        found = self.table.get_many(nodes)
        states = (items.read_state(node, found.get(key)) for key, node in nodes.items())
        return all(silence.matches(subject_of(state, config, None)) for state in states)

    def count(self, cluster: str, silence: Silence) -> Update:
        """Return the write that counts one more page as held by a silence."""
        facts: dict[Path, Value] = {
            ("scope",): silence.scope,
            ("by",): silence.by,
            ("reason",): silence.reason,
            ("expires_at",): to_milliseconds(silence.until + COUNT_TTL) // 1000,
        }
        return Update(keys.held_pages(cluster, silence.id), set=facts, add={"held": 1})

    def over(self, cluster: str, silences: Mapping[str, Silence]) -> Iterator[Held]:
        """Yield the silences of a cluster that held pages and are over."""
        for row in query_all(self.table, keys.held_pages_partition(cluster)):
            if row["sk"] not in silences:
                texts = {name: str(row[name]) for name in ("scope", "by", "reason")}
                yield Held(id=str(row["sk"]), count=int(str(row["held"])), **texts)

    def forget(self, cluster: str, held: Held) -> None:
        """Delete the count of a silence after the line about its end was sent."""
        self.table.write(Delete(keys.held_pages(cluster, held.id)))


def line_page(cluster: str, held: Held, still_open: int, now: datetime, links: Links) -> Page:
    """Return the one line about a silence that is over: a page that is resolved at once, so that it opens nothing."""
    pages = "1 page was" if held.count == 1 else f"{held.count} pages were"
    return Page(
        key=f"{cluster}:silence:{held.id}",
        state=PageState.RESOLVED,
        urgency=PageUrgency.NOTICE,
        headline=f"silence over: {pages} held, {still_open} still open",
        fault=f"{held.scope}, silenced by {held.by}: {held.reason}",
        location=Location(cluster),
        system_action="Sends the pages that are still open." if still_open else "No further action.",
        action_required=NO_ACTION,
        commands=(f"faultbridge timeline --cluster {cluster} --since 1d",),
        runbook=links.runbook("many-pages"),
        timeline=links.timeline(cluster),
        event_type="",
        event_id="",
        occurred_at=now,
    )
