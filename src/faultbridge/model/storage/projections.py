"""Projections: rows that follow from a node's state or new entries, written in the same transaction.

The rows of unhealthy nodes, requested isolations, queued cases and held cases, and the case item follow the node's
state. Index rows lead from a job or a device to the entries about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from faultbridge.model.cases import HELD_SINCE, Case
from faultbridge.model.cluster.incidents import FaultSite
from faultbridge.model.cluster.vacancies import vacant_since
from faultbridge.model.conditions import Condition, component_key, last_end, row_of
from faultbridge.model.entries import Draft, Entry
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, RepairAction, WaitingFor
from faultbridge.model.event_data import JobCheckpointData, JobData, JobExplainedData
from faultbridge.model.fault_enums import Family, Severity
from faultbridge.model.isolation import (
    ORDERED,
    in_service,
    is_joining,
    left_at,
    losses,
    needs_isolation,
    needs_permit,
)
from faultbridge.model.nodes import NodeState, is_faulty, is_repeated
from faultbridge.model.storage import devices, items, jobs, keys
from faultbridge.model.storage import incidents as stored_incidents
from faultbridge.model.storage.jobs import FOLLOWED
from faultbridge.model.storage.node_rows import (
    FalseClaims,
    FamilyFaults,
    HeldCase,
    NamedNode,
    QueuedCase,
    UnhealthyNode,
)
from faultbridge.model.storage.writes import Delete, Key, Put, Update, Write
from faultbridge.model.stored import Stored
from faultbridge.model.times import to_text
from faultbridge.model.values import replace

UNHEALTHY, QUEUE, HELD, REQUESTED_ISOLATIONS, FALSE_CLAIMS = "BAD#", "ADMISSION#", "HELD#", "CORDON#", "FALSE#"
WORK_ROWS, WORK_ROWS_END = frozenset({UNHEALTHY, QUEUE, HELD, REQUESTED_ISOLATIONS, FOLLOWED, FALSE_CLAIMS}), "I"
"""The prefixes of rows of waiting work. They sort before all other rows, so one query reads them."""
REMOTE_ATTRIBUTES = ("switch", "server", "target", "peer", "remote")
"""Attributes of a fault that name the remote object it is about, the most exact first."""
MAX_SITES = 8
_WITHOUT_ROW = frozenset({None, NodeStatus.HEALTHY, NodeStatus.RETIRED})


def projection_writes(before: NodeState, after: NodeState, now: datetime) -> tuple[Write, ...]:
    """Return the writes that update the rows derived from a node's state after a change of the state.

    If the change frees a repair slot of the cluster or changes its number of unverified nodes, one write updates the
    cluster's controls.
    """
    writes: list[Write] = []
    if after.case is not None and after.case != before.case:
        writes.append(Put(items.case_item(after.case, after.key, after.shard, now)))
    for row in (unhealthy_row, _isolation_row, queue_row, _held_row, _false_claims_row):
        writes += _row_writes(row(before), row(after), now)
    writes += control_writes(before, after)
    return tuple(writes)


class Row(NamedTuple):
    """A row and its key."""

    key: Key
    value: Stored


def _row_writes(old: Row | None, new: Row | None, now: datetime) -> list[Write]:
    writes: list[Write] = []
    if old is not None and (new is None or old.key != new.key):
        writes.append(Delete(old.key))
    if new is not None and new != old:
        writes.append(Put(items.row_item(*new, now)))
    return writes


def unhealthy_row(state: NodeState) -> Row | None:
    """Return the row of a registered node that is neither healthy nor retired; None for any other node."""
    if state.status is None or state.status in _WITHOUT_ROW:
        return None
    case = state.live_case
    row = UnhealthyNode(
        node=state.key.node,
        status=state.status,
        severity=state.severity,
        group=state.placement.group,
        domain=state.placement.domain,
        domains=state.placement.domains,
        families=_families(state),
        case=case.id if case else None,
        opened=case.opened_at if case else None,
        event=state.status_event,
        unverified=state.unverified,
        deferred_until=state.case_deferred_until,
        incident=_incident(state),
        ended=last_end(state.active(), state.tombstones.values()),
        failed_step=state.failed_step_at,
        repeated=_repeated(state),
        awaits_correlation=case is not None and case.awaits_correlation,
        code=case.code if case else None,
        sources=_sources(state, case) if case else (),
        not_drained=_not_drained(state, case) if case else None,
        isolated=state.isolation in {Isolation.REQUESTED, Isolation.CONFIRMED},
        needs_permit=state.ignored is None and needs_isolation(state, ordered=False) and needs_permit(state),
        joining=is_joining(state),
        left_at=left_at(state),
        vacant=vacant_since(state),
    )
    return Row(keys.unhealthy_node(state.key.cluster, state.shard, state.key.node), row)


def _sources(state: NodeState, case: Case) -> tuple[str, ...]:
    """Return the sources that report the fault of the case."""
    return tuple(sorted({source for one in state.active() if one.mode == case.mode for source in one.sources}))


def _not_drained(state: NodeState, case: Case) -> str | None:
    """Return the failure mode of a lost node that may not be drained, because too many were drained, else None."""
    waits = case.waiting_for is WaitingFor.ISOLATION_BUDGET and not in_service(state)
    return first_loss(state, case) if waits else None


def _incident(state: NodeState) -> str | None:
    """Return the id of the cluster incident that explains why a node is unhealthy, or None.

    It is the incident of the live case while the case waits for this incident, and afterwards while the case is only
    verified. The incident does not explain a case that is repaired after the wait, or an active condition of the
    current instance that requires a case: the result is None, so that a failed repair ends the trial of a breaker.
    """
    case = state.live_case
    if case is None or case.incident is None:
        return None
    verified = case.repair_action is RepairAction.VERIFY and not is_faulty(state)
    return case.incident if case.status is CaseStatus.ABSORBED or verified else None


def _repeated(state: NodeState) -> bool:
    """Return whether the node's case waits for a repair that follows a failed one."""
    case = state.live_case
    waits = case is not None and case.attempts and case.status in {CaseStatus.QUEUED, CaseStatus.ABSORBED}
    return bool(waits) and is_repeated(state)


