"""Resolve: find the node of a record by any of its names, and which instance and boot it is about.

An incarnation is an instance and boot of a node. Ingest never registers a node: a record without a known name is
rejected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from faultbridge.model.enums import NodeStatus
from faultbridge.model.nodes import Alias, AliasRow, Incarnation, NodeState
from faultbridge.model.records import RawRecord
from faultbridge.model.values import replace

INCARNATION_MARGIN = timedelta(minutes=2)
"""The time around a change of instance or boot in which an observation's time decides nothing."""

# HyperPod forms the Kubernetes node names of its instances like this.
_NAME_WITH_INSTANCE = re.compile(r"(?:hyperpod-)?(m?i-[0-9a-f]{8,17})")


class IncarnationMatch(StrEnum):
    """Whether an observation is about the current instance and boot of a node, earlier ones, or unknown."""

    CURRENT = "current"
    EARLIER = "earlier"
    UNKNOWN = "unknown"


def aliases_of(record: RawRecord, name_in_body: str | None) -> tuple[Alias, ...]:
    """Return the names under which to search for a record's node: instance ids first, then node names."""
    node_names = [name for name in (record.node, name_in_body) if name]
    instances = [instance_in(name) for name in (record.instance_id, *node_names) if name]
    aliases = [Alias("instance", instance) for instance in instances if instance]
    aliases += [Alias("name", f"{record.cluster}/{name}") for name in node_names]
    return tuple(dict.fromkeys(aliases))


def resolve(candidates: tuple[Alias, ...], known: Mapping[Alias, AliasRow], cluster: str | None) -> AliasRow | None:
    """Return the table row of the first name (alias) that refers to a node of the cluster, or None.

    - `candidates` are the names in the order of the search. `known` has the table rows of those that are stored.
    - `cluster` is None for a record that names no cluster. A node of any cluster then matches.
    - The `instance_id` of the returned row is None if the name does not prove which instance the record is about. A
      node name in use does not prove the instance, because the next instance may get the same name. An instance id or a
      former name of a node proves the instance.
    """
    rows = (_with_proven_instance(alias, known[alias]) for alias in candidates if alias in known)
    return next((row for row in rows if cluster is None or row.key.cluster == cluster), None)


def instance_in(name: str) -> str | None:
    """Return the instance id in a name such as `i-...` or `hyperpod-i-...`; None for any other name."""
    match = _NAME_WITH_INSTANCE.fullmatch(name)
    return match[1] if match else None


def _with_proven_instance(alias: Alias, row: AliasRow) -> AliasRow:
    return row if alias.kind == "instance" or row.valid_to is not None else replace(row, instance_id=None)


def record_boot(state: NodeState, record: RawRecord) -> NodeState:
    """Return the node with the boot id of a record, if the record is about its instance and this or a later boot.

    A boot id that replaces another is a new boot, which starts at the time when the record was sent.
    """
    current = state.incarnation
    if current is None or record.boot_id is None or record.boot_id == current.boot_id:
        return state
    if record.instance_id not in {None, current.instance_id} or record.sent_at < current.since:
        return state
    boot = current.boot if current.boot_id is None else current.boot + 1
    since = current.since if current.boot_id is None else record.sent_at
    return replace(state, incarnation=replace(current, boot=boot, boot_id=record.boot_id, since=since))


def match_incarnation(
    state: NodeState, record: RawRecord, alias_instance: str | None, observed_at: datetime
) -> IncarnationMatch:
    """Return whether an observation is about the node's current instance and boot.

    The first of these rules that applies decides:

    - If the node is retired, the result is EARLIER.
    - If the node has no instance, the result is UNKNOWN.
    - If the record names an instance, the result is CURRENT for the current instance and EARLIER for any other one. If
      it names none, the same is decided by `alias_instance`, the instance of the alias by which the node was found.
      This rule requires that the id of the current instance is known.
    - If the record has the current boot id, the result is CURRENT. Another boot id decides nothing.
    - Otherwise, the time of the observation decides (`_match_by_time`).
    """
    current = state.incarnation
    if state.status is NodeStatus.RETIRED:
        return IncarnationMatch.EARLIER
    if current is None:
        return IncarnationMatch.UNKNOWN
    for instance_id in (record.instance_id, alias_instance):
        if instance_id is not None and current.instance_id is not None:
            return IncarnationMatch.CURRENT if instance_id == current.instance_id else IncarnationMatch.EARLIER
    if record.boot_id is not None and record.boot_id == current.boot_id:
        return IncarnationMatch.CURRENT
    return _match_by_time(current, observed_at, first=not state.former_instances)


def _match_by_time(current: Incarnation, observed_at: datetime, *, first: bool) -> IncarnationMatch:
    """Return which instance and boot an observation is about, by its time.

    - In the first boot of the node's first instance, the result is CURRENT, because no earlier boot exists.
    - If the time is closer than `INCARNATION_MARGIN` to the start of the current boot, the result is UNKNOWN.
    - An earlier time gives EARLIER, a later one CURRENT.

    `first` is True if the current instance is the node's first one.
    """
    if observed_at >= current.since + INCARNATION_MARGIN or (first and current.boot == 1):
        return IncarnationMatch.CURRENT
    if observed_at < current.since - INCARNATION_MARGIN:
        return IncarnationMatch.EARLIER
    return IncarnationMatch.UNKNOWN
