"""Urgent pages: one for a cause, and growth is reported with the same key."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.sim.laws.law import Law

if TYPE_CHECKING:
    from tests.sim.simulated_system import SimulatedSystem

STORM = "the expiry of an incident sends one urgent page"
UNREPORTED = "the growth of an incident is reported with the key of its page"

INCIDENT = "Cluster Incident Change"
EXPIRES_WITHIN = timedelta(minutes=10)
NOTICE_INTERVAL, REPORTED_WITHIN = timedelta(minutes=15), timedelta(minutes=30)
"""A growth is reported at most every 15 minutes, by a sweep. The rest is for delays of events and retries of the pager.
"""

OPEN = frozenset({"open", "recovering"})


@dataclass(slots=True)
class PagedIncident:
    """An incident as its entries and pages show it.

    `announced` is the number of nodes of its last entry that requires a page. `reported` is the number of nodes
    that its last page contains: the incident may have become smaller since the entry of the page. `grown_since` is
    the time at which the number of nodes had doubled. `swept_at` is the time of the first complete sweep after the
    notice was due.
    """

    nodes: frozenset[str] = frozenset()
    affected: int = 0
    is_open: bool = False
    announced: int = 0
    reported: int = 0
    grown_since: datetime | None = None
    swept_at: datetime | None = None
    expired_at: datetime | None = None
    urgent: set[str] = field(default_factory=set)


class PageLaw(Law):
    """Checks the pages about incidents and breakers of the cluster."""

    def __init__(self, system: SimulatedSystem) -> None:
        super().__init__(system)
        self._incidents: dict[str, PagedIncident] = {}
        self._pages = 0
        self._opened: dict[str, frozenset[str]] = {}

    def entry_added(self, body: dict[str, Any]) -> None:
        """Follow incidents by their entries."""
        data = body["data"]
        if body["metadata"]["event_type"] != INCIDENT:
            return
        one = self._incidents.setdefault(data["incident_id"], PagedIncident())
        one.nodes, one.affected = frozenset(data["nodes"]["listed"]), int(data["nodes"]["count"])
        one.is_open = data["to"] in OPEN
        if not one.announced or data.get("doubled"):
            one.announced = one.affected
        if data["change"] == "expired":
            one.expired_at = self.now
        if one.is_open and one.reported and one.affected >= 2 * one.reported:
            one.grown_since = one.grown_since or self.now
        else:
            one.grown_since = None

    def after_call(self) -> None:
        """Follow the pages that were sent since the previous call."""
        sent = self.system.ports.pager.sent
        for page in sent[self._pages :]:
            self._paged(page.key, page.attributes["state"], urgent=page.urgency.value == "urgent")
        self._pages = len(sent)

    def _paged(self, key: str, state: str, *, urgent: bool) -> None:
        for name, one in self._incidents.items():
            if key.endswith(name) and state == "triggered":
                one.reported, one.grown_since = max(one.announced, 1), None
        if not urgent or state != "triggered":
            return
        for name, one in self._incidents.items():
            if one.expired_at is None or not timedelta(0) <= self.now - one.expired_at <= EXPIRES_WITHIN:
                continue
            if key.endswith(name) or (":breaker" in key and self._is_about(one)):
                one.urgent.add(key)
                if len(one.urgent) > 1:
                    self.broken(STORM, name, f"{sorted(one.urgent)}")

    def _is_about(self, incident: PagedIncident) -> bool:
        """Return whether all nodes out of service are nodes of the incident."""
        return self.system.laws.out_of_service <= incident.nodes

    def swept(self) -> None:
        """Check that growth was reported. Sweeps that fail report nothing."""
        swept_at = self.system.workers.swept_at
        for name, one in self._incidents.items():
            if not one.is_open or one.grown_since is None or swept_at is None:
                continue
            due = one.grown_since + NOTICE_INTERVAL
            if swept_at >= due and (one.swept_at is None or one.swept_at < due):
                one.swept_at = swept_at
            if one.swept_at is not None and one.swept_at >= due and self.now - one.swept_at > REPORTED_WITHIN:
                text = f"from {one.reported} to {one.affected} nodes since {one.grown_since:%d %H:%M:%S}"
                self.broken(UNREPORTED, name, text)
