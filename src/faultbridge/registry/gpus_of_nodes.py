"""GPUs of nodes: the devices that nodes had at a time, as far as their current instances prove it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from faultbridge.domain.faults import Component
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.domain.times import to_text
from faultbridge.ledger.append import Append
from faultbridge.ledger.queries import query_all
from faultbridge.pipeline.fold.sightings import take_custody
from faultbridge.ports import Table
from faultbridge.storage import keys
from faultbridge.storage.devices import LAST_SIGHTING


def gpus_of(append: Append, cluster: str, nodes: Iterable[str], until: datetime) -> Mapping[str, tuple[Component, ...]]:
    """Return the devices, such as GPUs, that the nodes' current instances had at the time `until`.

    A node is included only if its current instance had all its present devices at that time. An instance that booted
    after `until` is included only if it was seen with each of these devices by `until`, and never with any other
    device. Otherwise, its devices at that time are not certain: a boot that loses a GPU can change the indexes of the
    other GPUs, and an instance that stops and starts can move to a host with other GPUs.
    """
    wanted = [NodeKey(cluster, node) for node in sorted(set(nodes))]
    states = append.read_many(wanted) if wanted else ()
    return {state.key.node: state.devices for state in states if _had_devices(append.table, state, until)}


def _had_devices(table: Table, state: NodeState, until: datetime) -> bool:
    incarnation = state.incarnation
    if incarnation is None or incarnation.since <= until:
        return incarnation is not None
    custody, new = take_custody(state.custody, incarnation.instance, state.devices)
    if new or len(custody) != len(state.devices):
        return False
    return all(_was_seen(table, (*state.key, incarnation.instance_id), one, until) for one in state.devices)


def _was_seen(table: Table, place: tuple[str, str, str | None], device: Component, until: datetime) -> bool:
    names = [name for name in (device.serial, device.uuid) if name]
    rows = (row for name in names for row in query_all(table, keys.device(name), up_to=LAST_SIGHTING))
    return any(
        (row["cluster"], row["node"], row["instance_id"]) == place
        and row["uuid"] in {None, device.uuid}
        and str(row["seen_at"]) <= to_text(until)
        for row in rows
    )
