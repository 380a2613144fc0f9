"""Resolve: whose record is it? Names of every kind lead to one node; ingest never creates one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum

from faultbridge.domain.aliases import Alias, AliasRow
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.nodes import Incarnation, NodeState
from faultbridge.domain.records import RawRecord

MARGIN = timedelta(minutes=2)
# HyperPod names the Kubernetes nodes of its instances so.
_OF_INSTANCE = re.compile(r"(?:hyperpod-)?(m?i-[0-9a-f]{8,17})")


class Sits(StrEnum):
    """Whether an observation is about the incarnation that sits in the node now."""

    CURRENT = "current"
    EARLIER = "earlier"
    UNKNOWN = "unknown"


def aliases_of(record: RawRecord, named: str | None) -> tuple[Alias, ...]:
    """List the aliases to look a record up by, best proof first; `named` is a node name found inside the record."""
    names = [name for name in (record.node, named) if name]
    instances = [one for name in (record.instance_id, *names) if name and (one := instance_in(name))]
    return tuple(
        dict.fromkeys(
            [Alias("instance", instance) for instance in instances]
            + [Alias("name", f"{record.cluster}/{name}") for name in names]
        )
    )


def resolve(candidates: tuple[Alias, ...], known: Mapping[Alias, AliasRow], cluster: str | None) -> AliasRow | None:
    """Return where the best known alias leads, or None: an instance of another cluster does not count.

    A record that can name no cluster passes None: an instance id is unique in the world. The row's instance is one that
    the record proves: a name that one machine after the other may bear proves none until it has ended.
    """
    rows = (_proven(alias, known[alias]) for alias in candidates if alias in known)
    return next((row for row in rows if cluster is None or row.key.cluster == cluster), None)


def instance_in(name: str) -> str | None:
    """Return the instance id that a name is made of (`i-...`, `hyperpod-i-...`), or None."""
    found = _OF_INSTANCE.fullmatch(name)
    return found[1] if found else None


def _proven(alias: Alias, row: AliasRow) -> AliasRow:
    return row if alias.kind == "instance" or row.valid_to is not None else replace(row, instance_id=None)


def learn_boot(state: NodeState, record: RawRecord) -> NodeState:
    """Take note of the boot that a record of the sitting instance came from; a new one raises the boot number."""
    sitting = state.incarnation
    if sitting is None or record.boot_id is None or record.boot_id == sitting.boot_id:
        return state
    if record.instance_id not in {None, sitting.instance_id} or record.sent_at < sitting.since:
        return state
    boot = sitting.boot if sitting.boot_id is None else sitting.boot + 1
    since = sitting.since if sitting.boot_id is None else record.sent_at
    return replace(state, incarnation=replace(sitting, boot=boot, boot_id=record.boot_id, since=since))


def sits(state: NodeState, record: RawRecord, via: str | None, observed_at: datetime) -> Sits:
    """Tell which incarnation an observation is about: by instance id, else by boot id, else by time.

    `via` is the instance id that the alias led to, when it was one. Nobody sits in a retired node any more.
    """
    sitting = state.incarnation
    if state.status is NodeStatus.RETIRED:
        return Sits.EARLIER
    if sitting is None:
        return Sits.UNKNOWN
    for instance_id in (record.instance_id, via):
        if instance_id is not None and sitting.instance_id is not None:
            return Sits.CURRENT if instance_id == sitting.instance_id else Sits.EARLIER
    if record.boot_id is not None and record.boot_id == sitting.boot_id:
        return Sits.CURRENT
    return _by_time(sitting, observed_at, first=not state.former_instances)


def _by_time(sitting: Incarnation, observed_at: datetime, *, first: bool) -> Sits:
    if observed_at >= sitting.since + MARGIN or (first and sitting.boot == 1):
        return Sits.CURRENT
    if observed_at < sitting.since - MARGIN:
        return Sits.EARLIER
    return Sits.UNKNOWN
