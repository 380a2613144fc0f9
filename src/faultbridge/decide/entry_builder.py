"""Entry builder: build the draft entries of faults, node and case transitions, notes and repair steps.

Operators read the texts on timelines, in pages and tickets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import UNSET

from faultbridge.decide.fold.capacity import MAX_EVENT_ATTRIBUTE_BYTES, limit_attributes
from faultbridge.decide.fold.changes import ADDED_CODE, Change, ChangeKind
from faultbridge.decide.receipt import receipt
from faultbridge.model import event_data
from faultbridge.model.cases import ESCALATED_AT, FAILED_STEP, OUT_OF_SERVICE, RELEASED, Case, Phase, Reason
from faultbridge.model.catalog import Catalog
from faultbridge.model.entries import Draft, limited
from faultbridge.model.enums import MAX_LISTED, CaseStatus, EntryType, NodeStatus, NoteKind, ProviderFailure
from faultbridge.model.event_data import or_unset
from faultbridge.model.faults import Component, Fault
from faultbridge.model.nodes import Incarnation, NodeState, Placement
from faultbridge.model.policy import Policy
from faultbridge.model.times import EPOCH

_NO_PHASE = {
    ESCALATED_AT,
    FAILED_STEP,
    OUT_OF_SERVICE,
    RELEASED,
    *(status.value for status in CaseStatus if not status.live),
}
_PHASE_ORDER = ("detected", CaseStatus.OPEN, CaseStatus.QUEUED, CaseStatus.IN_PROGRESS, *Phase)


def durations(case: Case, end: datetime) -> dict[str, int]:
    """Return the milliseconds of each phase of a case, from its first mark to that of the next, or to `end`."""
    reached = (mark for mark in case.marks.items() if mark[0] not in _NO_PHASE)
    marks = sorted(reached, key=lambda mark: (mark[1], _order(mark[0])))
    ends = [*(at for _, at in marks[1:]), end][: len(marks)]
    millisecond = timedelta(milliseconds=1)
    return {name: (until - at) // millisecond for (name, at), until in zip(marks, ends, strict=True)}


def gpu_time_lost(case: Case, end: datetime, start: datetime = EPOCH) -> int | None:
    """Return the GPU time of a case (`gpu_time`) from the first moment its node is out of service, after `start`."""
    out = case.marks.get(OUT_OF_SERVICE)
    return gpu_time(case.gpus, max(out, start) if out else None, end)


def gpu_time(gpus: int | None, since: datetime | None, until: datetime) -> int | None:
    """Return the GPUs of a node times its milliseconds out of service; 0 if `since` is None, None for unknown GPUs."""
    if gpus is None:
        return None
    return 0 if since is None else gpus * max((until - since) // timedelta(milliseconds=1), 0)


def total_gpu_time(lost: Iterable[int | None]) -> int | None:
    """Return the sum of the GPU times of cases whose GPUs are known; None if there are cases and none is known."""
    times = tuple(lost)
    known = [one for one in times if one is not None]
    return sum(known) if known or not times else None


def _order(name: str) -> int:
    # Phases reached at the same millisecond are sorted in their normal order.
    return _PHASE_ORDER.index(name) if name in _PHASE_ORDER else len(_PHASE_ORDER)


_FAULT_TYPES = {
    ChangeKind.BEGAN: EntryType.FAULT_DETECTED,
    ChangeKind.UPDATED: EntryType.FAULT_UPDATED,
    ChangeKind.ENDED: EntryType.FAULT_CLEARED,
}
_NOTE_KINDS = {
    ChangeKind.NOTED: NoteKind.INFORMATION,
    ChangeKind.LATE: NoteKind.LATE_FAULT,
    ChangeKind.DEVICES: NoteKind.DEVICES,
}


def component_data(component: Component) -> event_data.Component:
    """Return a component (such as a GPU) as event data."""
    return event_data.Component(
        type=component.type,
        pci=component.pci,
        uuid=component.uuid,
        index=component.index,
        serial=component.serial,
        link=component.link,
        name=component.name,
    )


def incarnation_data(incarnation: Incarnation | None) -> event_data.Incarnation | None:
    """Return a node's instance and boot as event data; None if it has no instance."""
    if incarnation is None:
        return None
    instance_id, instance, boot = incarnation.instance_id, incarnation.instance, incarnation.boot
    return event_data.Incarnation(instance_id=instance_id, instance=instance, boot=boot)


def placement_data(placement: Placement) -> event_data.Placement:
    """Return the placement of a node (group, instance type, domain) as event data."""
    group, instance_type, domain = placement.group, placement.instance_type, placement.domain
    domains = {**placement.domains, **placement.declared}
    return event_data.Placement(group=group, instance_type=instance_type, domain=domain, domains=domains)