def _isolation_row(state: NodeState) -> Row | None:
    # A node in service can be cordoned or discouraged while its work runs; this ends with its fault.
    cordoned = in_service(state) and (state.isolation is Isolation.CONFIRMED or state.discouraged)
    if not (cordoned or state.isolation is Isolation.REQUESTED) or state.status in {None, NodeStatus.RETIRED}:
        return None
    return Row(keys.requested_isolation(state.key.cluster, state.shard, state.key.node), NamedNode(state.key.node))


def _false_claims_row(state: NodeState) -> Row | None:
    if not state.damped or state.status in {None, NodeStatus.RETIRED}:
        return None
    key = keys.false_claims(state.key.cluster, state.shard, state.key.node)
    return Row(key, FalseClaims(state.key.node, state.damped))


def _families(state: NodeState) -> dict[Family, FamilyFaults]:
    """Return a summary of the node's active conditions by their fault family."""
    found: dict[Family, FamilyFaults] = {}
    for one in sorted(state.active(), key=lambda one: (one.since, one.code)):
        if one.family is not None:
            before = found.get(one.family)
            first, subject = (before.first, before.subject) if before else (one.since, None)
            sites = _with_sites(before.sites if before else {}, one)
            found[one.family] = FamilyFaults(one.code, one.since, first, _remote(one) or subject, sites)
    return found


def _with_sites(sites: Mapping[str, FaultSite], condition: Condition) -> dict[str, FaultSite]:
    rows = sorted({row_of(key) for key, one in condition.reporters.items() if one.active})
    component, link = condition.component, condition.attributes.get("link", "")
    site = FaultSite(
        component_key(replace(component, link=int(link)) if link.isdigit() else component), condition.since
    )
    return dict([*sites.items(), *((row, site) for row in rows if row not in sites)][:MAX_SITES])


def _remote(condition: Condition) -> str | None:
    return next((condition.attributes[name] for name in REMOTE_ATTRIBUTES if condition.attributes.get(name)), None)


def _held_row(state: NodeState) -> Row | None:
    case = state.live_case
    if case is None or case.status is not CaseStatus.ABSORBED:
        return None
    key = stored_incidents.held_case(state.key.cluster, state.shard, case.id)
    return Row(key, HeldCase(state.key.node, case.id, case.incident, case.opened_at))


def queue_row(state: NodeState) -> Row | None:
    """Return the row of a node's queued case; None if its case is not queued."""
    row = queued_case(state)
    if row is None:
        return None
    return Row(keys.queue(state.key.cluster, state.shard, row.priority, row.since, row.case), row)


