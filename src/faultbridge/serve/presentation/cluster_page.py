"""Cluster page and fleet page: nodes by status, cases, limits of repair, incidents, repair times, GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any

from msgspec import Struct

from faultbridge.decide.answers import why_text, words
from faultbridge.decide.entry_builder import total_gpu_time
from faultbridge.model.policy import Policy
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.record.entry_text import condition_text, duration_text, in_phase_order, nodes_text
from faultbridge.repair.registry.documents import Breaker, Case, Cluster, Incident, Pause
from faultbridge.repair.registry.job_views import Job
from faultbridge.serve.presentation.areas import Area, cluster_area
from faultbridge.serve.presentation.case_answers import DONE
from faultbridge.serve.presentation.case_page import current_phase
from faultbridge.serve.presentation.case_values import breaker_end, breaker_limit
from faultbridge.serve.presentation.entry_rows import EntryRow, ReadEntry, entry_rows
from faultbridge.serve.presentation.grid import GpuShare, GridNode, NodeGroup, gpu_share, node_groups
from faultbridge.serve.presentation.history import Span
from faultbridge.serve.presentation.job_rows import JobRow, job_rows
from faultbridge.serve.presentation.tones import BREAKER, CASE, CLUSTER, INCIDENT, NODE, Mark, Tone, mark


class CaseRow(Struct, frozen=True):
    """One row of a list of cases, with its status and reason in words."""

    case: Case
    status: Mark
    reason: str


class ControlRow(Struct, frozen=True):
    """A setting, condition or number that shows whether repairs are permitted, with an explanation."""

    name: str
    mark: Mark
    note: str = ""


class RepairTimes(Struct, frozen=True):
    """How long the repaired cases took: number, median, and each phase with its mean and its share."""

    count: int
    median: str
    phases: tuple[tuple[str, str, float], ...]


class ClusterPage(Struct, frozen=True):
    """The content of the page of a cluster."""

    cluster: str
    status: Mark
    counts: tuple[tuple[Mark, int], ...]
    controls: tuple[ControlRow, ...]
    facts: tuple[tuple[str, str], ...]
    incidents: tuple[tuple[str, Mark, str, datetime], ...]
    area: Area | None
    live_cases: tuple[CaseRow, ...]
    phases: tuple[tuple[Mark, int], ...]
    closed_cases: tuple[CaseRow, ...]
    repair_times: RepairTimes | None
    groups: tuple[NodeGroup, ...]
    jobs: tuple[JobRow, ...]
    rows: tuple[EntryRow, ...]
    older: bool
    unlisted_cases: int = 0
    unlisted_jobs: int = 0

    @property
    def live(self) -> bool:
        """Whether a live case exists, so that the page changes often."""
        return bool(self.live_cases)


class ClusterFacts(Struct, frozen=True):
    """The documents of a cluster page, read at `now`; `live` and `followed` count what is not listed too."""

    cluster: Cluster
    now: datetime
    live_cases: Sequence[Case]
    closed_cases: Sequence[Case]
    incidents: Sequence[Incident]
    nodes: Sequence[GridNode]
    entries: Sequence[ReadEntry[Any]]
    older: bool = False
    jobs: Sequence[Job] = ()
    live: int | None = None
    followed: int = 0
    policy: Policy | None = None

    @property
    def limits(self) -> dict[str, int] | None:
        """The numbers of repairs that the policy permits at the same time and per hour; None without a policy."""
        limits = self.policy.limits if self.policy else None
        return {"concurrent": limits.concurrent, "per_hour": limits.per_hour} if limits else None


def cluster_page(facts: ClusterFacts, span: Span) -> ClusterPage:
    """Return the page of a cluster for a span of time."""
    cluster, rows = facts.cluster, entry_rows(facts.entries)
    start = max(span.start, rows[0].at) if rows else span.start
    live = tuple(map(_case, facts.live_cases))
    return ClusterPage(
        cluster=cluster.cluster,
        status=mark(cluster.status, CLUSTER),
        counts=tuple((mark(name, NODE), count) for name, count in in_order(cluster.counts)),
        controls=_controls(cluster, facts),
        facts=_facts(cluster),
        incidents=tuple(map(_incident, facts.incidents)),
        area=cluster_area(facts.entries, start, span.end),
        live_cases=live,
        phases=tuple(Counter(one.status for one in live).most_common()),
        closed_cases=tuple(map(_case, facts.closed_cases)),
        repair_times=_repair_times(facts.closed_cases),
        groups=node_groups(facts.nodes),
        jobs=job_rows(facts.jobs),
        rows=rows,
        older=facts.older,
        unlisted_cases=max((facts.live or 0) - len(facts.live_cases), 0),
        unlisted_jobs=max(facts.followed - len(facts.jobs), 0),
    )


def in_order(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return pairs of node status and number of nodes in display order: statuses in service come first."""
    order = list(NODE)
    return tuple(sorted(counts.items(), key=lambda one: order.index(one[0]) if one[0] in order else len(order)))


