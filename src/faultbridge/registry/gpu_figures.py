"""GPU figures: the share of a cluster's GPUs in service, and the GPU time that repairs cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from faultbridge.domain.cases import Case
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline.decide.phase_durations import gpu_time_lost


@dataclass(frozen=True, slots=True)
class GpuFigure:
    """The number of GPUs of a cluster, how many are in service, and the GPU time that repairs cost.

    `lost_ms` is the GPU time that repairs cost, in milliseconds of one GPU. `unknown_nodes` counts the nodes whose
    number of GPUs is unknown. The GPUs of these nodes are not counted in `gpus` and `in_service`.
    """

    gpus: int
    in_service: int
    unknown_nodes: int
    lost_ms: int

    @property
    def percent(self) -> float | None:
        """Return the share of GPUs in service in percent, or None if no GPUs are known."""
        return round(100 * self.in_service / self.gpus, 2) if self.gpus else None


def gpu_figure(
    nodes: Iterable[NodeState], cases: Iterable[Case], types: Mapping[str, int], since: datetime, now: datetime
) -> GpuFigure:
    """Return the numbers of GPUs of these nodes, and the GPU time that cases cost after `since`.

    Retired nodes are left out. `types` maps each instance type to its number of GPUs. The time of a case counts only if
    an attempt started and the node's number of GPUs is known.
    """
    counted = [(state, _gpus(state, types)) for state in nodes if state.status is not NodeStatus.RETIRED]
    lost = 0
    for case in cases:
        end, start = case.closed_at or now, max(case.opened_at, since)
        lost += (gpu_time_lost(replace(case, opened_at=start), end) or 0) if end > start else 0
    return GpuFigure(
        gpus=sum(number for _, number in counted),
        in_service=sum(number for state, number in counted if state.status is not None and state.status.in_service),
        unknown_nodes=sum(number == 0 for _, number in counted),
        lost_ms=lost,
    )


def _gpus(state: NodeState, types: Mapping[str, int]) -> int:
    return types.get((state.placement.instance_type or "").removeprefix("ml."), 0) or len(state.devices)
