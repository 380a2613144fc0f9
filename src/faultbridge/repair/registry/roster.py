"""Roster: one row per node, so that a sync reads with few calls which instance backs which node.

`described` is the id of the node's instance once the provider has returned its complete metadata; until then, syncs
request the metadata again.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from faultbridge.model.enums import DomainKind
from faultbridge.model.nodes import Instance, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Item, Key, Put, Update, Value
from faultbridge.model.values import replace


def new_row(state: NodeState, now: datetime, *, described: bool) -> Put:
    """Return the write of a new node's roster row; `described` if its metadata is complete."""
    instance = state.incarnation.instance_id if state.incarnation else None
    row: Item = {
        "node": state.key.node,
        "generation": state.incarnation.instance if state.incarnation else 0,
        "instance": instance,
        "group": state.placement.group,
        "type": state.placement.instance_type,
        "domain": state.placement.domain,
        "zone": state.placement.domains.get(DomainKind.ZONE),
        "domains": dict(state.placement.domains),
        "names": list(state.placement.host_names),
        "slot": state.placement.slot,
        "described": instance if described else None,
    }
    key = keys.roster(state.key.cluster, state.shard, state.key.node)
    return Put(items.item(key, now, row))


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
    written: dict[tuple[str, ...], Value] = {
        ("generation",): state.incarnation.instance if state.incarnation else 0,
        ("instance",): instance.instance_id,
        ("described",): instance.instance_id if instance.has_all_domains else None,
        ("type",): state.placement.instance_type,
        ("domain",): state.placement.domain,
        ("zone",): state.placement.domains.get(DomainKind.ZONE),
        ("domains",): dict(state.placement.domains),
        ("names",): list(state.placement.host_names),
        ("slot",): state.placement.slot,
        ("opted_out",): instance.opt_out,
    }
    return Update(keys.roster(state.key.cluster, state.shard, state.key.node), set=written)


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
