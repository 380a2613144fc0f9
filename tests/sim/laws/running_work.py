"""Running work: no diagnostic runs beside it, and a claim alone neither ends it nor changes an instance.

The environment records in `situations.truth` which instance runs work; the product does not read it.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from faultbridge.decode.data import load_catalog
from faultbridge.model.catalog import LOST
from tests.sim.laws.facts import claimed, instance_of, is_ordered, proven, proven_codes, rank
from tests.sim.laws.law import Law
from tests.sim.situations.truth import FORGED_CODES

if TYPE_CHECKING:
    from faultbridge.model.cases import Case
    from faultbridge.model.nodes import NodeState
    from tests.sim.fakes.seam import Call
    from tests.sim.simulated_system import SimulatedSystem

DIAGNOSED = "no diagnostic runs beside running work"
EVICTED = "a claim alone evicts no work"
FORCED = "a claim alone forces no drain"
CHANGED = "a claim alone changes no instance"
REFUTED = "a claim is not refuted if its instance shows the fault"
FORGED = "text that a program can write proves no fault"
ENDED = "no repair ends work that a fault only endangers"

CATALOG = load_catalog()
ENDING = frozenset(row.mode for row in CATALOG.rows.values() if row.work in LOST) | frozenset(
    name for name, mode in CATALOG.modes.items() if mode.lost_after is not None
)
"""The failure modes that end running work, at least under one of their codes or with a second fact."""


class WorkLaw(Law):
    """Checks diagnostics, drains, restarts and releases."""

    def __init__(self, system: SimulatedSystem) -> None:
        super().__init__(system)
        self._states: dict[str, NodeState] = {}
        self._failed: dict[str, datetime] = {}
        self._acted: dict[str, dict[int, datetime]] = {}
        self._required: dict[str, int] = {}
        self._out_of_reach: set[str] = set()
        self._evicted = 0
        self._ending: set[str] = set()

    def node_changed(self, state: NodeState) -> None:
        """Keep the state of the node and what its faults require, and check that forged text proves nothing.

        A claim counts once a failed verification confirmed it.
        """
        self._states[state.key.node] = state
        if (case := state.live_case) is not None and may_end_work(state):
            self._ending.add(case.id)
        confirmed = [one for one in claimed(state) if one.confirmed_at is not None]
        for condition in (*proven(state), *confirmed):
            if case is not None:
                required = rank(condition.action.value)
                self._required[case.id] = max(self._required.get(case.id, 0), required)
        for condition in proven(state):
            for code in FORGED_CODES & proven_codes(condition):
                self.broken(FORGED, f"{state.key.stream} {code}", "is proven, and only a program reported it")

    def entry_added(self, body: dict[str, Any]) -> None:
        """Keep when a verification failed; check a refuted claim, and a drain that did not wait for the work."""
        meta, data = body["metadata"], body["data"]
        node, step = str(meta["node"]), (data.get("step"), data.get("outcome"))
        if step == ("verify", "failed"):
            self._failed[node] = self.now
        elif step == ("intent", "committed"):
            self._acted.setdefault(str(meta["case_id"]), {})[int(data.get("attempt", 0))] = self.now
        elif step == ("repair_in_place", "out_of_reach"):
            self._out_of_reach.add(str(meta["case_id"]))
        elif str(data.get("reason")).endswith("of claim-check"):
            self._check_refuted(node, str(data["code"]))
        elif step == ("drain", "forced") and (state := self._states.get(node)) is not None and _is_claimed(state):
            self.broken(FORCED, f"{state.key.stream} {meta['sequence']}", _text(state))

    def _check_refuted(self, node: str, code: str) -> None:
        instance = instance_of(self._states[node]) if node in self._states else None
        xid, _, shown_at = self.system.truth.shown.get(str(instance), (0, 0, None))
        outputs = self.system.ports.collector.read_at.items()
        reads = [output.at for (read, _), output in outputs if read == instance and output and output.at]
        if code == f"xid.{xid}" and shown_at is not None and reads and min(reads) > shown_at:
            self.broken(REFUTED, f"{node} {code}", f"shown since {shown_at:%d %H:%M:%S}")

    def before_call(self, call: Call) -> None:
        """Check a call that uses, restarts or releases an instance."""
        if call.name == "verifier.start":
            instance = call.argument[0]
            until = self.system.truth.work_until(instance)
            if until is not None and self.system.checks.has_scheduler:
                self.broken(DIAGNOSED, instance, f"work runs until {until:%d %H:%M:%S}")
        elif call.name == "provider.replace":
            self._check_change(call.argument[0], "replace_node")
        elif call.name == "restarter.restart":
            self._check_change(call.argument[1], call.argument[0].value)

    def _check_work(self, state: NodeState, instance: str, action: str) -> None:
        until, case = self.system.truth.work_until(instance), state.live_case
        if until is not None and case is not None and case.id not in self._ending:
            self.broken(ENDED, f"{state.key.stream} {action} of {instance}", f"work runs until {until:%d %H:%M:%S}")

    def after_call(self) -> None:
        """Check the work that drains ended since the previous call."""
        evicted = self.system.ports.orchestrator.evicted
        for node, instance in evicted[self._evicted :]:
            state = self._states.get(node)
            if state is not None and _is_claimed(state):
                self.broken(EVICTED, f"{state.key.stream} on {instance}", _text(state))
        self._evicted = len(evicted)

    def _check_change(self, instance: str, action: str) -> None:
        """Check that a claim is not the only reason for a change of an instance.

        A change that a claim requires needs a verification that failed after the claim. A stronger change than any
        claim requires needs one that failed after the previous repair of the case, or a proven or confirmed fault of
        the case that required it; that fault may have ended since, while a claim that diagnostics confirmed is active.
        A policy that permits no weaker repair requires a replacement for such a claim, and so does an instance that no
        weaker repair reaches.
        """
        state = next((one for one in self._states.values() if instance_of(one) == instance), None)
        if state is not None:
            self._check_work(state, instance, action)
        if state is None or not _is_claimed(state) or not self.system.fleet.is_alive(instance):
            return
        failed = self._failed.get(state.key.node)
        case = state.live_case
        claims = [one.since for one in claimed(state) if rank(one.action.value) >= rank(action)]
        if failed is not None:
            if any(since < failed for since in claims):
                return
            if case is not None and case.attempts > 1 and self._last_repair(case) < failed:
                return
            confirmed = any(one.since < failed for one in claimed(state))
            required = case and (case.id in self._out_of_reach or self._required.get(case.id, 0) >= rank(action))
            required = required or self.system.replaces_only
            if confirmed and required:
                return
        self.broken(CHANGED, f"{state.key.stream} {action} of {instance}", f"{_text(state)}; failed at {failed}")

    def _last_repair(self, case: Case) -> datetime:
        """Return when an attempt before the current one changed the instance; now if none did."""
        current = case.attempt.number if case.attempt is not None else case.attempts + 1
        return max((at for number, at in self._acted.get(case.id, {}).items() if number < current), default=self.now)


def may_end_work(state: NodeState) -> bool:
    """Return whether a repair may end a node's work: a proven fault ended it, people ordered it, or it was saved."""
    case = state.live_case
    saved = case is not None and case.drain_for is not None
    return (
        saved or is_ordered(state) or any(one.mode in ENDING or one.mode not in CATALOG.modes for one in proven(state))
    )


def _is_claimed(state: NodeState) -> bool:
    """Return whether only claims report the faults of a node, and no order of people is about it."""
    others = any(rank(one.action.value) for one in proven(state))
    return not others and not is_ordered(state) and any(rank(one.action.value) for one in claimed(state))


def _text(state: NodeState) -> str:
    return f"{state.status}, only claimed: {sorted(one.code for one in claimed(state))}"
