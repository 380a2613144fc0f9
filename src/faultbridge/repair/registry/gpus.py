"""GPU figures: the share of a cluster's GPUs in service, and the GPU time that repairs cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from faultbridge.decide.entry_builder import gpu_time_lost, total_gpu_time
from faultbridge.decide.fold.fold import take_custody
from faultbridge.model.cases import Case
from faultbridge.model.enums import NodeStatus
from faultbridge.model.faults import Component
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import keys
from faultbridge.model.storage.devices import LAST_SIGHTING
from faultbridge.model.times import to_text
from faultbridge.record.append import Append
from faultbridge.record.ports.table import Table
from faultbridge.record.queries import query_all


@dataclass(frozen=True, slots=True)
class GpuFigure:
    """A cluster's GPUs, those in service, nodes with unknown GPUs, and the GPU milliseconds lost, None if unknown."""

    gpus: int
    in_service: int
    unknown_nodes: int
    lost_ms: int | None

    @property
    def percent(self) -> float | None:
        """Return the share of GPUs in service in percent, or None if no GPUs are known."""
        return round(100 * self.in_service / self.gpus, 2) if self.gpus else None


def gpu_figure(
    nodes: Iterable[NodeState], cases: Iterable[Case], types: Mapping[str, int], since: datetime, now: datetime
) -> GpuFigure:
    """Return the GPUs of nodes that are not retired, and the GPU time that cases cost after `since`."""
    used = [state for state in nodes if state.status is not NodeStatus.RETIRED]
    kinds = [(state.placement.instance_type or "").removeprefix("ml.") for state in used]
    counted = [(one, types.get(kind, 0) or len(one.devices)) for one, kind in zip(used, kinds, strict=True)]
    ends = ((case, case.closed_at or now) for case in cases)
    return GpuFigure(
        gpus=sum(number for _, number in counted),
        in_service=sum(number for state, number in counted if state.status is not None and state.status.in_service),
        unknown_nodes=sum(number == 0 for _, number in counted),
        lost_ms=total_gpu_time(gpu_time_lost(case, end, since) for case, end in ends if end > since),
    )


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
