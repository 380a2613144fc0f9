"""Checks repairs and waiting cases against the faults of whole failure domains, such as racks.

The environment records which nodes lost their links, and when. The checks compare this record with the entries about
faults, repairs and waits of cases. They do not read the product's incidents, so they also find a missing incident. The
constants come from the design, not from the product's settings.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from faultbridge.model.storage.writes import Item
from tests.sim.fakes.stored_values import body_of
from tests.sim.invariants.lost_links import LINK_FAULTS, SILENT, FaultyNode, LostLinks, largest_groups
from tests.sim.invariants.view import Invariant, SystemView
from tests.sim.journal import Journal

MIN_NODES, MIN_PERCENT, EXPLAINS = 3, 30, 80
"""A shared cause affects at least 3 nodes and 30 % of a domain, or of a narrower domain with 80 % of these nodes."""

WINDOW = timedelta(minutes=10)
"""Faults that start within this time can have a shared cause. Faults that start further apart cannot."""

REACTION = timedelta(minutes=3)
"""How long after a domain fault became known a repair of a node with only network faults may begin: three sweeps."""

QUIET = timedelta(minutes=10)
"""After this time without a lost link, a fault of a domain has ended, and the next lost links are a new fault.

The time counts from the first complete sweep while no link is down. It doubles each time that the links are lost again
less than `MAX_AGE` after it: links that come and go are one fault, which reaches its maximum age.
"""

MAX_AGE = timedelta(hours=2)
POLICY_TIME = timedelta(hours=1)
"""Extra time after the maximum age, for the longest outage of a port in a run."""

GIVEN_UP = "no instance is given up for a fault that its failure domain shares"
REPEATED = "no repair is repeated for a node whose failure domain lost its links"
AT_MOST_ONE = "at most one repair begins while a fault of a failure domain lasts"
TOO_LONG = "a case waits for an incident no longer than its maximum age and the policy's time"


class DomainFaultChecks:
    """Checks intents and waiting cases of one cluster against the faults that the environment caused.

    - `lost`: the links that nodes lost in a fault of their domain. `members`: the nodes of each domain. The environment
      sets both.
    - `swept_at`: when the last complete sweep ran. Sweeps end incidents that are too old.
    - `reached`: counts of situations, for tests that check whether runs include them. The situations are the affected
      nodes by status when a domain fault became known, and the repairs that began afterwards.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.lost: list[LostLinks] = []
        self.members: dict[str, frozenset[str]] = {}
        self.reached: Counter[str] = Counter()
        self._nodes: dict[str, FaultyNode] = {}
        self._known: dict[str, datetime] = {}
        self._many_since: datetime | None = None
        self._none_since: datetime | None = None
        self._none_seen: datetime | None = None
        self._ended_at: datetime | None = None
        self._recurrence = 0
        self._repairs: Counter[tuple[str, datetime]] = Counter()
        self._begun: set[tuple[str, str]] = set()
        self._node_of: dict[str, str] = {}
        self._down: set[str] = set()
        self._last_regrouped: datetime | None = None
        self._restored = False
        self.swept_at: datetime | None = None
        self._swept_before: datetime | None = None

    def entry_added(self, item: Item) -> None:
        """Update a node's state from a new entry, and check a repair; the caller adds entries in commit order."""
        if not item["node"]:
            return
        name, kind, now = f"{item['cluster']}/{item['node']}", str(item["type"]), self._journal.clock.now()
        data = body_of(item)["data"]
        if kind == "Node Replacement Step" and data["step"] == "verify" and data["new_instance"]:
            self._node_of[data["new_instance"]] = name
        if self._restored:
            return
        node = self._nodes.setdefault(name, FaultyNode())
        if kind.startswith("Node Fault"):
            self._follow_fault(node, kind, data, now)
        elif kind == "Node Status Change":
            node.status = data["to"]
        elif kind == "Case Status Change":
            self._follow_case(name, data, now)
        elif kind == "Node Replacement Step" and data["step"] == "intent":
            self._check_intent(name, data, now)
            self._check_repeated(name, node, str(item["case_id"]), data, now)
            self._begun.add((name, data["old_instance"]))
            self._follow_links(now)

    def swept(self, at: datetime | None) -> None:
        """Record the time of the last complete sweep, and of the first complete sweep without a lost link."""
        if at != self.swept_at:
            self._swept_before, self.swept_at = self.swept_at, at
        if at is not None and self._none_since is not None and at >= self._none_since:
            self._none_seen = self._none_seen or at

    def restored(self) -> None:
        """Check no more repairs and waits: entries do not show which faults and incidents the restored table has."""
        self._nodes.clear()
        self._restored = True

    def is_cut_off(self, instance: str) -> bool:
        """Return whether a shared fault of a failure domain makes the verification of this instance fail."""
        node, now = self._node_of.get(instance), self._journal.clock.now()
        return any(node in self._members(domain) and self._has_no_links(domain, now) for domain in self._domains())

    def _domains(self) -> set[str]:
        return {one.domain for one in self.lost}

    def _members(self, domain: str) -> frozenset[str]:
        return self.members.get(domain) or frozenset(one.node for one in self.lost if one.domain == domain)

    def _has_no_links(self, domain: str, now: datetime) -> bool:
        lost = [one for one in self.lost if one.domain == domain and one.shared and one.start <= now < one.end]
        down, size = len({one.node for one in lost}), max((one.nodes for one in lost), default=0)
        return down >= MIN_NODES and down * 100 >= MIN_PERCENT * size

    def waiting_too_long(self) -> Iterator[str]:
        """Yield the nodes whose case still waits for an incident after the longest permitted time."""
        for name, node in self._nodes.items():
            if node.absorbed_at is not None and self._waits_too_long(name, self._journal.clock.now(), self.swept_at):
                yield f"{name} waits since {node.absorbed_at:%d %H:%M}"

    def _follow_fault(self, node: FaultyNode, kind: str, data: dict[str, Any], now: datetime) -> None:
        fault = data["code"], json.dumps(data["component"], sort_keys=True)
        if kind == "Node Fault Cleared":
            node.faults.pop(fault, None)
        else:
            is_new = fault not in node.faults
            node.faults[fault] = data["action"], node.faults.get(fault, (None, now))[1]
            if is_new and fault[0] == SILENT and sum(one.is_silent for one in self._nodes.values()) >= MIN_NODES:
                self._last_regrouped = now
        if fault[0] in LINK_FAULTS:
            node.reporter = (data.get("incarnation") or {}).get("instance_id")
            self._follow_links(now)

    def _follow_links(self, now: datetime) -> None:
        """Update which domain faults are known (`_known`), and since when many links are down (`_many_since`).

        A fault is known when the entries of enough nodes show a lost link. A node counts if the link of its instance
        went down after the fault started, and no repair of this instance has begun.
        """
        if self._none_seen is not None and now >= (end := self._none_seen + QUIET * 2**self._recurrence):
            self._ended_at = end if self._many_since is not None else self._ended_at
            self._many_since = None
        down = {name: since for name, node in self._nodes.items() if (since := node.link_down_since())}
        if self._down - down.keys() and len(down) >= MIN_NODES:
            self._last_regrouped = now
        self._down = set(down)
        if self._many_since is None and len(down) >= MIN_NODES:
            recurs = self._ended_at is not None and now < self._ended_at + MAX_AGE
            self._many_since, self._recurrence = now, min(self._recurrence + 1, 4) if recurs else 0
        belongs = self._many_since is not None and any(since >= self._many_since - 2 * QUIET for since in down.values())
        self._none_since = None if belongs else self._none_since or now
        self._none_seen = None if belongs else self._none_seen
        known: set[str | None] = set()
        for domain in self._domains():
            lost = [one for one in self.lost if one.domain == domain and one.start <= now < one.end]
            shown = [one for one in lost if one.node in down and down[one.node] >= one.start]
            shown = [one for one in shown if self._nodes[one.node].reporter in (None, one.instance)]
            least = max(MIN_NODES * 100, MIN_PERCENT * max((one.nodes for one in lost), default=0))
            starts = [one for one in shown if self._counts(one)]
            known |= {self._cause(domain, some, least, down) for some in largest_groups(starts, shown, WINDOW, down)}
        before, self._known = self._known, {one: self._known.get(one, now) for one in sorted(filter(None, known))}
        cut_off = {one.node for one in self.lost if one.start <= now < one.end} & self._nodes.keys()
        for domain in self._known.keys() - before.keys():
            self.reached.update(self._nodes[name].status for name in cut_off & self._members(domain))

    def _counts(self, lost: LostLinks) -> bool:
        return (lost.node, lost.instance) not in self._begun

    def _cause(self, domain: str, failed: frozenset[LostLinks], least: int, down: Mapping[str, datetime]) -> str | None:
        """Return the domain that is the cause of these lost links in `domain`; None if too few nodes count.

        A node does not count if its repair has begun. The cause is a smaller domain with at least 80 % of the counted
        nodes, or of all nodes in `failed`, or of these and the nodes of `domain` that lost a link by another fault
        within `WINDOW`. If there is none, the cause is `domain`.
        """
        counted = {one.node for one in failed if self._counts(one)}
        if len(counted) * 100 < least:
            return None
        every, first = {one.node for one in failed}, min(down[one.node] for one in failed)
        others = {name for name, since in down.items() if abs(since - first) <= WINDOW} & self._members(domain)
        narrower = (self._narrower(domain, one) for one in (counted, every, every | others))
        return next(filter(None, narrower), domain)

    def _narrower(self, domain: str, failed: set[str]) -> str | None:
        size, enough = len(self._members(domain)), EXPLAINS * len(failed)
        found = (name for name, one in self.members.items() if len(failed & one) * 100 >= enough and len(one) < size)
        return min(found, default=None)

    def _check_intent(self, name: str, data: dict[str, Any], now: datetime) -> None:
        """Report a repair that begins although the fault of a failure domain explains the node's lost links.

        While the fault is known, only the first such repair is permitted. For a node with only network faults, no
        repair is permitted from the time `REACTION` after the fault became known.
        """
        node, since = self._nodes[name], self._many_since
        if node.link_down_since() is None or since is None or now >= since + MAX_AGE:
            return
        for domain in sorted(self._domains_down(name, data["old_instance"], now) & self._known.keys()):
            known_since = self._known[domain]
            self.reached["repair begun"] += 1
            self._repairs[domain, known_since] += 1
            text = f"{name} {data['repair_action']} of {data['old_instance']}, {domain} lost its links"
            if self._repairs[domain, known_since] > 1:
                self._journal.add_violation(AT_MOST_ONE, text)
            if not node.has_own_fault and now >= known_since + REACTION:
                self._journal.add_violation(GIVEN_UP, text)

    def _check_repeated(self, name: str, node: FaultyNode, case: str, data: dict[str, Any], now: datetime) -> None:
        repeated, node.repaired_in = node.repaired_in == case, case
        if not repeated or (since := self._many_since) is None or now >= since + MAX_AGE:
            return
        for domain in sorted(one for one in self._known if name in self._members(one)):
            text = f"{name} {data['repair_action']} of {data['old_instance']}, {domain} lost its links"
            self._journal.add_violation(REPEATED, text)

    def _domains_down(self, name: str, instance: str, now: datetime) -> set[str]:
        """Return the domains whose faults affect this instance, and the node's domains within these domains."""
        mine = (one for one in self.lost if (one.node, one.instance) == (name, instance) and one.start <= now < one.end)
        domains = {one.domain for one in mine}
        around = {one: nodes for one, nodes in self.members.items() if name in nodes}
        return domains | {one for one, nodes in around.items() if any(nodes < self._members(wide) for wide in domains)}

    def _follow_case(self, name: str, data: dict[str, Any], now: datetime) -> None:
        node = self._nodes[name]
        if data["to"] == "absorbed":
            node.absorbed_at = node.absorbed_at or now
            return
        # A wait ends in the first sweep after its time, however long no sweep ran: that sweep is no sweep too late.
        swept_at = self._swept_before if self.swept_at == now else self.swept_at
        if node.absorbed_at is not None and self._waits_too_long(name, now, swept_at):
            self._journal.add_violation(TOO_LONG, f"{name} waited since {node.absorbed_at:%d %H:%M}")
        node.absorbed_at = None
        if data["to"] == "resolved":
            node.repaired_in = None

    def _waits_too_long(self, name: str, now: datetime, swept_at: datetime | None) -> bool:
        """Return whether a case waits for an incident longer than permitted, at the time of the last complete sweep.

        Only nodes with a fault other than network faults, or with a repair that did not end the case, are checked. The
        permitted time counts from the latest of three times: the start of the wait, the start of the last domain fault,
        and the last change of silent nodes or lost links that may show another cause.
        """
        node = self._nodes[name]
        starts = (one.start for one in self.lost if one.start < now)
        since = max(filter(None, (node.absorbed_at or now, self._last_regrouped, *starts)))
        checked, limit = node.has_own_fault or node.repaired_in is not None, since + MAX_AGE + POLICY_TIME
        return checked and swept_at is not None and min(now, swept_at) > limit


def _waiting(view: SystemView) -> Iterator[str]:
    yield from view.system.checks.domain_faults.waiting_too_long()


INVARIANTS = (Invariant(TOO_LONG, _waiting),)
