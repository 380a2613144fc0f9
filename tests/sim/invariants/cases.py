"""Checks cases: status changes, live cases, table items, repair slots, and faults without a case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from faultbridge.decode.data.policies import default_policy
from faultbridge.model.cases import Case
from faultbridge.model.cluster.state import Control
from faultbridge.model.edges import CASE_EDGES, allowed
from faultbridge.model.enums import Actor, CaseStatus, EntryType, NodeStatus, WaitingFor
from faultbridge.model.nodes import NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.codec import dump
from faultbridge.model.times import from_text
from tests.sim.invariants.view import Invariant, SystemView

CASE = "Case Status Change"
ACT_WITHIN = default_policy().limits.act_within
DECIDED_BY_OPERATOR = frozenset({"cancelled", "return", "retire"})
FaultKey = tuple[str, str | None, str | None]
"""A fault: its code, and the PCI address and the name of its component."""


def _illegal_changes(view: SystemView) -> Iterator[str]:
    for state in view.nodes:
        current: dict[str, str] = {}
        for body in view.entries_of(state):
            meta, data = body["metadata"], body["data"]
            if meta["event_type"] != CASE:
                continue
            case = meta["case_id"]
            if data["from"] != current.get(case) or not allowed(
                CASE_EDGES, data["from"], data["to"], Actor(meta["recorded_by"])
            ):
                yield f"{state.key.stream} {meta['sequence']}: {current.get(case)} | {data['from']} -> {data['to']}"
            current[case] = data["to"]
            if sum(CaseStatus(status).live for status in current.values()) > 1:
                yield f"{state.key.stream} {meta['sequence']}: two live cases"
        if state.case is not None and current.get(state.case.id) != state.case.status:
            yield f"{state.key.stream}: case is {state.case.status}, its last entry says {current.get(state.case.id)}"


def _wrong_items(view: SystemView) -> Iterator[str]:
    for state in view.nodes:
        if state.case is None:
            continue
        found = view.at(*keys.case(state.case.id))
        if found is None or found["case"] != dump(state.case):
            yield f"{state.key.stream} {state.case.id}"


def _abandoned(view: SystemView) -> Iterator[str]:
    current = {state.case.id for state in view.nodes if state.case}
    for item in view.items:
        if item["sk"] == "CASE" and item["case_id"] not in current and CaseStatus(str(item["status"])).live:
            yield f"{item['case_id']} of {item['node']} is {item['status']}"


def is_settled(case: Case, live: Iterable[Case]) -> bool:
    """Return whether only an operator, or a day, can change a live case. `live` are the live cases of all nodes.

    This is so for an escalated case, and for one that waits for capacity after an operator was paged. A case may also
    wait for the isolation budget while the node of an escalated case uses it.
    """
    if case.waiting_for is WaitingFor.ISOLATION_BUDGET:
        return any(one.status is CaseStatus.ESCALATED for one in live)
    return case.status is CaseStatus.ESCALATED or (case.waiting_for is WaitingFor.CAPACITY and case.wait_paged)


def _stalled(view: SystemView) -> Iterator[str]:
    live = [state.live_case for state in view.nodes if state.live_case is not None]
    for state in view.nodes:
        case = state.live_case
        if case is None or is_settled(case, live):
            continue
        yield f"{state.key.stream}: {case.status}, waiting for {case.waiting_for}, {case.reason}"


def _wrong_queue_rows(view: SystemView) -> Iterator[str]:
    waiting = {state.live_case.id for state in view.nodes if _has_status(state, CaseStatus.QUEUED) and state.live_case}
    rows = [str(item["case"]) for item in view.items if str(item["sk"]).startswith("ADMISSION#")]
    if sorted(rows) != sorted(waiting):
        yield f"rows {rows}, waiting {sorted(waiting)}"


def _wrong_slots(view: SystemView) -> Iterator[str]:
    repairs = {state.live_case.id for state in view.nodes if _needs_slot(state) and state.live_case}
    holders: set[str] = set()
    for item in view.items:
        if item["sk"] != "CONTROL":
            continue
        control: Control = items.read_control(str(item["pk"]).split("#")[1], item)
        if leaked := set(control.holders) - repairs:
            yield f"{item['pk']}: {sorted(leaked)} hold a slot and are not being repaired"
        holders |= set(control.holders)
    yield from (f"{case} is being repaired without a slot" for case in sorted(repairs - holders))
    if view.system.workers.leaked_slots:
        yield f"the sweep released {view.system.workers.leaked_slots} slots that closed cases still held"


def _needs_slot(state: NodeState) -> bool:
    return _has_status(state, CaseStatus.IN_PROGRESS) and state.case is not None and state.case.repair_action.needs_slot


def _has_status(state: NodeState, status: CaseStatus) -> bool:
    case: Case | None = state.live_case
    return case is not None and case.status is status


def _missing_cases(view: SystemView) -> Iterator[str]:
    """Yield nodes of the `REPAIRED` cluster without a live case, but with a fault that requires a repair.

    Nodes without an instance are left out if the end of an update of the group was read too late to retire them.
    """
    too_late = any(one.end_seen_too_late for one in view.system.owner.updates)
    for state in view.nodes:
        if state.key.cluster != "train-a" or state.live_case is not None or state.status is None:
            continue
        if too_late and state.status is NodeStatus.PROVISIONING:
            continue
        wanted = {(one.code, one.component.pci, one.component.name) for one in state.active() if one.action.opens_case}
        for fault, since in _actionable_faults(view.entries_of(state)).items():
            if fault in wanted:
                yield f"{state.key.stream}: {fault[0]} is active since {since}, the node is {state.status}"
                break


def _actionable_faults(bodies: Iterable[Mapping[str, Any]]) -> dict[FaultKey, str]:
    """Return the faults of a node that were reported early enough for a repair, with their start times.

    These reports do not count:

    - Reports of a fault that was cleared later. If the fault is reported again, it starts again.
    - Reports that were recorded `ACT_WITHIN` or more after the observation. If the fault `host.clock` shows that the
      node's clock is behind, this delay is first reduced by the clock's error.
    - Reports before an operator canceled the case, or returned or retired the node.
    - Reports that may be about a former instance of the node.
    """
    lasting: dict[FaultKey, str] = {}
    behind = timedelta(0)
    for body in bodies:
        meta, data = body["metadata"], body["data"]
        if data.get("facts", {}).get("order") in DECIDED_BY_OPERATOR:
            lasting.clear()
        if not meta["event_type"].startswith("Node Fault"):
            continue
        fault = (data["code"], data["component"]["pci"], data["component"]["name"])
        age = from_text(meta["recorded_at"]) - from_text(data["observed_at"])
        if data["code"] == "host.clock":
            is_over = meta["event_type"] == EntryType.FAULT_CLEARED
            behind = timedelta(seconds=0 if is_over else max(-int(data["attributes"].get("seconds_off", 0)), 0))
        if age >= behind:
            age -= behind
        if meta["event_type"] == EntryType.FAULT_CLEARED:
            lasting.pop(fault, None)
        elif data["incarnation"] is not None and data["source"] and age < ACT_WITHIN:
            lasting.setdefault(fault, data["since"])
    return lasting


INVARIANTS = (
    Invariant("a case follows only legal edges, and a node has at most one live case", _illegal_changes),
    Invariant("the item of a case equals the case in its node", _wrong_items),
    Invariant("every live case is the current case of its node", _abandoned),
    Invariant("every live case at rest is escalated", _stalled),
    Invariant("the queue rows match the queued cases", _wrong_queue_rows),
    Invariant("repair slots are held exactly by the repairs in progress", _wrong_slots),
    Invariant("a fault that requires a repair has a case", _missing_cases),
)
