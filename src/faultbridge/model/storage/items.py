"""Items: create and read the items of nodes, entries, cases, clusters, aliases and spares.

An item has a schema version. For each earlier version, one function converts an item to the next version. A release
reads every earlier version and writes only the latest. A new version is written only one release after every reader
supports it, so that old and new code can run at the same time during a deployment. There is one exception before the
first release: the state of a node is already written compressed in version 1, so an earlier commit cannot read it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TypeVar

from faultbridge.model.cases import Case
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.state import ClusterState, Control, Spare
from faultbridge.model.entries import Entry
from faultbridge.model.errors import Misconfigured
from faultbridge.model.nodes import Alias, AliasRow, NodeKey, NodeState
from faultbridge.model.storage import keys
from faultbridge.model.storage.codec import dump, load, pack, unpack
from faultbridge.model.storage.writes import Equals, Item, Key, Packed, Path, ReadItem, Update, Value, Work
from faultbridge.model.stored import Stored
from faultbridge.model.times import to_text
from faultbridge.model.values import replace

T = TypeVar("T")
Step = Callable[[Item], Item]

LATEST = 1
"""The schema version of new items."""

STEPS: Mapping[int, Step] = {}
"""The function that converts each version to the next one; empty in the first release."""


OF_ITEMS = frozenset({"pk", "sk", "schema", "updated_at"})
"""The attributes of every item."""

CLOSED_ALIAS_RETENTION = timedelta(days=30)
"""How long a closed alias is stored; every late record about its instance arrives earlier."""


def item(key: Key, now: datetime, attributes: Mapping[str, Value]) -> Item:
    """Return a table item with its key, its schema version and the time of the write."""
    return {"pk": key.pk, "sk": key.sk, "schema": LATEST, "updated_at": to_text(now), **attributes}


def upcast(item: Item, steps: Mapping[int, Step] = STEPS, latest: int = LATEST) -> Item:
    """Return an item in the latest schema version; an item of a newer release raises Misconfigured.

    `steps` maps a version to the function that converts an item of this version to the next one.
    """
    version = int(str(item.get("schema", 1)))
    if version > latest:
        raise Misconfigured(
            f"item written by a newer release: {item.get('pk')} has schema {version};"
            f" this release reads up to {latest}, upgrade it"
        )
    while version < latest:
        item = {**steps[version](item), "schema": version + 1}
        version += 1
    return item


def row_item(key: Key, row: Stored, now: datetime) -> Item:
    """Return the table item of a row whose attributes are the fields of its class."""
    return item(key, now, dump(row))


def stored_value(kind: type[T], row: Item, attribute: str | None = None) -> T:
    """Return the domain value in an attribute of an item, or in the whole item if `attribute` is None.

    An item that was read is decoded once. Raises Misconfigured if this release cannot read the item.
    """
    if not isinstance(row, ReadItem):
        return _decoded(kind, row, attribute)
    if row.decoded is None:
        row.decoded = {}
    known = row.decoded.get((kind, attribute))
    if known is None:
        known = row.decoded[kind, attribute] = _decoded(kind, row, attribute)
    return known


def _decoded(kind: type[T], row: Item, attribute: str | None) -> T:
    """Return the value in an item; a packed (compressed) attribute is unpacked first."""
    current = upcast(row)
    try:
        own = OF_ITEMS.difference(getattr(kind, "__struct_fields__", ()))
        found = {k: v for k, v in current.items() if k not in own} if attribute is None else current[attribute]
        return unpack(kind, found) if isinstance(found, Packed | str) else load(kind, found)
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        place = f"{row.get('pk')} {row.get('sk')}"
        raise Misconfigured(
            f"item of another release: {kind.__name__} in {place} cannot be read ({type(error).__name__}: {error});"
            " use the release that the stack runs, or start with an empty stack"
        ) from error


def state_item(state: NodeState, now: datetime) -> Item:
    """Return the compressed item of a node's state, indexed by the node's timer if the node has one."""
    row = item(keys.node_state(state.key), now, {"version": state.head.version, "state": pack(state)})
    if state.due_at is not None:
        row |= Work.TIMER.row(state.key.cluster, state.shard, state.key.stream, to_text(state.due_at))
    return row


def read_state(key: NodeKey, row: Item | None) -> NodeState:
    """Return the state of a node from its item; without an item, the state of an unregistered node."""
    return NodeState(key) if row is None else stored_value(NodeState, row, "state")


def entry_item(entry: Entry, partition: str, shard: int, instance_id: str | None = None) -> Item:
    """Return the table item of an entry: a timeline line, an outbox row and the body of an event.

    `instance_id` is the instance that backs the node after the entry.
    """
    stream = entry.stream
    recorded = to_text(entry.recorded_at)
    position = f"{recorded}#{stream.node or ''}#{entry.epoch:04d}#{entry.sequence:012d}"
    row = item(
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
            "gsi1sk": position,
            **Work.UNPUBLISHED.row(stream.cluster, shard, stream.name, recorded),
            "gsi5pk": keys.event(entry.event_id),
        },
    )
    if entry.causation_id:
        row["gsi6pk"] = keys.effects_of(entry.causation_id)
    if instance_id:
        row["instance_id"] = instance_id
    if entry.evidence:
        row["evidence"] = entry.evidence
    if entry.case_id:
        row |= {"case_id": entry.case_id, "gsi2pk": f"CASE#{entry.case_id}", "gsi2sk": position}
    if entry.device:
        row |= {"device": entry.device, "gsi3pk": keys.device(entry.device), "gsi3sk": position}
    return row


def case_item(case: Case, key: NodeKey, shard: int, now: datetime) -> Item:
    """Return the table item of a case, indexed by cluster and status."""
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


def read_case(row: Item) -> Case:
    """Return the case that a table item stores."""
    return stored_value(Case, row, "case")


def alias_item(alias: Alias, row: AliasRow, now: datetime) -> Item:
    """Return the table item of one alias (another name) of a node."""
    return item(keys.alias(*alias), now, {"row": dump(row), "valid_from": to_text(row.valid_from)})


def ended_alias_item(alias: Alias, row: AliasRow, former: str | None, now: datetime) -> Item:
    """Return the table item of an alias that is valid until `now`.

    The item contains the id of the former instance (`former`, None if there was none), so that late records are still
    assigned to the node. The item expires after CLOSED_ALIAS_RETENTION.
    """
    expiry = {"expires_at": int((now + CLOSED_ALIAS_RETENTION).timestamp())}
    return alias_item(alias, replace(row, valid_to=now, instance_id=former), now) | expiry


def read_alias(row: Item) -> AliasRow:
    """Return an alias (another name of a node) from its table item."""
    return stored_value(AliasRow, row, "row")


def config_item(config: ClusterConfig, now: datetime) -> Item:
    """Return the table item of a cluster's registration."""
    return item(keys.cluster_config(config.cluster), now, {"version": config.version, "config": dump(config)})


