"""Cluster page: what needs an operator, what holds repairs now, nodes over time, GPUs, cases and the registration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from msgspec import Struct

from faultbridge.decide.answers import sentence, words
from faultbridge.model.cluster.state import BreakerLimit, domain_of
from faultbridge.model.enums import BreakerScope
from faultbridge.model.policy import Policy
from faultbridge.model.values import replace
from faultbridge.record.entry_text import condition_text, duration_text, in_phase_order, nodes_text
from faultbridge.repair.registry.documents import Breaker, Case, Cluster, Incident, Pause, ShownNode, Silence
from faultbridge.repair.registry.job_views import Job
from faultbridge.serve.presentation.case_answers import DONE, short_name
from faultbridge.serve.presentation.entry_rows import EntryRow, ReadEntry, entry_rows
from faultbridge.serve.presentation.grid import Counters, GpuRow, GridNode, NodeGroup, gpu_row, node_groups
from faultbridge.serve.presentation.history import Chart, Span, node_timeline
from faultbridge.serve.presentation.needs import Need, cluster_needs
from faultbridge.serve.presentation.tones import BREAKER, CLUSTER, NODE, Mark, Tone, mark

DAY = timedelta(days=1)
"""The span of the timeline of a page without a time window."""


class ControlRow(Struct, frozen=True):
    """A setting, condition or number that shows whether repairs are permitted, with an explanation."""

    name: str
    mark: Mark
    note: str = ""
    nodes: tuple[str, ...] = ()


class RepairTimes(Struct, frozen=True):
    """How long the repaired cases took: number, median, and each phase with its mean and its share."""

    count: int
    median: str
    phases: tuple[tuple[str, str, float], ...]


class ClusterPage(Struct, frozen=True):
    """The content of the page of a cluster; `unlisted` counts what the lists of nodes, cases and jobs leave out."""

    cluster: str
    status: Mark
    counts: tuple[tuple[Mark, int], ...]
    needs: tuple[Need, ...]
    controls: tuple[ControlRow, ...]
    incidents: Sequence[Incident]
    timeline: Chart
    gpus: tuple[GpuRow, ...]
    live_cases: Sequence[Case]
    closed_cases: Sequence[Case]
    repair_times: RepairTimes | None
    groups: tuple[NodeGroup, ...]
    jobs: Sequence[Job]
    facts: tuple[tuple[str, str], ...]
    rows: tuple[EntryRow, ...]
    older: bool
    unlisted: Mapping[str, int]

    @property
    def live(self) -> bool:
        """Whether a live case exists, so that the page changes often."""
        return bool(self.live_cases)


class ClusterFacts(Struct, frozen=True):
    """The documents of a cluster page, read at `now`; `live` and `followed` count what is not listed too.

    `shown` are the nodes that are not healthy, with their answers; `counters` are those of their GPUs, by node, and
    `gpus` is the number of GPUs of each instance type.
    """

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
    shown: Sequence[ShownNode] = ()
    counters: Mapping[str, Sequence[Counters]] = {}
    gpus: Mapping[str, int] = {}

    @property
    def limits(self) -> dict[str, int] | None:
        """The numbers of repairs that the policy permits at the same time and per hour; None without a policy."""
        limits = self.policy.limits if self.policy else None
        return {"concurrent": limits.concurrent, "per_hour": limits.per_hour} if limits else None


def cluster_page(facts: ClusterFacts, span: Span) -> ClusterPage:
    """Return the page of a cluster for a span of time."""
    cluster, cases = facts.cluster, (*facts.closed_cases, *facts.live_cases)
    timeline, unlisted_nodes = node_timeline(cases, facts.shown, facts.incidents, facts.entries, span)
    return ClusterPage(
        cluster=cluster.cluster,
        status=mark(cluster.status, CLUSTER),
        counts=tuple((mark(name, NODE), count) for name, count in in_order(cluster.counts)),
        needs=cluster_needs(cluster, facts.shown, facts.incidents),
        controls=_controls(cluster, facts),
        incidents=facts.incidents,
        timeline=timeline,
        gpus=tuple(_gpus(one, facts) for one in facts.shown if one.node in facts.counters),
        live_cases=facts.live_cases,
        closed_cases=facts.closed_cases,
        repair_times=_repair_times(facts.closed_cases),
        groups=node_groups(facts.nodes),
        jobs=facts.jobs,
        facts=_facts(cluster),
        rows=entry_rows(facts.entries),
        older=facts.older,
        unlisted={
            "nodes": unlisted_nodes,
            "cases": max((facts.live or 0) - len(facts.live_cases), 0),
            "jobs": max(facts.followed - len(facts.jobs), 0),
        },
    )


def _gpus(node: ShownNode, facts: ClusterFacts) -> GpuRow:
    number = facts.gpus.get((node.instance_type or "").removeprefix("ml."), 0)
    return gpu_row(node, facts.counters[node.node], number, facts.closed_cases)


def in_order(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return pairs of node status and number of nodes in display order: statuses in service come first."""
    order = list(NODE)
    return tuple(sorted(counts.items(), key=lambda one: order.index(one[0]) if one[0] in order else len(order)))