def _case(case: Case) -> CaseRow:
    status, detail = mark(case.status, CASE), case.resolution or case.waiting_for or current_phase(case)
    text = f"{status.text}: {words(detail)}" if detail else status.text
    return CaseRow(case, Mark(text, status.tone), why_text(case.reason, case.failure, case.detail))


def _incident(incident: Incident) -> tuple[str, Mark, str, datetime]:
    domain = incident.domain
    nodes = f"{incident.affected} of {incident.domain_nodes} nodes"
    text = f"{incident.code} on {nodes} of {domain.type} {domain.name}"
    return incident.incident_id, mark(incident.status, INCIDENT), text, incident.opened_at


def _controls(cluster: Cluster, facts: ClusterFacts) -> tuple[ControlRow, ...]:
    acts = cluster.mode == "act" and cluster.repair_owner == "faultbridge"
    mode = f"{cluster.mode.replace('_', ' ')}, repair owner {cluster.repair_owner}"
    waiting = Counter(one.waiting_for for one in facts.live_cases if one.waiting_for)
    listed = len(facts.live_cases)
    which = f"Of the newest {listed} cases: waiting for" if (facts.live or 0) > listed else "Cases waiting for"
    until = cluster.maintenance_until
    return (
        *(ControlRow("Provider reports", Mark(condition_text(one), Tone.BAD)) for one in cluster.provider_conditions),
        ControlRow("Mode", Mark(mode, Tone.GOOD if acts else Tone.WATCH)),
        *(ControlRow("New repairs", Mark("paused", Tone.BAD), _pause(one)) for one in cluster.pauses),
        *(() if cluster.paused else (ControlRow("New repairs", Mark("not paused", Tone.GOOD)),)),
        *((ControlRow("Maintenance", Mark(f"until {to_text(until)}", Tone.WAIT)),) if until else ()),
        _budget(cluster, facts.policy),
        *(_breaker(one, facts) for one in cluster.breakers),
        *(ControlRow(f"{which} {name}", Mark(str(count), Tone.WAIT)) for name, count in sorted(waiting.items())),
    )


def _pause(one: Pause) -> str:
    until = f"until {to_text(one.until)}" if one.until else "until an operator resumes them"
    return f"By {one.by}, {until}.{f' {one.reason}' if one.reason else ''}"


def _budget(cluster: Cluster, policy: Policy | None) -> ControlRow:
    running = len(cluster.holders)
    tone = Tone.WORK if running else Tone.GOOD
    if policy is None:
        return ControlRow("Running repairs", Mark(str(running), tone))
    limits = policy.limits
    note = f"{limits.per_hour} may start in an hour."
    return ControlRow("Running repairs", Mark(f"{running} of {limits.concurrent} permitted at a time", tone), note)


