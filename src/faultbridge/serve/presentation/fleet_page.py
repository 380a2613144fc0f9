"""Fleet page: what needs an operator in all clusters, and the clusters by severity, healthy ones in one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from faultbridge.decide.entry_builder import total_gpu_time
from faultbridge.repair.registry.documents import Cluster, Incident, ShownNode
from faultbridge.serve.presentation.grid import GpuShare, GridNode, gpu_share, natural_order
from faultbridge.serve.presentation.needs import Need, cluster_needs
from faultbridge.serve.presentation.tones import CLUSTER, NODE, Mark, Tone, mark

RANKS = ("critical", "needs you", "degraded", "healthy")
"""How much attention a cluster needs, the most first."""

MAX_LISTED = 24


class FleetFacts(Struct, frozen=True):
    """What the fleet page shows about one cluster; `lost_ms` is in milliseconds of one GPU.

    `shown` are nodes that are not healthy, with their answers; `pages` is the number of open pages.
    """

    cluster: Cluster
    nodes: Sequence[GridNode]
    live_cases: int
    lost_ms: int | None
    shown: Sequence[ShownNode] = ()
    pages: int = 0
    incidents: Sequence[Incident] = ()
    last_report: datetime | None = None


class FleetCluster(Struct, frozen=True):
    """The content of the fleet page about one cluster; `unlisted` counts further nodes that are not healthy."""

    cluster: Cluster
    status: Mark
    rank: str
    nodes: int
    healthy: int
    no_data: int
    last_report: datetime | None
    needs: tuple[Need, ...]
    unhealthy: tuple[GridNode, ...]
    unlisted: int
    in_repair: int
    gpus: GpuShare
    gpu_hours_lost: float | None
    live_cases: int


class FleetPage(Struct, frozen=True):
    """The content of the fleet page; the totals are sums over the clusters that the page shows."""

    clusters: tuple[FleetCluster, ...]
    gpus: GpuShare
    gpu_hours_lost: float | None
    pages: int
    needs: int
    incidents: int
    in_repair: int
    never_reported: int
    live_cases: int
    since: datetime

    @property
    def live(self) -> bool:
        """Whether a live case exists, so that the page changes often."""
        return bool(self.live_cases)


def fleet_page(clusters: Iterable[FleetFacts], gpus_by_type: Mapping[str, int], since: datetime) -> FleetPage:
    """Return the fleet page, with totals; cases since `since` count for the lost GPU time."""
    facts = tuple(clusters)
    found = (_cluster(one, gpus_by_type) for one in facts)
    shown = tuple(sorted(found, key=lambda one: (RANKS.index(one.rank), natural_order(one.cluster.cluster))))
    lost = total_gpu_time(one.lost_ms for one in facts)
    return FleetPage(
        clusters=shown,
        gpus=GpuShare(sum(one.gpus.gpus for one in shown), sum(one.gpus.in_service for one in shown)),
        gpu_hours_lost=None if lost is None else lost / 3_600_000,
        pages=sum(one.pages for one in facts),
        needs=sum(1 for one in shown for need in one.needs if need.node),
        incidents=sum(len(one.cluster.incidents) for one in shown),
        in_repair=sum(one.in_repair for one in shown),
        never_reported=sum(one.cluster.never_reported or 0 for one in shown),
        live_cases=sum(one.live_cases for one in shown),
        since=since,
    )


def _cluster(facts: FleetFacts, gpus_by_type: Mapping[str, int]) -> FleetCluster:
    cluster = facts.cluster
    faulty = (one for one in facts.nodes if one.status not in {"healthy", "no_data"})
    unhealthy = sorted(faulty, key=lambda one: natural_order(one.node))
    no_data = sum(one.status == "no_data" for one in facts.nodes)
    needs = cluster_needs(cluster, facts.shown, facts.incidents)
    is_calm = not unhealthy and cluster.status in {None, "healthy", "no_nodes"} and not cluster.paused
    rank = (
        "critical"
        if cluster.status == "critical" or cluster.incidents
        else "needs you"
        if needs
        else "healthy"
        if is_calm
        else "degraded"
    )
    return FleetCluster(
        cluster=cluster,
        status=mark(cluster.status, CLUSTER),
        rank=rank,
        nodes=len(facts.nodes),
        healthy=len(facts.nodes) - len(unhealthy) - no_data,
        no_data=no_data,
        last_report=facts.last_report,
        needs=needs,
        unhealthy=tuple(unhealthy[:MAX_LISTED]),
        unlisted=len(unhealthy[MAX_LISTED:]),
        in_repair=sum(mark(one.status, NODE).tone is Tone.WORK for one in unhealthy),
        gpus=gpu_share(facts.nodes, gpus_by_type),
        gpu_hours_lost=None if facts.lost_ms is None else facts.lost_ms / 3_600_000,
        live_cases=facts.live_cases,
    )