def fault_change(change: Change, state: NodeState, catalog: Catalog, policy: Policy) -> Draft:
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
    attributes = limit_attributes(fault.attributes if fault else condition.attributes, MAX_EVENT_ATTRIBUTE_BYTES)
    data = event_data.FaultData(
        failure_mode=condition.mode,
        code=condition.code,
        codes=condition.reported_codes,
        added_code=fault.code if fault and ADDED_CODE in change.changed_parts else UNSET,
        because_of=or_unset(condition.because_of),
        component=component_data(condition.component),
        severity=condition.severity,
        action=condition.action,
        message=condition.message,
        since=condition.since,
        observed_at=change.at,
        count=condition.count,
        reporters=tuple(sorted(condition.sources)),
        source=fault.source if fault else None,
        attributes=attributes,
        changed=tuple(change.changed_parts),
        reason=change.reason or None,
        incarnation=incarnation_data(state.incarnation) if condition.known_incarnation else None,
        placement=placement_data(state.placement),
        rule=policy.rule_for(condition, state.key.cluster, state.placement.instance_type).name,
        policy=policy.version,
        catalog=catalog.version,
    )
    return Draft(
        type=_FAULT_TYPES[change.kind],
        occurred_at=change.at,
        data=data,
        case_id=state.live_case.id if state.live_case else None,
        causation_id=change.record_id,
        evidence=fault.evidence if fault else "",
        subject=condition.key,
    )


def status_change(
    state: NodeState, target: NodeStatus, at: datetime, reason: str | Reason, case_id: str | None = None
) -> Draft:
    """Draft the entry that records a node's new status. `case_id` defaults to the node's live case."""
    because = Reason.of(reason)
    return Draft(
        type=EntryType.NODE_STATUS,
        occurred_at=at,
        data=event_data.NodeStatusData(
            from_=state.status,
            to=target,
            reason=limited(str(because)),
            failure=or_unset(because.failure),
            detail=UNSET if because.detail is None else limited(because.detail),
            incarnation=incarnation_data(state.incarnation),
            isolation=state.isolation,
            unverified=state.unverified,
            placement=placement_data(state.placement),
        ),
        case_id=case_id or (state.live_case.id if state.live_case else None),
    )


def case_change(
    before: CaseStatus | None, case: Case, at: datetime, reason: str | Reason, state: NodeState | None = None
) -> Draft:
    """Draft the entry of a case's transition; with `state`, it has the fault message and the placement."""
    closing, request, because = not case.status.live, case.pending_approval, Reason.of(reason)
    lost = gpu_time_lost(case, at) if closing else None
    return Draft(
        type=EntryType.CASE_STATUS,
        occurred_at=at,
        data=event_data.CaseStatusData(
            **case.facts(),
            from_=before,
            to=case.status,
            reason=limited(str(because)),
            failure=or_unset(because.failure),
            detail=UNSET if because.detail is None else limited(because.detail),
            waiting_for=case.waiting_for,
            resolution=case.resolution,
            cause=_cause_data(case, state),
            severity=case.severity,
            action=case.action,
            repair_action=case.repair_action,
            attempt=case.attempts,
            opened_at=case.opened_at,
            detected_at=case.marks.get("detected"),
            answer_by=request.answer_by if request else None,
            phases=durations(case, at) if closing else {},
            gpu_time_lost=lost,
            receipt=receipt(case, lost, at) if closing else None,
            previous_case=case.previous_case,
            rule=case.rule,
            policy=case.policy,
            incarnation=incarnation_data(state.incarnation) if state else None,
            placement=placement_data(state.placement) if state else None,
            incident_id=or_unset(case.incident),
            relapse_of=or_unset(case.relapse_of),
        ),
        case_id=case.id,
        subject=case.condition_key,
    )


def _cause_data(case: Case, state: NodeState | None) -> event_data.Cause:
    condition = state.conditions.get(case.condition_key) if state else None
    message = condition.message if condition else None
    return event_data.Cause(
        failure_mode=case.mode,
        code=case.code,
        codes=condition.reported_codes if condition else (case.code,),
        component=component_data(case.component),
        message=message,
    )


def reference_data(code: str, component: Component, mode: str | None = None) -> event_data.FaultReference:
    """Return the reference to a fault as event data; `mode` is the failure mode of a condition."""
    return event_data.FaultReference(code=code, component=component_data(component), failure_mode=or_unset(mode))


def note(
    *,
    kind: NoteKind,
    text: str,
    at: datetime,
    fault: Fault | None = None,
    record_id: str | None = None,
    case_id: str | None = None,
    facts: Mapping[str, object] | None = None,
    operator: str | None = None,
    stage: str | None = None,
) -> Draft:
    """Draft a note, which changes no status; `stage` is `begun`, `overdue` or `over` for what lasts."""
    return Draft(
        type=EntryType.NOTE,
        occurred_at=at,
        data=event_data.NoteData(
            kind=kind,
            text=text,
            about=reference_data(fault.code, fault.component) if fault else None,
            facts=dict(facts or {}),
            operator=operator,
            stage=or_unset(stage),
        ),
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
    facts: Mapping[str, object] | None = None,
    evidence: str = "",
) -> Draft:
    """Draft the entry of one step of a repair attempt and its outcome; `evidence` is the verifier's report."""
    return Draft(
        type=EntryType.REPLACEMENT_STEP,
        occurred_at=at,
        data=event_data.ReplacementStepData(
            step=name,
            outcome=outcome,
            attempt=case.attempts,
            repair_action=case.repair_action,
            reason=limited(reason) or None,
            failure=failure,
            operation=operation,
            old_instance=old_instance,
            new_instance=new_instance,
            facts=dict(facts or {}),
        ),
        case_id=case.id,
        evidence=evidence,
    )


def node_list(names: Collection[str], count: int | None = None) -> event_data.NodeList:
    """Return the number of nodes (`count`, or all names) and the first fifty names, as event data."""
    listed = tuple(sorted(names)[:MAX_LISTED])
    return event_data.NodeList(count=len(names) if count is None else count, listed=listed)