def _breaker(breaker: Breaker, facts: ClusterFacts) -> ControlRow:
    row = ControlRow(f"Breaker {breaker.name}", mark(breaker.state, BREAKER))
    if breaker.state == "closed":
        return row
    return replace(row, note=" ".join(breaker_end(breaker, breaker_limit(breaker, facts.policy), facts.now)))


def _facts(cluster: Cluster) -> tuple[tuple[str, str], ...]:
    names = ("provider", "orchestrator", "verifier")
    pool = ", ".join(f"{count} {name}" for name, count in cluster.pool.items())
    return (
        ("Nodes", nodes_text(cluster.expected, cluster.target)),
        *((name.capitalize(), str(getattr(cluster, name))) for name in names),
        ("Policy", str(cluster.policy or "current version")),
        *((("Spares", pool),) if pool else ()),
    )


def _repair_times(cases: Iterable[Case]) -> RepairTimes | None:
    repaired = [one for one in cases if one.resolution in DONE]
    if not repaired:
        return None
    total: Counter[str] = Counter()
    for case in repaired:
        total.update(case.phases)
    whole = sum(total.values()) or 1
    phases = tuple(
        (name.replace("_", " "), duration_text(length // len(repaired)), length / whole)
        for name, length in in_phase_order(total)
        if length
    )
    return RepairTimes(len(repaired), duration_text(int(median(one.age_ms for one in repaired))), phases)


class FleetFacts(Struct, frozen=True):
    """What the fleet page shows about one cluster; `lost_ms` is in milliseconds of one GPU."""

    cluster: Cluster
    nodes: Sequence[GridNode]
    live_cases: int
    lost_ms: int | None


class FleetCluster(Struct, frozen=True):
    """The content of the fleet page about one cluster."""

    cluster: str
    status: Mark
    mode: str
    paused: bool
    nodes: int
    counts: tuple[tuple[Mark, int, float], ...]
    gpus: GpuShare
    gpu_hours_lost: float | None
    live_cases: int
    incidents: int
    groups: tuple[NodeGroup, ...]


class FleetPage(Struct, frozen=True):
    """The content of the fleet page; the totals are sums over the clusters that the page shows."""

    clusters: tuple[FleetCluster, ...]
    gpus: GpuShare
    gpu_hours_lost: float | None
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
    found = tuple(clusters)
    shown = tuple(_cluster(one, gpus_by_type) for one in found)
    healthy = sum(count for one in shown for status, count, _ in one.counts if status.text == "healthy")
    nodes = sum(one.nodes for one in shown)
    return FleetPage(
        clusters=shown,
        gpus=GpuShare(sum(one.gpus.gpus for one in shown), sum(one.gpus.in_service for one in shown)),
        gpu_hours_lost=_hours(total_gpu_time(one.lost_ms for one in found)),
        nodes=nodes,
        not_healthy=nodes - healthy,
        live_cases=sum(one.live_cases for one in shown),
        incidents=sum(one.incidents for one in shown),
        since=since,
    )


def _hours(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 3_600_000


def _cluster(facts: FleetFacts, gpus_by_type: dict[str, int]) -> FleetCluster:
    cluster = facts.cluster
    counts = in_order(cluster.counts or {"healthy": cluster.expected})
    total = sum(count for _, count in counts) or 1
    return FleetCluster(
        cluster=cluster.cluster,
        status=mark(cluster.status, CLUSTER),
        mode=cluster.mode.replace("_", " "),
        paused=cluster.paused,
        nodes=sum(count for _, count in counts),
        counts=tuple((mark(name, NODE), count, count / total) for name, count in counts if count),
        gpus=gpu_share(facts.nodes, gpus_by_type),
        gpu_hours_lost=_hours(facts.lost_ms),
        live_cases=facts.live_cases,
        incidents=len(cluster.incidents),
        groups=node_groups(facts.nodes),
    )