def _controls(cluster: Cluster, facts: ClusterFacts) -> tuple[ControlRow, ...]:
    acts = cluster.mode == "act" and cluster.repair_owner == "faultbridge"
    mode = f"{cluster.mode.replace('_', ' ')}, repair owner {cluster.repair_owner}"
    waiting = Counter(one.waiting_for for one in facts.live_cases if one.waiting_for)
    listed = len(facts.live_cases)
    which = f"Of the newest {listed} cases: waiting for" if (facts.live or 0) > listed else "Cases waiting for"
    until = cluster.maintenance_until
    return (
        *(ControlRow("Provider reports", Mark(condition_text(one), Tone.BAD)) for one in cluster.provider_conditions),
        *(ControlRow("New repairs", Mark("paused", Tone.BAD), _pause(one)) for one in cluster.pauses),
        *(() if cluster.paused else (ControlRow("New repairs", Mark("not paused", Tone.GOOD)),)),
        *((ControlRow("Maintenance", Mark(f"until {until:%Y-%m-%d %H:%M} UTC", Tone.WAIT)),) if until else ()),
        *(ControlRow("Pages silenced", Mark(_silenced(one), Tone.WAIT), _order(one)) for one in cluster.silences),
        *(_breaker(one, facts) for one in cluster.breakers),
        *(() if cluster.reporting is None else (_reports(cluster, len(facts.nodes)),)),
        _budget(facts),
        *(ControlRow(f"{which} {words(name)}", Mark(str(n), Tone.WAIT)) for name, n in sorted(waiting.items())),
        ControlRow("Mode", Mark(mode, Tone.GOOD if acts else Tone.WATCH)),
    )


def _pause(one: Pause) -> str:
    return f"{_order(one)}{'' if one.until else ' Until an operator resumes them.'}"


def _order(one: Pause | Silence) -> str:
    """Return who ordered a pause or a silence, until when, and why."""
    until = f", until {one.until:%Y-%m-%d %H:%M} UTC" if one.until else ""
    return f"By {short_name(one.by)}{until}.{f' {sentence(one.reason)}' if one.reason else ''}"


def _silenced(one: Silence) -> str:
    named = (("group", one.group), ("rack", one.rack), ("node", one.node), ("mode", one.mode))
    return ", ".join(f"{name} {pattern}" for name, pattern in named if pattern) or "the whole cluster"


def _reports(cluster: Cluster, nodes: int) -> ControlRow:
    """Return from how many nodes reports arrive, and which groups no one has seen yet."""
    unseen = f"No node of group {', '.join(cluster.unseen_groups)} ever reported." if cluster.unseen_groups else ""
    tone = Tone.WATCH if cluster.no_data else Tone.GOOD
    return ControlRow("Nodes that report", Mark(f"{cluster.reporting} of {nodes}", tone), unseen)


def _budget(facts: ClusterFacts) -> ControlRow:
    """Return how many repairs run and may run, with the nodes that hold the budget."""
    holders, limits = facts.cluster.holders, facts.policy.limits if facts.policy else None
    nodes = {one.case_id: one.node for one in facts.live_cases}
    named = tuple(sorted({nodes[one] for one in holders if one in nodes}))
    tone = Tone.WORK if holders else Tone.GOOD
    if limits is None:
        return ControlRow("Running repairs", Mark(str(len(holders)), tone), nodes=named)
    text = f"{len(holders)} of {limits.concurrent} permitted at a time"
    return ControlRow("Running repairs", Mark(text, tone), f"{limits.per_hour} may start in an hour.", named)


def _breaker(breaker: Breaker, facts: ClusterFacts) -> ControlRow:
    row = ControlRow(f"Breaker {breaker.name}", mark(breaker.state, BREAKER))
    if breaker.state == "closed":
        return row
    return replace(row, note=" ".join(_breaker_end(breaker, _breaker_limit(breaker, facts.policy), facts.now)))


def _breaker_limit(breaker: Breaker, policy: Policy | None) -> BreakerLimit | None:
    scope = BreakerScope.CLUSTER if domain_of(breaker.name) is None else BreakerScope.DOMAIN
    return next((one for one in policy.breakers if one.scope is scope), None) if policy else None


def _breaker_end(breaker: Breaker, limit: BreakerLimit | None, now: datetime) -> tuple[str, str]:
    """Return what ends the state of an open or half-open breaker, and what follows."""
    trial = f"{limit.trial} repair{'s' if limit.trial > 1 else ''}" if limit else "a few repairs"
    if breaker.state == "half_open":
        return (
            f"The breaker permits {trial} at a time as a trial, until fewer nodes fail than its limit.",
            "If another node or a repair fails before, it opens again. An operator can close it.",
        )
    if breaker.stays_open:
        return (
            "The breaker stays open until no node fails, or an operator closes it.",
            "It opened too often within a day, so no further trial starts by itself.",
        )
    quiet, earliest = "for some time", ""
    if limit:
        quiet = f"for {duration_text(limit.quiet // timedelta(milliseconds=1))}"
        at = breaker.since + limit.quiet
        earliest = f", at least until {at:%Y-%m-%d %H:%M} UTC" if at > now else ""
    return (
        f"The breaker stays open until no further node has failed {quiet}{earliest}.",
        f"It then closes if fewer nodes fail than its limit, and otherwise permits {trial} at a time as a trial. "
        "An operator can close it before.",
    )


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
        (words(name), duration_text(length // len(repaired)), length / whole)
        for name, length in in_phase_order(total)
        if length
    )
    return RepairTimes(len(repaired), duration_text(int(median(one.age_ms for one in repaired))), phases)
