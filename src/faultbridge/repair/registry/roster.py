"""The stored names and rows of nodes: the roster has one row per node, and aliases lead from a record to a node.

A sync reads from the roster with few calls which instance backs which node. `described` is the id of the node's
instance once the provider has returned its complete metadata; until then, syncs request the metadata again.

An open alias is a current name of a node. A name alone does not prove which instance a record is about. A closed alias
is a former name of the node. If it was closed because the instance changed, it stores the id of the former instance, so
that a late record under this name is not applied to the current instance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from msgspec import Struct

from faultbridge.model import names
from faultbridge.model.enums import DomainKind
from faultbridge.model.errors import Rejected
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import Alias, AliasRow, Instance, NodeKey, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Absent, Condition, Equals, Item, Key, Put, Update, Value
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.record.ports.table import Table


def new_row(state: NodeState, now: datetime, *, described: bool) -> Put:
    """Return the write of a new node's roster row; `described` if its metadata is complete."""
    own: Item = {"node": state.key.node, "group": state.placement.group}
    row = own | _row(state) | {"described": state.instance_id if described else None}
    return Put(items.item(keys.roster(state.key.cluster, state.shard, state.key.node), now, row))


def _row(state: NodeState) -> Item:
    placement = state.placement
    return {
        "generation": state.incarnation.instance if state.incarnation else 0,
        "instance": state.instance_id,
        "type": placement.instance_type,
        "domain": placement.domain,
        "zone": placement.domains.get(DomainKind.ZONE),
        "domains": dict(placement.domains),
        "names": list(placement.host_names),
        "slot": placement.slot,
    }


def placement_update(state: NodeState) -> Update:
    """Return the write of a node's placement; without `described`, a sync reads the metadata again."""
    written: dict[tuple[str, ...], Value] = {
        ("node",): state.key.node,
        ("described",): None,
        ("group",): state.placement.group,
        ("type",): state.placement.instance_type,
        ("domain",): state.placement.domain,
    }
    return Update(keys.roster(state.key.cluster, state.shard, state.key.node), set=written)


def row_update(state: NodeState, instance: Instance) -> Update:
    """Return the write that updates a node's roster row from its state and its instance's metadata."""
    described = instance.instance_id if instance.has_all_domains else None
    written = _row(state) | {"described": described, "opted_out": instance.opt_out}
    key = keys.roster(state.key.cluster, state.shard, state.key.node)
    return Update(key, set={(name,): value for name, value in written.items()})


def retired_row(key: Key, *, keeps_instance: bool) -> Update:
    """Return the write that marks the roster row of a retired node.

    With `keeps_instance`, the row keeps the id of the node's instance, so that a sync does not register the instance as
    a new node. This is necessary until the instance has left its group. Without `keeps_instance`, the id is removed.
    """
    marks: dict[tuple[str, ...], Value] = {("retired",): True}
    return Update(key, set=marks if keeps_instance else {**marks, ("instance",): None})


def rows_by_group(rows: Iterable[Item]) -> dict[str, list[Item]]:
    """Return rows by group ('' without one), without retired nodes whose instance left the group."""
    by_group: dict[str, list[Item]] = {}
    for row in rows:
        if row.get("instance") or not row.get("retired"):
            by_group.setdefault(str(row.get("group") or ""), []).append(row)
    return by_group


def block_of(row: Item) -> str | None:
    """Return the id of the capacity block in which the instance of a roster row runs or ran, or None."""
    domains = row.get("domains")
    block = domains.get(DomainKind.CAPACITY_BLOCK) if isinstance(domains, dict) else None
    return str(block) if block else None


def new_metadata(row: Item, orchestrator: Instance | None) -> Instance | None:
    """Return the instance of a roster row with new metadata of the orchestrator; None if nothing is new.

    A name is new if the row does not contain it. An opt-out is new if it differs from the opt-out in the row.

    The result has the names in the row and the names of `orchestrator`, and the opt-out of `orchestrator`. If
    `orchestrator` is None, only the end of an opt-out is new.
    """
    stored = row.get("names")
    names = tuple(str(name) for name in stored) if isinstance(stored, list) else ()
    found = orchestrator or Instance(str(row["instance"]))
    if not set(found.names) - {*names, str(row["node"])} and found.opt_out == (row.get("opted_out") or False):
        return None
    return replace(found, instance_id=str(row["instance"]), names=(*names, *found.names))


MAX_NAMES = 20


def aliases_of(key: NodeKey, node_names: Iterable[str], instance_id: str | None) -> tuple[Alias, ...]:
    """Return a node's aliases: each name in the form `cluster/name`, and the instance id if there is one."""
    named = [Alias("name", f"{key.cluster}/{name}") for name in node_names]
    instances = [Alias("instance", instance_id)] if instance_id else []
    return tuple(dict.fromkeys([*named, *instances]))


