"""Fleet page: for each cluster its nodes, GPUs in service, lost GPU time, cases and incidents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from faultbridge.model.dataclass import dataclass
from faultbridge.serve.presentation.cluster_page import in_order
from faultbridge.serve.presentation.entry_rows import Document
from faultbridge.serve.presentation.grid import GpuShare, GridNode, NodeGroup, gpu_share, node_groups
from faultbridge.serve.presentation.tones import CLUSTER, NODE, Mark, mark


@dataclass(frozen=True, slots=True)
class FleetFacts:
    """What the fleet page shows about one cluster; `lost_ms` is in milliseconds of one GPU."""

    cluster: Document
    nodes: Sequence[GridNode]
    live_cases: int
    lost_ms: int


@dataclass(frozen=True, slots=True)
class FleetCluster:
    """The content of the fleet page about one cluster."""

    cluster: str
    status: Mark
    mode: str
    paused: bool
    nodes: int
    counts: tuple[tuple[Mark, int, float], ...]
    gpus: GpuShare
    gpu_hours_lost: float
    live_cases: int
    incidents: int
    groups: tuple[NodeGroup, ...]


@dataclass(frozen=True, slots=True)
class FleetPage:
    """The content of the fleet page; the totals are sums over the clusters that the page shows."""

    clusters: tuple[FleetCluster, ...]
    gpus: GpuShare
    gpu_hours_lost: float
    nodes: int
    not_healthy: int
    live_cases: int
    incidents: int
    since: datetime

    @property
    def live(self) -> bool:
        """Whether a live case exists, so that the page changes often."""
        return bool(self.live_cases)


def fleet_page(clusters: Iterable[FleetFacts], gpus_by_type: dict[str, int], since: datetime) -> FleetPage:
    """Return the fleet page, with totals; cases since `since` count for the lost GPU time."""
    shown = tuple(_cluster(one, gpus_by_type) for one in clusters)
    healthy = sum(count for one in shown for status, count, _ in one.counts if status.text == "healthy")
    nodes = sum(one.nodes for one in shown)
    return FleetPage(
        clusters=shown,
        gpus=GpuShare(sum(one.gpus.gpus for one in shown), sum(one.gpus.in_service for one in shown)),
        gpu_hours_lost=sum(one.gpu_hours_lost for one in shown),
        nodes=nodes,
        not_healthy=nodes - healthy,
        live_cases=sum(one.live_cases for one in shown),
        incidents=sum(one.incidents for one in shown),
        since=since,
    )


def _cluster(facts: FleetFacts, gpus_by_type: dict[str, int]) -> FleetCluster:
    cluster = facts.cluster
    counts = in_order(cluster["counts"] or {"healthy": cluster["expected"]})
    total = sum(count for _, count in counts) or 1
    return FleetCluster(
        cluster=str(cluster["cluster"]),
        status=mark(cluster["status"], CLUSTER),
        mode=str(cluster["mode"]).replace("_", " "),
        paused=bool(cluster["paused"]),
        nodes=sum(count for _, count in counts),
        counts=tuple((mark(name, NODE), count, count / total) for name, count in counts if count),
        gpus=gpu_share(facts.nodes, gpus_by_type),
        gpu_hours_lost=facts.lost_ms / 3_600_000,
        live_cases=facts.live_cases,
        incidents=len(cluster["incidents"]),
        groups=node_groups(facts.nodes),
    )
