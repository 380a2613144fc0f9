"""Aliases: names that begin to lead to a node, and names that end to.

An open name proves nothing about who sits in the node; a closed one speaks of the instance that bore it, for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from faultbridge.domain import names
from faultbridge.domain.nodes import Alias, AliasRow, NodeKey, NodeState
from faultbridge.errors import Rejected
from faultbridge.ports import Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Absent, Condition, Equals, Item, Key, Put

CLOSED_KEPT = timedelta(days=30)
"""Longer than anything that is said of the machine that bore the name may still count."""


@dataclass(frozen=True, slots=True)
class Renaming:
    """What a node's machine is called from now on, and what the one before it was called."""

    key: NodeKey
    instance_id: str
    since: datetime
    begin: tuple[str, ...]
    end: tuple[str, ...] = ()
    former: str | None = None

    @property
    def beginning(self) -> tuple[Alias, ...]:
        """List the aliases that lead here from now on."""
        named = (Alias("name", f"{self.key.cluster}/{name}") for name in self.begin)
        return (Alias("instance", self.instance_id), *named)

    @property
    def ending(self) -> tuple[Alias, ...]:
        """List the aliases of the machine that left."""
        named = [Alias("name", f"{self.key.cluster}/{name}") for name in self.end if name not in self.begin]
        return (*([Alias("instance", self.former)] if self.former else []), *named)


def usable(called: Iterable[str], node: str) -> tuple[str, ...]:
    """Keep the names that a record may carry and that are not the node's own."""
    return tuple(dict.fromkeys(name for name in called if name != node and names.NODE_NAME.fullmatch(name)))


def renamed(table: Table, renaming: Renaming, now: datetime) -> Iterator[Put]:
    """Write the aliases of a renaming; a name that another node's machine bears now stays with it.

    Raises Rejected as `alias_taken` where the instance itself sits in another node.
    """
    places = {keys.alias(*alias): alias for alias in (*renaming.beginning, *renaming.ending)}
    found = table.get_many(places)
    owners = _owners(table, renaming.key, found)
    for alias in renaming.beginning:
        held = found.get(keys.alias(*alias))
        if held is None or _may_take(items.read_alias(held), renaming.key, owners):
            row = AliasRow(renaming.key, renaming.instance_id, renaming.since)
            if held is None or items.read_alias(held) != row:
                yield Put(items.alias_item(alias, row, now), when=_unchanged(held))
        elif alias.kind == "instance":
            raise Rejected("alias_taken", f"{alias.value} sits in {items.read_alias(held).key.stream}")
    for alias in renaming.ending:
        held = found.get(keys.alias(*alias))
        if held is not None and items.read_alias(held).key == renaming.key:
            row = replace(items.read_alias(held), valid_to=now, instance_id=renaming.former)
            ends = {"expires_at": int((now + CLOSED_KEPT).timestamp())}
            yield Put({**items.alias_item(alias, row, now), **ends}, when=_unchanged(held))


def _owners(table: Table, key: NodeKey, found: Mapping[Key, Item]) -> Mapping[NodeKey, NodeState]:
    rows = [items.read_alias(held) for held in found.values()]
    others = {row.key for row in rows if row.key != key and row.valid_to is None}
    places = {keys.node_state(other): other for other in others}
    states = table.get_many(places) if places else {}
    return {other: items.read_state(other, states.get(place)) for place, other in places.items()}


def _may_take(row: AliasRow, key: NodeKey, owners: Mapping[NodeKey, NodeState]) -> bool:
    """Tell whether a name is free: closed, or borne by a machine that does not sit in its node any more."""
    if row.key == key or row.valid_to is not None:
        return True
    sitting = owners[row.key].incarnation
    return row.instance_id is not None and (sitting is None or sitting.instance_id != row.instance_id)


def _unchanged(held: Item | None) -> Condition:
    return Absent() if held is None else Equals("valid_from", str(held["valid_from"]))
