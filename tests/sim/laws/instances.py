"""Instances: launches, the nodes that they back, releases, and nodes that wait for a successor or for capacity."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from faultbridge.model.cluster.config import Mode
from faultbridge.model.storage import items, keys
from tests.sim.invariants.view import SystemView
from tests.sim.laws.facts import instance_of
from tests.sim.laws.law import CLUSTER, Law

if TYPE_CHECKING:
    from faultbridge.model.nodes import NodeState
    from tests.sim.fakes.seam import Call
    from tests.sim.simulated_system import SimulatedSystem

LAUNCHED_TWICE = "at most one instance is launched for an attempt"
SHARED = "an instance backs at most one node"
OWING = "no instance is released while its group has owed a successor for 15 minutes"
TOO_MANY = "at most the concurrent repairs of the policy have no instance"
UNPAGED = "a node that waits for capacity or for a successor pages urgently"
BLOCKED = "a reset or a reboot waits for no repair that awaits a successor"
GHOST = "a node without an instance has a case or a timer"

OWED_FOR, REACTION = timedelta(minutes=15), timedelta(minutes=3)
WAIT_LIMIT = timedelta(hours=4)
"""A node may wait this long without an urgent page: the limit of any policy, an outage of the pager, and sweeps."""

SLOT_LIMIT = timedelta(hours=2)
WITHOUT_INSTANCE = frozenset({"replacing", "provisioning"})


class InstanceLaw(Law):
    """Checks launches, releases and waits."""

    def __init__(self, system: SimulatedSystem) -> None:
        super().__init__(system)
        self._states: dict[str, NodeState] = {}
        self._backed: dict[str, str] = {}
        self._owed: dict[str, datetime] = {}
        self._waiting: dict[str, datetime] = {}
        self._blocked: dict[str, datetime] = {}
        self._launches = 0
        self._earlier: set[str] = set()
        self._urgent: list[tuple[str, str]] = []
        self._read = 0
        self._called: set[str] = set()
        self._given_up: set[str] = set()

    def node_changed(self, state: NodeState) -> None:
        """Follow the instance of a node, and since when it waits."""
        name, now = state.key.node, self.now
        self._states[name] = state
        instance, status = instance_of(state), state.status
        if status is None or status.value == "retired":
            self._backed = {one: node for one, node in self._backed.items() if node != name}
        elif instance is not None and self.system.fleet.is_alive(instance):
            other = self._backed.setdefault(instance, name)
            if other != name:
                self.broken(SHARED, instance, f"backs {name} and {other}")
        if status is not None and status.value in WITHOUT_INSTANCE and self._lacks_instance(state):
            self._owed.setdefault(name, now)
            self._check_number()
        elif (
            (instance is not None and self.system.fleet.is_alive(instance))
            or status is None
            or status.value == "retired"
        ) and self._owed.pop(name, None) is not None:
            self._end_waits(state.placement.group)
        self._follow_waits(state)
        if (case := state.live_case) is not None and case.status.value != "in_progress":
            self._earlier |= {name for name, one in self.system.fleet.instances.items() if one.case == case.id}

    def _lacks_instance(self, state: NodeState) -> bool:
        instance = instance_of(state)
        return instance is None or not self.system.fleet.is_alive(instance)

    def _check_number(self) -> None:
        lacking = sorted(
            name
            for name, state in self._states.items()
            if name in self._owed and self._lacks_instance(state) and instance_of(state) in self._given_up
        )
        if len(lacking) > self._limit:
            self.broken(TOO_MANY, f"{len(lacking)} nodes", f"{lacking}, at most {self._limit}")

    @property
    def _limit(self) -> int:
        return max(one.concurrent for one in self.system.checks.limits)

    def _counts(self, name: str, since: datetime) -> bool:
        """Return whether the product counts the node as one without an instance, which any tool may have terminated."""
        return self._lacks_instance(self._states[name]) and self.now - since > REACTION

    def before_call(self, call: Call) -> None:
        """Check that few nodes have no instance, and that the group of the released instance owes no successor.

        A call is repeated if it is unknown whether it released the instance. Its node counts as one without an instance
        since the first call, so that the repetition adds none.
        """
        if call.name != "provider.replace" or call.argument[0] in self._called:
            return
        instance = call.argument[0]
        self._called.add(instance)
        found = self.system.fleet.instances.get(instance)
        if found is not None and found.alive:
            self._given_up.add(instance)
        lacking = sorted(name for name, since in self._owed.items() if self._counts(name, since))
        if found is not None and found.alive and len(lacking) >= self._limit:
            self.broken(TOO_MANY, instance, f"is released while {lacking} have none, at most {self._limit}")
        if found is None or not found.alive or found.group in self.system.fleet.templates:
            return
        for name, since in self._owed.items():
            state = self._states[name]
            same = state.placement.group == found.group and self._lacks_instance(state)
            if same and self.now - since > OWED_FOR + REACTION and self.system.fleet.pending_groups:
                self.broken(OWING, instance, f"{name} has no instance since {since:%d %H:%M:%S}")

    def after_call(self) -> None:
        """Check that no two unused instances of one attempt or spare run.

        The next attempt may launch another instance while EC2 does not list that of an attempt that has ended.
        """
        calls = len(self.system.ports.launcher.launch_calls)
        if calls == self._launches:
            return
        self._launches = calls
        unused: dict[str, str] = {}
        for name, one in self.system.fleet.instances.items():
            if one.case is None or not one.alive or name in self._backed or name in self._earlier:
                continue
            if (other := unused.setdefault(one.case, name)) != name:
                self.broken(LAUNCHED_TWICE, one.case, f"{other} and {name} run")

    def _follow_waits(self, state: NodeState) -> None:
        name, case, status = state.key.node, state.live_case, state.status
        waits_for = case.waiting_for.value if case is not None and case.waiting_for is not None else ""
        lacks = status is not None and status.value == "provisioning" and self._lacks_instance(state)
        if (
            case is None
            or status is None
            or status.in_service
            or status.value == "validating"
            or case.status.value == "escalated"
            or state.ignored is not None
        ):
            self._waiting.pop(name, None)
        elif waits_for in {"update", "incident", "approval", "pause", "window", "breaker"}:
            self._waiting.pop(name, None)  # what it waits for has a page or an end of its own
        elif waits_for == "capacity" or lacks:
            self._waiting.setdefault(name, self.now)
        waits = case is not None and case.status.value == "queued" and waits_for == "budget"
        if waits and case is not None and case.repair_action.value in {"reset_gpu", "reboot_node"}:
            self._blocked.setdefault(name, self.now)
        else:
            self._blocked.pop(name, None)

    def _end_waits(self, group: str | None) -> None:
        """End the waits of nodes that wait for a slot, or have one: their group has capacity, as it got an instance."""
        for name in self._waiting.keys() - self._owed.keys():
            state = self._states[name]
            waits_for = state.live_case and state.live_case.waiting_for
            if state.placement.group == group and waits_for != "capacity":
                del self._waiting[name]

    def swept(self) -> None:
        """Check how long nodes have waited."""
        # Only a sweep pages, and faults of calls may end each sweep for hours: one that did all its work must have run.
        swept = self.system.workers.swept_at or self.system.stopped_until
        for name, since in self._waiting.items():
            state, counted = self._states[name], max(since, self.system.stopped_until)
            if swept - counted <= WAIT_LIMIT or state.live_case is None or self._was_paged(state):
                continue
            if state.live_case.status.value == "queued" and not self._acts():
                self._waiting[name] = self.now  # it waits for no repair: the mode permits none to start
            else:
                self.broken(UNPAGED, f"{state.key.stream} {state.live_case.id}", f"since {since:%d %H:%M:%S}")
        for name, since in self._blocked.items():
            if self.now - since > SLOT_LIMIT and (holders := self._waiting_holders()):
                self.broken(BLOCKED, name, f"since {since:%d %H:%M:%S}, slots: {holders}")

    def _acts(self) -> bool:
        """Return whether the cluster permits repairs; the order that sets its mode can fail."""
        rows = self.system.ports.table.items_at(*keys.cluster_config(CLUSTER))
        return all(items.read_config(row).mode is Mode.ACT for row in rows)

    def _was_paged(self, state: NodeState) -> bool:
        case = state.live_case
        key = "" if case is None else case.id
        sent = self.system.ports.pager.sent
        self._urgent += [
            (page.key, str(page.bodies))
            for page in sent[self._read :]
            if page.urgency.value == "urgent" and page.attributes["state"] == "triggered"
        ]
        self._read = len(sent)
        return any(key in named or state.key.node in bodies for named, bodies in self._urgent)

    def _waiting_holders(self) -> list[str]:
        """Return the nodes that hold all repair slots, if each of them awaits a successor for too long."""
        holding = [
            state
            for state in self._states.values()
            if (case := state.live_case) is not None
            and case.status.value == "in_progress"
            and case.repair_action.needs_slot
        ]
        waits = all(self.now - self._owed.get(one.key.node, self.now) > SLOT_LIMIT for one in holding)
        return sorted(one.key.node for one in holding) if holding and waits else []

    def ended(self) -> Iterator[tuple[str, str]]:
        """Yield each node that stays without an instance, although nothing will happen to it."""
        for state in SystemView(self.system).nodes:
            idle = state.live_case is None and state.due_at is None
            if state.key.cluster == CLUSTER and state.status == "provisioning" and idle:
                yield GHOST, state.key.stream