def new_alias_writes(table: Table, rows: Iterable[tuple[Alias, AliasRow]], now: datetime) -> Iterator[Put]:
    """Yield the writes of a new node's aliases; raises `alias_taken` if one leads to another node."""
    wanted = {keys.alias(*alias): (alias, row) for alias, row in rows}
    found = table.get_many(wanted)
    for alias_key, (alias, row) in wanted.items():
        current = items.read_alias(found[alias_key]) if alias_key in found else None
        if current is not None and current.valid_to is None and current.key != row.key:
            text = f"{alias.kind} {alias.value} leads to another node: {current.key.stream}"
            raise Rejected("alias_taken", f"{text}; retire it first, or use another name")
        unchanged = Absent() if current is None else Equals("valid_from", to_text(current.valid_from))
        yield Put(items.alias_item(alias, row, now), when=unchanged)


class AliasChange(Struct, frozen=True):
    """The aliases that a node gains and loses when its instance changes or the instance gets another name.

    `added` are the names that the instance has now, `removed` the names that the node's instance had before the change.
    A name in both stays open. `former` is the id of the former instance, or None if the instance stays the same.
    """

    key: NodeKey
    instance_id: str
    since: datetime
    added: tuple[str, ...]
    removed: tuple[str, ...] = ()
    former: str | None = None

    @property
    def opened(self) -> tuple[Alias, ...]:
        """Return the aliases of the instance after the change: its id and its names, new ones and kept ones."""
        return (Alias("instance", self.instance_id), *self._named(self.added))

    @property
    def closed(self) -> tuple[Alias, ...]:
        """Return the former instance's id, if any, and the removed names that are not added again."""
        named = self._named(name for name in self.removed if name not in self.added)
        return (*([Alias("instance", self.former)] if self.former else []), *named)

    def _named(self, values: Iterable[str]) -> Iterator[Alias]:
        return (Alias("name", f"{self.key.cluster}/{name}") for name in values)


def usable_names(instance_names: Iterable[str], node: str) -> tuple[str, ...]:
    """Return the last MAX_NAMES names that are valid and not the node's own name."""
    usable = dict.fromkeys(name for name in instance_names if name != node and names.NODE_NAME.fullmatch(name))
    return tuple(usable)[-MAX_NAMES:]


def alias_writes(table: Table, change: AliasChange, now: datetime) -> Iterator[Put]:
    """Yield the writes of an alias change; raises `alias_taken` if the instance backs another node."""
    changed = {keys.alias(*alias): alias for alias in (*change.opened, *change.closed)}
    found = table.get_many(changed)
    yield from _opening_writes(change, found, _other_owners(table, change.key, found), now)
    for alias in change.closed:
        stored = found.get(keys.alias(*alias))
        if stored is not None and items.read_alias(stored).key == change.key:
            ended = items.ended_alias_item(alias, items.read_alias(stored), change.former, now)
            yield Put(ended, when=_unchanged(stored))


def _opening_writes(
    change: AliasChange, found: Mapping[Key, Item], owners: Mapping[NodeKey, NodeState], now: datetime
) -> Iterator[Put]:
    row = AliasRow(change.key, change.instance_id, change.since)
    for alias in change.opened:
        stored = found.get(keys.alias(*alias))
        current = items.read_alias(stored) if stored is not None else None
        if current is None or _may_take(current, change.key, owners):
            if current != row:
                yield Put(items.alias_item(alias, row, now), when=_unchanged(stored))
            continue
        owner = current.key.stream
        if alias.kind == "instance":
            raise Rejected("alias_taken", f"instance backs another node: {alias.value} backs {owner}; retire it first")
        reason = f"the name {alias.value} belongs to the current instance of {owner}"
        key, instance_id = change.key, change.instance_id
        log_cause("alias_not_taken", reason=reason, cluster=key.cluster, node=key.node, instance_id=instance_id)


def _other_owners(table: Table, key: NodeKey, found: Mapping[Key, Item]) -> Mapping[NodeKey, NodeState]:
    rows = [items.read_alias(stored) for stored in found.values()]
    others = {row.key for row in rows if row.key != key and row.valid_to is None}
    state_keys = {keys.node_state(other): other for other in others}
    states = table.get_many(state_keys) if state_keys else {}
    return {other: items.read_state(other, states.get(state_key)) for state_key, other in state_keys.items()}


def _may_take(row: AliasRow, key: NodeKey, owners: Mapping[NodeKey, NodeState]) -> bool:
    """Return whether an alias leads to this node, is closed, or names an instance its node has lost."""
    if row.key == key or row.valid_to is not None:
        return True
    incarnation = owners[row.key].incarnation
    return row.instance_id is not None and (incarnation is None or incarnation.instance_id != row.instance_id)


def _unchanged(stored: Item | None) -> Condition:
    return Absent() if stored is None else Equals("valid_from", str(stored["valid_from"]))
