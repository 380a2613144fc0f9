"""The isolation budget: how many nodes the installation may take out of service on evidence that is not certain.

N is the number of nodes that are expected to serve: registered, not retired, not failed or ignored for more than a day,
and in service at least once. U is 10 % of N, at least 1. A node that goes out of service needs a permit, unless it is
lost (a proven fatal condition), its instance is gone or another one, or people ordered it. A permit is given if fewer
than U nodes of N are out, or if no node is out by a permit. Both are counted in the cluster and in each failure domain
of the node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from faultbridge.model.values import replace
from tests.sim.laws.facts import instance_of, is_lost, is_ordered, is_out
from tests.sim.laws.law import Law

if TYPE_CHECKING:
    from faultbridge.model.nodes import NodeState
    from faultbridge.model.storage.writes import Item
    from tests.sim.simulated_system import SimulatedSystem

OVER_BUDGET = "no node goes out of service beyond the isolation budget"
OVER_PERMITS = "no isolation permit is given beyond the isolation budget"
PERCENT = 10
DAY = timedelta(days=1)
KNOWN_AFTER = timedelta(minutes=5)
"""A node that is out without a permit counts only after this time, because others read it a little later."""


@dataclass(frozen=True, slots=True)
class CountedNode:
    """A node as the budget counts it.

    `out_since` is when it went out of service. `permitted` is True while it needs a permit for that. `gone_since` is
    when it failed, was escalated or ignored; a day later it is no longer expected to serve. `instance` backs the node.
    """

    domains: frozenset[str]
    serves: bool = False
    registered: bool = False
    out_since: datetime | None = None
    permitted: bool = False
    gone_since: datetime | None = None
    instance: str | None = None

    def counts(self, now: datetime) -> bool:
        """Return whether the node is expected to serve."""
        expected = self.gone_since is None or now - self.gone_since <= DAY
        return self.registered and self.serves and expected


class IsolationBudget(Law):
    """Checks each node that goes out of service, and each new permit that the product stores."""

    def __init__(self, system: SimulatedSystem) -> None:
        super().__init__(system)
        self._nodes: dict[str, CountedNode] = {}
        self._permits: frozenset[str] = frozenset()
        self._last_gone: dict[str, datetime] = {}

    @property
    def out_of_service(self) -> frozenset[str]:
        """The names of the nodes that take no new work now."""
        return frozenset(name for name, one in self._nodes.items() if one.registered and one.out_since is not None)

    def node_changed(self, state: NodeState) -> None:
        """Check the budget if the node goes out of service now."""
        name, now = state.key.node, self.now
        old = self._nodes.get(name) or CountedNode(frozenset())
        domains = frozenset(f"{kind} {one}" for kind, one in state.placement.domains.items())
        status = state.status
        registered = status is not None and status.value != "retired"
        serves = registered and (old.serves or (status is not None and status.in_service))
        case = state.live_case
        ends = state.ignored is not None or (case is not None and case.status.value == "escalated")
        ends |= status is not None and status.value == "failed"
        instance = instance_of(state)
        another = old.instance is not None and instance != old.instance  # another system replaced the instance
        gone_since = None
        if ends:
            before = now if name in self._nodes else self._last_gone.get(name, now)
            gone_since = self._last_gone[name] = old.gone_since or before
        new = replace(old, domains=domains, serves=serves, registered=registered, instance=instance,
                      gone_since=gone_since)  # fmt: skip
        if not is_out(state):
            new = replace(new, out_since=None, permitted=False)
        elif old.out_since is None:
            needed = serves and not another and not self._is_free(state)
            new = replace(new, out_since=now, permitted=needed)
        elif old.permitted and self._is_free(state):
            new = replace(new, permitted=False)
        starts = new.permitted and not old.permitted
        if starts:
            reports = ", ".join(sorted(one.code for one in state.active()))
            self._check(OVER_BUDGET, name, new.domains, f"{status} with {reports or 'no condition'}")
        self._nodes[name] = new

    def restored(self) -> None:
        """Forget the nodes: several may be out of service in the backup that were not so at once.

        A node that has failed, or was escalated or ignored, in the backup has been so since before it.
        """
        self._nodes.clear()

    def control_changed(self, item: Item) -> None:
        """Check each permit that the control item names for the first time."""
        stored = item.get("permits") or {}
        permits = frozenset(stored) if isinstance(stored, dict) else frozenset()
        for name in sorted(permits - self._permits):
            node = self._nodes.get(name)
            if node is not None and node.out_since is None:
                self._check(OVER_PERMITS, name, node.domains, f"permits {sorted(permits)}")
        self._permits = permits

    def _is_free(self, state: NodeState) -> bool:
        """Return whether the node needs no permit: it is lost, its instance is gone, or people ordered it."""
        instance = instance_of(state)
        gone = instance is None or not self.system.fleet.is_alive(instance)
        return gone or is_lost(state) or is_ordered(state)

    def _check(self, law: str, name: str, domains: frozenset[str], text: str) -> None:
        for scope in ("cluster", *sorted(domains)):
            others = [one for other, one in self._nodes.items() if other != name]
            inner = [one for one in others if scope == "cluster" or scope in one.domains]
            total, out, permitted = self._counts(inner)
            budget = max(1, (total + 1) * self._percent() // 100)
            if out >= budget and permitted:
                self.broken(law, f"{name} in {scope}", f"N {total + 1}, out {out}, U {budget}: {text}")

    def _percent(self) -> int:
        """Return the largest share that one of the last policies allowed."""
        limits = self.system.checks.limits[-3:]
        return max(int(getattr(one, "isolation_percent", PERCENT)) for one in limits)

    def _counts(self, nodes: Iterable[CountedNode]) -> tuple[int, int, int]:
        """Return how many nodes are expected to serve, how many of them are out, and how many by a permit."""
        now = self.now
        expected = [one for one in nodes if one.counts(now)]
        permitted = sum(one.permitted for one in expected)
        known = sum(
            one.out_since is not None and not one.permitted and now - one.out_since > KNOWN_AFTER for one in expected
        )
        return len(expected), known + permitted, permitted