def read_config(row: Item) -> ClusterConfig:
    """Return the cluster registration that a table item stores."""
    return stored_value(ClusterConfig, row, "config")


def cluster_item(state: ClusterState, now: datetime) -> Item:
    """Return the table item of a cluster's state, such as its status and open incidents."""
    return item(keys.cluster_state(state.cluster), now, {"version": state.head.version, "state": dump(state)})


def read_cluster(cluster: str, row: Item | None) -> ClusterState:
    """Return the state of a cluster from its item; without an item, a state without entries and status."""
    return ClusterState(cluster) if row is None else stored_value(ClusterState, row, "state")


def spare_item(spare: Spare, now: datetime) -> Item:
    """Return the table item of a spare, which is one numbered position of a cluster's spare pool."""
    return item(keys.spare(spare.cluster, spare.number), now, {"version": spare.version, "spare": dump(spare)})


def read_spare(row: Item) -> Spare:
    """Return the spare (one numbered position of a cluster's spare pool) that a table item stores."""
    return stored_value(Spare, row, "spare")


def control_item(control: Control, now: datetime) -> Item:
    """Return the table item of a cluster's controls: repair slots, breakers, pause and holds.

    `holders` (the repair slots in use) is stored even if it is empty, so that an update can add or remove one slot.
    """
    attributes = {"version": control.version, "holders": {}, **dump(control)}
    return item(keys.cluster_control(control.cluster), now, attributes)


def read_control(cluster: str, row: Item | None) -> Control:
    """Return the controls of a cluster from their table item; without an item, all slots are free."""
    return Control(cluster) if row is None else stored_value(Control, row)


def control_update(
    control: Control, changed: Mapping[Path, Value] | None = None, *, removed: tuple[Path, ...] = ()
) -> Update:
    """Return the write of changed controls of a cluster; it is a conflict if another writer changed them."""
    key, unchanged = keys.cluster_control(control.cluster), Equals("version", control.version)
    return Update(key, set=changed or {}, remove=removed, add={"version": 1}, when=unchanged)
