"""Rows that mirror a node where others look for it, derived from its state before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from faultbridge.domain.cases import Case
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.entries import Draft, Entry, EntryType
from faultbridge.domain.faults import Severity
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.times import to_text
from faultbridge.storage import items, jobs, keys
from faultbridge.storage.writes import Delete, Item, Key, Put, Update, Write

_UNREMARKABLE = frozenset({None, NodeStatus.HEALTHY, NodeStatus.RETIRED})
MILDEST_PRIORITY = len(Severity) - 1


def mirror(before: NodeState, after: NodeState, config: ClusterConfig, now: datetime) -> tuple[Write, ...]:
    """List the writes that bring a node's mirrors from one state to the next."""
    writes: list[Write] = []
    if after.case is not None and after.case != before.case:
        writes.append(Put(items.case_item(after.case, after.key, config.shard(after.key.node), now)))
    writes += _replace_row(_bad_row(before, config, now), _bad_row(after, config, now))
    writes += _replace_row(_queue_row(before, config, now), _queue_row(after, config, now))
    writes += _release(before, after)
    return tuple(writes)


def _replace_row(old: Item | None, new: Item | None) -> list[Write]:
    writes: list[Write] = []
    if old is not None and (new is None or _key(old) != _key(new)):
        writes.append(Delete(_key(old)))
    if new is not None and (old is None or _content(old) != _content(new)):
        writes.append(Put(new))
    return writes


def _key(row: Item) -> Key:
    return Key(str(row["pk"]), str(row["sk"]))


def _content(row: Item) -> Item:
    return {name: value for name, value in row.items() if name != "updated_at"}


def _bad_row(state: NodeState, config: ClusterConfig, now: datetime) -> Item | None:
    if state.status in _UNREMARKABLE:
        return None
    case = state.live_case
    return items.item(
        keys.bad(state.key.cluster, config.shard(state.key.node), state.key.node),
        now,
        {
            "node": state.key.node,
            "status": state.status.value if state.status else None,
            "severity": state.severity.value if state.severity else None,
            "domain": state.placement.domain,
            "case": case.id if case else None,
            "opened": to_text(case.opened_at) if case else None,
        },
    )


def _queue_row(state: NodeState, config: ClusterConfig, now: datetime) -> Item | None:
    case = state.live_case
    if case is None or case.status is not CaseStatus.QUEUED:
        return None
    since = case.marks.get(CaseStatus.QUEUED.value, case.opened_at)
    return items.item(
        keys.queue(state.key.cluster, config.shard(state.key.node), priority(case), since, case.id),
        now,
        {
            "node": state.key.node,
            "case": case.id,
            "repair_action": case.repair_action.value,
            "waiting_for": case.waiting_for.value if case.waiting_for else None,
            "not_before": to_text(case.not_before) if case.not_before else None,
            "rule": case.rule,
            "domain": state.placement.domain,
            "group": state.placement.group,
            "approved": case.approved,
            "asking": case.asking is not None,
        },
    )


def priority(case: Case) -> int:
    """Return 0 for what must be repaired first."""
    return MILDEST_PRIORITY - case.severity.rank


def _release(before: NodeState, after: NodeState) -> list[Write]:
    held = before.live_case
    if held is None or held.status is not CaseStatus.IN_PROGRESS:
        return []
    now = after.live_case
    if now is not None and now.id == held.id and now.status is CaseStatus.IN_PROGRESS:
        return []
    control = keys.cluster_control(before.key.cluster)
    return [Update(control, remove=(("holders", held.id),), add={"version": 1})]


def links(drafts: tuple[Draft, ...], entries: tuple[Entry, ...], partition: str, now: datetime) -> tuple[Put, ...]:
    """List the rows that lead to new entries: from the job that each names, and from a UUID to its serial number."""
    made: dict[tuple[str, str], Put] = {}
    for draft, entry in zip(drafts, entries, strict=True):
        for put in (*_job(draft.data, entry, partition, now), *_device(draft, now)):
            made[put.key] = put
    return tuple(made.values())


def is_of_device(data: Mapping[str, Any], device: str) -> bool:
    """Tell whether an entry found under a device's names is of it: boards of several GPUs share a serial number."""
    component = data.get("component") or {}
    uuid = component.get("uuid")
    return uuid is None or device in {uuid, component.get("serial")}


def _job(data: Mapping[str, Any], entry: Entry, partition: str, now: datetime) -> Iterator[Put]:
    job = data.get("job_id")
    if not job:
        return
    place = f"{to_text(entry.recorded_at)}#{entry.stream.node or ''}#{entry.epoch:04d}#{entry.sequence:012d}"
    entry_key = keys.entry(partition, entry.epoch, entry.sequence)
    row = {"entry_pk": entry_key.pk, "entry_sk": entry_key.sk}
    yield Put(items.item(jobs.job_link(entry.stream.cluster, str(job), place), now, row))


def _device(draft: Draft, now: datetime) -> Iterator[Put]:
    component = draft.data.get("component") or {}
    uuid, serial = component.get("uuid"), component.get("serial")
    if draft.type is EntryType.FAULT_DETECTED and draft.device and uuid and serial:
        yield Put(items.item(keys.device_link(str(uuid)), now, {"serial": str(serial)}))
