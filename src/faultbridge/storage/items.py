"""Items of the table, made from domain values and read back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from faultbridge.domain.aliases import Alias, AliasRow
from faultbridge.domain.cases import Case
from faultbridge.domain.clusters import ClusterConfig, ClusterState, Control
from faultbridge.domain.entries import Entry
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.domain.spares import Spare
from faultbridge.domain.times import to_text
from faultbridge.storage import keys
from faultbridge.storage.codec import dump, load
from faultbridge.storage.upcasts import LATEST, upcast
from faultbridge.storage.writes import Item, Key


def item(key: Key, now: datetime, attributes: Mapping[str, Any]) -> Item:
    """Make an item; every one says in which shape it was written and when."""
    return {"pk": key.pk, "sk": key.sk, "schema": LATEST, "updated_at": to_text(now), **attributes}


def state_item(state: NodeState, now: datetime) -> Item:
    """Make the item of a node's state, with its timer when it has one."""
    made = item(keys.node_state(state.key), now, {"version": state.head.version, "state": dump(state)})
    if state.due_at is not None:
        made |= {"gsi4pk": keys.due(state.key.stream), "gsi4sk": to_text(state.due_at)}
    return made


def read_state(key: NodeKey, found: Mapping[str, Any] | None) -> NodeState:
    """Read a node's state; a node that nobody registered is a state without a status."""
    return NodeState(key) if found is None else load(NodeState, upcast(found)["state"])


def entry_item(entry: Entry, partition: str, shard: int, instance_id: str | None = None) -> Item:
    """Make the item of an entry: line of the audit record, row of the outbox and body of the event.

    `instance_id` is the instance that sits in the node once the entry is written.
    """
    stream = entry.stream
    recorded = to_text(entry.recorded_at)
    place = f"{recorded}#{stream.node or ''}#{entry.epoch:04d}#{entry.sequence:012d}"
    made = item(
        keys.entry(partition, entry.epoch, entry.sequence),
        entry.recorded_at,
        {
            "type": entry.type.value,
            "cluster": stream.cluster,
            "node": stream.node,
            "epoch": entry.epoch,
            "sequence": entry.sequence,
            "event_id": entry.event_id,
            "severity": entry.severity.value if entry.severity else None,
            "recorded_at": recorded,
            "body": entry.body,
            "hash": entry.hash,
            "gsi1pk": keys.timeline(stream.cluster, shard),
            "gsi1sk": place,
            "gsi4pk": keys.outbox(stream.name),
            "gsi4sk": recorded,
        },
    )
    if instance_id:
        made["instance_id"] = instance_id
    if entry.evidence:
        made["evidence"] = entry.evidence
    if entry.case_id:
        made |= {"case_id": entry.case_id, "gsi2pk": f"CASE#{entry.case_id}", "gsi2sk": place}
    if entry.device:
        made |= {"device": entry.device, "gsi3pk": keys.device(entry.device), "gsi3sk": place}
    return made


def case_item(case: Case, key: NodeKey, shard: int, now: datetime) -> Item:
    """Make the item of a case, found by its id, or by cluster and status."""
    return item(
        keys.case(case.id),
        now,
        {
            "case_id": case.id,
            "cluster": key.cluster,
            "node": key.node,
            "status": case.status.value,
            "opened": to_text(case.opened_at),
            "closed": to_text(case.closed_at) if case.closed_at else None,
            "resolution": case.resolution.value if case.resolution else None,
            "waiting_for": case.waiting_for.value if case.waiting_for else None,
            "severity": case.severity.value,
            "case": dump(case),
            "gsi2pk": keys.cases_of(key.cluster, shard),
            "gsi2sk": f"{case.status.value}#{to_text(case.opened_at)}#{case.id}",
        },
    )


def read_case(found: Mapping[str, Any]) -> Case:
    """Read a case back."""
    return load(Case, upcast(found)["case"])


def alias_item(alias: Alias, row: AliasRow, now: datetime) -> Item:
    """Make the item of one name of a node."""
    return item(keys.alias(*alias), now, {"row": dump(row), "valid_from": to_text(row.valid_from)})


def read_alias(found: Mapping[str, Any]) -> AliasRow:
    """Read where an alias leads."""
    return load(AliasRow, upcast(found)["row"])


def config_item(config: ClusterConfig, now: datetime) -> Item:
    """Make the item of a cluster's registration."""
    return item(keys.cluster_config(config.cluster), now, {"version": config.version, "config": dump(config)})


def read_config(found: Mapping[str, Any]) -> ClusterConfig:
    """Read a cluster's registration."""
    return load(ClusterConfig, upcast(found)["config"])


def cluster_item(state: ClusterState, now: datetime) -> Item:
    """Make the item of a cluster's state."""
    return item(keys.cluster_state(state.cluster), now, {"version": state.head.version, "state": dump(state)})


def read_cluster(cluster: str, found: Mapping[str, Any] | None) -> ClusterState:
    """Read a cluster's state; one that never spoke has no status."""
    return ClusterState(cluster) if found is None else load(ClusterState, upcast(found)["state"])


def spare_item(spare: Spare, now: datetime) -> Item:
    """Make the item of one place of a pool."""
    return item(keys.spare(spare.cluster, spare.number), now, {"version": spare.version, "spare": dump(spare)})


def read_spare(found: Mapping[str, Any]) -> Spare:
    """Read one place of a pool."""
    return load(Spare, upcast(found)["spare"])


def control_item(control: Control, now: datetime) -> Item:
    """Make the item of a cluster's slots; `holders` stands at the top so that a release can remove one path."""
    dumped = dump(control)
    attributes = dumped if isinstance(dumped, dict) else {}
    return item(keys.cluster_control(control.cluster), now, {"holders": {}, **attributes})


def read_control(cluster: str, found: Mapping[str, Any] | None) -> Control:
    """Read a cluster's slots."""
    return Control(cluster) if found is None else load(Control, upcast(found))