def queued_case(state: NodeState) -> QueuedCase | None:
    """Return a node's queued case as the queue lists it; None if its case is not queued."""
    case = state.live_case
    if case is None or case.status is not CaseStatus.QUEUED:
        return None
    # A case that waited for an incident keeps its place: the oldest is released first.
    was_held = CaseStatus.ABSORBED.value in case.marks
    return QueuedCase(
        key=state.key,
        case=case.id,
        repair_action=case.repair_action,
        priority=priority(case),
        since=case.opened_at if was_held else case.marks.get(CaseStatus.QUEUED.value, case.opened_at),
        waiting_for=case.waiting_for,
        not_before=case.not_before,
        rule=case.rule,
        domain=state.placement.domain,
        placed=state.placement.domains,
        families=tuple(sorted(_families(state))),
        group=state.placement.group,
        approved=case.approved,
        approval_pending=case.pending_approval is not None,
        reason=case.reason,
        needs_permit=needs_permit(state),
        lost=first_loss(state, case),
        repeated_since=case.opened_at if _repeated(state) else None,
        capacity_since=None if case.wait_paged else _waits_since(case),
    )


def _waits_since(case: Case) -> datetime | None:
    return case.marks.get(HELD_SINCE) if case.waiting_for is WaitingFor.IDLE else case.capacity_since


def first_loss(state: NodeState, case: Case) -> str | None:
    """Return the failure mode that ended the work of a lost node which no attempt has drained yet, else None.

    It is None for a node that an operator ordered out of service: no limit of drains applies to an order.
    """
    if case.attempts or any(one.code.startswith(ORDERED) for one in state.active()):
        return None
    return next((one.mode for one in losses(state)), None)


def priority(case: Case) -> int:
    """Return the queue priority of a case: 0 for the worst severity, the most urgent."""
    return len(Severity) - 1 - case.severity.rank


def slot_release(before: NodeState, after: NodeState) -> list[Update]:
    """Return the write that frees a case's repair slot; empty unless the change ends the case's attempt."""
    case = before.live_case
    if case is None or case.status is not CaseStatus.IN_PROGRESS:
        return []
    current = after.live_case
    if current is not None and current.id == case.id and current.status is CaseStatus.IN_PROGRESS:
        return []
    control = keys.cluster_control(before.key.cluster)
    return [Update(control, remove=(("holders", case.id),), add={"version": 1})]


def control_writes(before: NodeState, after: NodeState) -> list[Write]:
    """Return one write of the controls, because a transaction writes an item once; empty if nothing changes there."""
    change = _is_unverified(after) - _is_unverified(before)
    removed = [path for write in slot_release(before, after) for path in write.remove]
    if before.permitted_at is not None and after.permitted_at is None:
        removed.append(("permits", before.key.node))
    if not change and not removed:
        return []
    added = {"version": 1, **({"unverified": change} if change else {})}
    return [Update(keys.cluster_control(after.key.cluster), remove=tuple(removed), add=added)]


def _is_unverified(state: NodeState) -> bool:
    return state.unverified and state.status not in {None, NodeStatus.RETIRED}


def index_rows(drafts: tuple[Draft, ...], entries: tuple[Entry, ...], partition: str, now: datetime) -> tuple[Put, ...]:
    """Return the index rows of new entries: links from a job to its entries, and the rows of devices."""
    rows: dict[tuple[str, str], Put] = {}
    for draft, entry in zip(drafts, entries, strict=True):
        for row in (*_job_rows(draft, entry, partition, now), *devices.device_rows(draft, entry, partition, now)):
            rows[row.key] = row
    return tuple(rows.values())


def _job_rows(draft: Draft, entry: Entry, partition: str, now: datetime) -> Iterator[Put]:
    if not isinstance(draft.data, JobData | JobCheckpointData | JobExplainedData):
        return
    position = f"{to_text(entry.recorded_at)}#{entry.stream.node or ''}#{entry.epoch:04d}#{entry.sequence:012d}"
    entry_key = keys.entry(partition, entry.epoch, entry.sequence)
    row = {"entry_pk": entry_key.pk, "entry_sk": entry_key.sk}
    yield Put(items.item(jobs.job_link(entry.stream.cluster, draft.data.job_id, position), now, row))
