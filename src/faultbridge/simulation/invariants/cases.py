"""Cases: legal moves only, one at a time, and none that stands still without a reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from faultbridge.data.policies import default_policy
from faultbridge.domain.cases import Case, WaitingFor
from faultbridge.domain.clusters import Control
from faultbridge.domain.edges import CASE_EDGES, Actor, CaseStatus, allowed
from faultbridge.domain.entries import EntryType
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.times import from_text
from faultbridge.simulation.invariants.base import Invariant
from faultbridge.simulation.view import View
from faultbridge.storage import items, keys
from faultbridge.storage.codec import dump

CASE = "Case Status Change"
ACT_WITHIN = default_policy().limits.act_within
Named = tuple[str, str | None, str | None]
"""A fault by its code, and by the PCI address and the name of its component."""


def _illegal(view: View) -> Iterator[str]:
    for state in view.nodes:
        at: dict[str, str] = {}
        for body in view.entries_of(state):
            meta, data = body["metadata"], body["data"]
            if meta["event_type"] != CASE:
                continue
            case = meta["case_id"]
            if data["from"] != at.get(case) or not allowed(
                CASE_EDGES, data["from"], data["to"], Actor(meta["recorded_by"])
            ):
                yield f"{state.key.stream} {meta['sequence']}: {at.get(case)} | {data['from']} -> {data['to']}"
            at[case] = data["to"]
            if sum(CaseStatus(status).live for status in at.values()) > 1:
                yield f"{state.key.stream} {meta['sequence']}: two live cases"
        if state.case is not None and at.get(state.case.id) != state.case.status:
            yield f"{state.key.stream}: case is {state.case.status}, its last entry says {at.get(state.case.id)}"


def _items(view: View) -> Iterator[str]:
    for state in view.nodes:
        if state.case is None:
            continue
        found = view.at(*keys.case(state.case.id))
        if found is None or found["case"] != dump(state.case):
            yield f"{state.key.stream} {state.case.id}"


def _unfinished(view: View) -> Iterator[str]:
    current = {state.case.id for state in view.nodes if state.case}
    for item in view.items:
        if item["sk"] == "CASE" and item["case_id"] not in current and CaseStatus(str(item["status"])).live:
            yield f"{item['case_id']} of {item['node']} is {item['status']}"


def _stuck(view: View) -> Iterator[str]:
    for state in view.nodes:
        case = state.live_case
        if case is None or case.status is CaseStatus.ESCALATED:
            continue
        if case.status is CaseStatus.QUEUED and case.waiting_for is WaitingFor.APPROVAL:
            continue
        yield f"{state.key.stream}: {case.status}, waiting for {case.waiting_for}, {case.reason}"


def _queue_rows(view: View) -> Iterator[str]:
    waiting = {state.live_case.id for state in view.nodes if _is(state, CaseStatus.QUEUED) and state.live_case}
    rows = [str(item["case"]) for item in view.items if str(item["sk"]).startswith("QUEUE#")]
    if sorted(rows) != sorted(waiting):
        yield f"rows {rows}, waiting {sorted(waiting)}"


def _holders(view: View) -> Iterator[str]:
    held = {state.live_case.id for state in view.nodes if _holds(state) and state.live_case}
    for item in view.items:
        if item["sk"] != "CONTROL":
            continue
        control: Control = items.read_control(str(item["pk"]).split("#")[1], item)
        if set(control.holders) - held:
            yield f"{item['pk']}: {sorted(set(control.holders) - held)} hold a slot and are not being repaired"
    everybody = {str(one) for item in view.items if item["sk"] == "CONTROL" for one in _named(item.get("holders"))}
    yield from (f"{case} is being repaired without a slot" for case in sorted(held - everybody))
    if view.scene.workers.orphans:
        yield f"the sweep had to give {view.scene.workers.orphans} slots back that a closed case had kept"


def _named(holders: object) -> list[object]:
    return list(holders) if isinstance(holders, dict) else []


def _holds(state: NodeState) -> bool:
    return _is(state, CaseStatus.IN_PROGRESS) and state.case is not None and state.case.repair_action.needs_slot


def _is(state: NodeState, status: CaseStatus) -> bool:
    case: Case | None = state.live_case
    return case is not None and case.status is status


def _unattended(view: View) -> Iterator[str]:
    """Find nodes that serve although a repair is known to be needed and nobody is at it."""
    for state in view.nodes:
        if state.key.cluster != "train-a" or state.live_case is not None or state.status is None:
            continue
        wanted = {(one.code, one.component.pci, one.component.name) for one in state.active() if one.action.opens_case}
        for named, since in _to_act_upon(view.entries_of(state)).items():
            if named in wanted:
                yield f"{state.key.stream}: {named[0]} is active since {since}, the node is {state.status}"
                break


def _to_act_upon(bodies: Iterable[Mapping[str, Any]]) -> dict[Named, str]:
    """Return since when what was told in time has lasted; an episode that ended gives the next one no right to act."""
    lasting: dict[Named, str] = {}
    for body in bodies:
        meta, data = body["metadata"], body["data"]
        if not meta["event_type"].startswith("Node Fault"):
            continue
        named = (data["code"], data["component"]["pci"], data["component"]["name"])
        age = from_text(meta["recorded_at"]) - from_text(data["observed_at"])
        if meta["event_type"] == EntryType.FAULT_CLEARED:
            lasting.pop(named, None)
        elif data["incarnation"] is not None and data["source"] and age < ACT_WITHIN:
            lasting.setdefault(named, data["since"])
    return lasting


INVARIANTS = (
    Invariant("a case moves along legal edges only, one live case a node", _illegal),
    Invariant("the item of a case is what its node says", _items),
    Invariant("no case is left behind by its node", _unfinished),
    Invariant("every live case moves, waits for a person, or waits for what is true", _stuck),
    Invariant("the rows of the queue are the cases that wait", _queue_rows),
    Invariant("the slots are held by the repairs under way", _holders),
    Invariant("what must be repaired has a case", _unattended),
)
