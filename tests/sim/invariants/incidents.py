"""Checks that incidents stop the repairs of their nodes, send one page, and end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from faultbridge.model.storage.writes import Item
from faultbridge.model.values import replace
from tests.sim.fakes import FakeBus
from tests.sim.fakes.stored_values import body_of
from tests.sim.invariants.view import Invariant, SystemView
from tests.sim.journal import Journal

INCIDENT = "Cluster Incident Change"
STEP = "Node Replacement Step"
CLEARED = "Node Fault Cleared"
HOLDING = frozenset({"open", "recovering"})


@dataclass(frozen=True, slots=True)
class SeenIncident:
    """An incident after its last entry: its cluster, status and affected nodes.

    - `cleared` are the nodes with a fault that has ended since the last entry of the incident.
    - `opening` is the id of the incident's first event.
    - `ending` is the id of the event by which the incident stopped delaying repairs, or empty if there is none.
    - `ended_unpublished` is True if the incident stopped delaying repairs before its first event was published.
    """

    cluster: str
    status: str
    nodes: frozenset[str]
    opening: str
    ending: str = ""
    ended_unpublished: bool = False
    cleared: frozenset[str] = frozenset()


class IncidentChecks:
    """Tracks incidents by their entries, and reports a repair intent for a node of an open incident.

    A node with a fault that has ended since the last entry of the incident is not checked.
    """

    def __init__(self, journal: Journal, bus: FakeBus) -> None:
        self._journal = journal
        self._bus = bus
        self.last: dict[str, SeenIncident] = {}

    @property
    def unfinished(self) -> list[str]:
        """The ids of incidents that delay repairs, and of expired incidents without nodes, which close soon."""
        return [name for name, one in self.last.items() if one.status in HOLDING or _is_ending(one)]

    def entry_added(self, item: Item) -> None:
        """Update the incidents from a new entry, and report a repair that an open incident should stop.

        The caller adds the entries in the order of the commits.
        """
        if item["type"] not in {INCIDENT, STEP, CLEARED}:
            return
        cluster, node = str(item["cluster"]), str(item["node"])
        data = body_of(item)["data"]
        if item["type"] == INCIDENT:
            known, event = self.last.get(data["incident_id"]), str(item["event_id"])
            opening = known.opening if known else event
            ending = "" if data["to"] in HOLDING else (known.ending if known else "") or event
            unpublished = bool(ending) and opening not in self._bus.ids
            nodes = frozenset(data["nodes"]["listed"])
            self.last[data["incident_id"]] = SeenIncident(cluster, data["to"], nodes, opening, ending, unpublished)
        elif item["type"] == CLEARED:
            for name, one in self.last.items():
                if one.cluster == cluster:
                    self.last[name] = replace(one, cleared=one.cleared | {node})
        elif data["step"] == "intent":
            self._check_intent(cluster, node, data)

    def _check_intent(self, cluster: str, node: str, data: dict[str, Any]) -> None:
        holding = [
            name
            for name, one in self.last.items()
            if one.cluster == cluster and node in one.nodes - one.cleared and one.status in HOLDING
        ]
        if holding:
            text = f"{cluster}/{node} {data['repair_action']} of {data['old_instance']} during {holding[0]}"
            self._journal.add_violation("no intent is recorded for a node of an open incident", text)


def _is_ending(incident: SeenIncident) -> bool:
    return incident.status == "expired" and not incident.nodes


def _unfinished(view: SystemView) -> Iterator[str]:
    for name in view.system.checks.incidents.unfinished:
        yield f"{name} is {view.system.checks.incidents.last[name].status}"


def _held(view: SystemView) -> Iterator[str]:
    yield from (f"{item['pk']} {item['sk']}" for item in view.items if str(item["sk"]).startswith("HELD#"))


def _pages(view: SystemView) -> Iterator[str]:
    """Yield incidents without a page, and incidents with more than one page.

    An incident needs no page in these cases:

    - It ended before its first event was published, or the pager received the event of its end first.
    - Its page was refused until it ended. The resolve is then sent, because the refused page may have arrived.
    - The pager sent a summary during the run, because the page may be in the summary.
    """
    order = view.system.rule.handled
    received = {event: place for place, event in reversed([*enumerate(order)])}  # the first receipt of each event
    sent = {(page.key, page.attributes["state"]) for page in view.ports.pager.sent}
    counted = Counter((key.rpartition(":")[2], state) for key, state in sent if ":incident:" in key)
    summarized = any(":summary:" in key for key, state in sent if state == "triggered")
    for name, one in view.system.checks.incidents.last.items():
        triggered = counted[name, "triggered"]
        ended_first = received.get(one.ending, len(order)) < received.get(one.opening, len(order))
        ended_unsent = one.ended_unpublished or ended_first or counted[name, "resolved"]
        if triggered > 1 or (triggered == 0 and not summarized and not ended_unsent):
            yield f"{name} of {one.cluster} sent {triggered} pages"


INVARIANTS = (
    Invariant("an incident ends: it closes, or it expired and its nodes are still faulty", _unfinished),
    Invariant("every case that waited for an incident was released", _held),
    Invariant("an incident sends one page", _pages),
)
