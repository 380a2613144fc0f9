"""Entry builder: build the draft entries of faults, node and case transitions, notes and repair steps.

The `data` of a draft has the shape of an event schema (docs/events.md). Operators read the texts on timelines, in pages
and tickets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from faultbridge.decide.fold.capacity import MAX_EVENT_ATTRIBUTE_BYTES, limit_attributes
from faultbridge.decide.fold.changes import Change, ChangeKind
from faultbridge.model.cases import ESCALATED_AT, FAILED_STEP, RELEASED, Case, Phase, Reason
from faultbridge.model.conditions import Condition, condition_key
from faultbridge.model.entries import Draft, limited
from faultbridge.model.enums import MAX_LISTED, CaseStatus, EntryType, NodeStatus, ProviderFailure
from faultbridge.model.faults import Component, Fault
from faultbridge.model.nodes import Incarnation, NodeState, Placement
from faultbridge.model.policy import Policy
from faultbridge.model.times import to_text

_NO_PHASE = {ESCALATED_AT, FAILED_STEP, RELEASED, *(status.value for status in CaseStatus if not status.live)}
_PHASE_ORDER = ("detected", CaseStatus.OPEN, CaseStatus.QUEUED, CaseStatus.IN_PROGRESS, *Phase)


def durations(case: Case, end: datetime) -> dict[str, int]:
    """Return the milliseconds of each phase of a case, from its first mark to that of the next, or to `end`."""
    reached = (mark for mark in case.marks.items() if mark[0] not in _NO_PHASE)
    marks = sorted(reached, key=lambda mark: (mark[1], _order(mark[0])))
    ends = [*(at for _, at in marks[1:]), end][: len(marks)]
    millisecond = timedelta(milliseconds=1)
    return {name: (until - at) // millisecond for (name, at), until in zip(marks, ends, strict=True)}


def gpu_time_lost(case: Case, end: datetime) -> int | None:
    """Return the case's milliseconds times the GPUs, 0 without an attempt, None for unknown GPUs."""
    if case.gpus is None:
        return None
    attempted = CaseStatus.IN_PROGRESS in case.marks
    return case.gpus * ((end - case.opened_at) // timedelta(milliseconds=1)) if attempted else 0


def _order(name: str) -> int:
    # Phases reached at the same millisecond are sorted in their normal order.
    return _PHASE_ORDER.index(name) if name in _PHASE_ORDER else len(_PHASE_ORDER)


_FAULT_TYPES = {
    ChangeKind.BEGAN: EntryType.FAULT_DETECTED,
    ChangeKind.UPDATED: EntryType.FAULT_UPDATED,
    ChangeKind.ENDED: EntryType.FAULT_CLEARED,
}
_NOTE_KINDS = {ChangeKind.NOTED: "information", ChangeKind.LATE: "late_fault", ChangeKind.DEVICES: "devices"}


def component_data(component: Component) -> dict[str, Any]:
    """Return a component (such as a GPU) as the JSON data of an event."""
    return {
        "type": component.type.value,
        "pci": component.pci,
        "uuid": component.uuid,
        "index": component.index,
        "serial": component.serial,
        "link": component.link,
        "name": component.name,
    }


def incarnation_data(incarnation: Incarnation | None) -> dict[str, Any] | None:
    """Return a node's instance and boot as the JSON data of an event; None if it has no instance."""
    if incarnation is None:
        return None
    return {"instance_id": incarnation.instance_id, "instance": incarnation.instance, "boot": incarnation.boot}


def placement_data(placement: Placement) -> dict[str, Any]:
    """Return the placement of a node (group, instance type, domain) as the JSON data of an event."""
    return {"group": placement.group, "instance_type": placement.instance_type, "domain": placement.domain}


def fault_change(change: Change, state: NodeState, catalog: str, policy: Policy) -> Draft:
    """Draft the entry of a change: a fault entry, or a note if the change has no condition."""
    if change.condition is None:
        return note(
            kind=_NOTE_KINDS[change.kind],
            text=change.reason or (change.fault.message if change.fault else ""),
            at=change.at,
            fault=change.fault,
            record_id=change.record_id,
            facts=change.facts,
        )
    condition, fault = change.condition, change.fault
    data = _condition_data(condition, state, policy) | {
        "observed_at": to_text(change.at),
        "source": fault.source if fault else None,
        "reported_code": fault.code if fault and fault.code != condition.code else None,
        "attributes": limit_attributes(fault.attributes if fault else condition.attributes, MAX_EVENT_ATTRIBUTE_BYTES),
        "changed": list(change.changed_parts),
        "reason": change.reason or None,
        "catalog": catalog,
    }
    return Draft(
        type=_FAULT_TYPES[change.kind],
        occurred_at=change.at,
        data=data,
        case_id=state.live_case.id if state.live_case else None,
        causation_id=change.record_id,
        evidence=fault.evidence if fault else "",
        subject=condition_key(condition.code, condition.component),
    )


def _condition_data(condition: Condition, state: NodeState, policy: Policy) -> dict[str, Any]:
    return {
        "code": condition.code,
        "component": component_data(condition.component),
        "severity": condition.severity.value,
        "action": condition.action.value,
        "message": condition.message,
        "since": to_text(condition.since),
        "count": condition.count,
        "reporters": sorted(condition.sources),
        "incarnation": incarnation_data(state.incarnation) if condition.known_incarnation else None,
        "placement": placement_data(state.placement),
        "rule": policy.rule_for(condition, state.key.cluster, state.placement.instance_type).name,
        "policy": policy.version,
    }


def _reason_data(reason: str | Reason) -> dict[str, Any]:
    """Return a reason as event data; its failure and its detail only if it has them."""
    parts = Reason.of(reason)
    detail = {} if parts.detail is None else {"detail": limited(parts.detail)}
    failure = {"failure": parts.failure.value} if parts.failure else {}
    return {"reason": limited(str(parts)), **detail, **failure}


def status_change(
    state: NodeState, target: NodeStatus, at: datetime, reason: str | Reason, case_id: str | None = None
) -> Draft:
    """Draft the entry that records a node's new status. `case_id` defaults to the node's live case."""
    return Draft(
        type=EntryType.NODE_STATUS,
        occurred_at=at,
        data={
            "from": state.status.value if state.status else None,
            "to": target.value,
            **_reason_data(reason),
            "incarnation": incarnation_data(state.incarnation),
            "isolation": state.isolation.value,
            "unverified": state.unverified,
            "placement": placement_data(state.placement),
        },
        case_id=case_id or (state.live_case.id if state.live_case else None),
    )


def case_change(
    before: CaseStatus | None, case: Case, at: datetime, reason: str | Reason, state: NodeState | None = None
) -> Draft:
    """Draft the entry of a case's transition; with `state`, it has the fault message and the placement."""
    closing, request = not case.status.live, case.pending_approval
    return Draft(
        type=EntryType.CASE_STATUS,
        occurred_at=at,
        data={
            "from": before.value if before else None,
            "to": case.status.value,
            **_reason_data(reason),
            "waiting_for": case.waiting_for.value if case.waiting_for else None,
            "resolution": case.resolution.value if case.resolution else None,
            "cause": _cause_data(case, state),
            "severity": case.severity.value,
            "action": case.action.value,
            "repair_action": case.repair_action.value,
            "attempt": case.attempts,
            "opened_at": to_text(case.opened_at),
            "detected_at": to_text(case.marks["detected"]) if "detected" in case.marks else None,
            "not_before": to_text(case.not_before) if case.not_before else None,
            "answer_by": to_text(request.answer_by) if request else None,
            "phases": durations(case, at) if closing else {},
            "gpus": case.gpus,
            "gpu_time_lost": gpu_time_lost(case, at) if closing else None,
            "previous_case": case.previous_case,
            "rule": case.rule,
            "policy": case.policy,
            "incarnation": incarnation_data(state.incarnation) if state else None,
            "placement": placement_data(state.placement) if state else None,
            **{name: one for name, one in (("incident_id", case.incident), ("relapse_of", case.relapse_of)) if one},
        },
        case_id=case.id,
        subject=condition_key(case.code, case.component),
    )


def _cause_data(case: Case, state: NodeState | None) -> dict[str, Any]:
    condition = state.conditions.get(condition_key(case.code, case.component)) if state else None
    return {
        "code": case.code,
        "component": component_data(case.component),
        "message": condition.message if condition else None,
    }


def note(
    *,
    kind: str,
    text: str,
    at: datetime,
    fault: Fault | None = None,
    record_id: str | None = None,
    case_id: str | None = None,
    facts: Mapping[str, Any] | None = None,
    operator: str | None = None,
    stage: str | None = None,
) -> Draft:
    """Draft a note, which changes no status; `stage` is `begun`, `overdue` or `over` for what lasts."""
    about = None if fault is None else {"code": fault.code, "component": component_data(fault.component)}
    return Draft(
        type=EntryType.NOTE,
        occurred_at=at,
        data={
            "kind": kind,
            "text": text,
            "about": about,
            "facts": dict(facts or {}),
            "operator": operator,
            **({"stage": stage} if stage else {}),
        },
        case_id=case_id,
        causation_id=record_id,
        evidence=fault.evidence if fault else "",
    )


def step(
    case: Case,
    name: str,
    outcome: str,
    at: datetime,
    *,
    reason: str = "",
    failure: ProviderFailure | None = None,
    operation: str | None = None,
    old_instance: str | None = None,
    new_instance: str | None = None,
    facts: Mapping[str, Any] | None = None,
    evidence: str = "",
) -> Draft:
    """Draft the entry of one step of a repair attempt and its outcome; `evidence` is the verifier's report."""
    return Draft(
        type=EntryType.REPLACEMENT_STEP,
        occurred_at=at,
        data={
            "step": name,
            "outcome": outcome,
            "attempt": case.attempts,
            "repair_action": case.repair_action.value,
            "reason": limited(reason) or None,
            "failure": failure.value if failure else None,
            "operation": operation,
            "old_instance": old_instance,
            "new_instance": new_instance,
            "facts": dict(facts or {}),
        },
        case_id=case.id,
        evidence=evidence,
    )


def node_list(names: Collection[str], count: int | None = None) -> dict[str, Any]:
    """Return the number of nodes (`count`, or all names) and the first fifty names, as event data."""
    return {"count": len(names) if count is None else count, "listed": sorted(names)[:MAX_LISTED]}
