"""Jobs: which of them run where, so that a trouble can name the job that it hit.

A job's start and end, and what strikes its nodes in between, are entries of its cluster's stream; what runs where is
kept beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from faultbridge.domain.aliases import Alias
from faultbridge.domain.conditions import Condition, condition_key
from faultbridge.domain.edges import Actor
from faultbridge.domain.entries import Draft, EntryType
from faultbridge.domain.jobs import Job
from faultbridge.domain.times import to_text, truncate
from faultbridge.errors import Rejected
from faultbridge.ledger.append import Stack
from faultbridge.ledger.cluster_stream import append_to_cluster, next_writes
from faultbridge.ledger.queries import every
from faultbridge.pipeline import entry_builder
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, jobs, keys
from faultbridge.storage.jobs import job_writes, nodes_of, read_job

MAX_NODES = 5000
MAX_LISTED = 50
MAX_HITS = 64
MAX_REASON = 512
OUTCOMES = ("succeeded", "failed", "cancelled", "unreported")
_LONGEST_ID = 128


@dataclass(frozen=True, slots=True)
class Impact:
    """What struck a node, and the case that it led to."""

    node: str
    condition: Condition
    case_id: str | None = None

    @property
    def mark(self) -> str:
        """Name it once and for all."""
        one = self.condition
        return f"{self.node} {condition_key(one.code, one.component)} {to_text(one.since)}"


@dataclass(frozen=True, slots=True)
class _Change:
    name: str
    reason: str
    struck: Impact | None = None


Revise = Callable[[Job | None, datetime], Job | None]


@dataclass(frozen=True, slots=True)
class Jobs:
    """Notes the starts and ends of jobs; saying the same twice is saying it once."""

    table: Table
    clock: Clock
    stack: Stack

    def start(
        self, cluster: str, job_id: str, nodes: Sequence[str], *, name: str | None = None, at: datetime | None = None
    ) -> Job:
        """Note that a job starts on some nodes, by whichever of their names.

        `unknown_node` when a name leads to no node of the cluster, `job_runs` when the job runs elsewhere already.
        A job that has ended may start again under its id, as schedulers requeue it.
        """
        seats = self._seats(cluster, nodes)
        if not 0 < len(job_id) <= _LONGEST_ID:
            raise Rejected("bad_job", f"a job's id has 1 to {_LONGEST_ID} characters")

        def revise(before: Job | None, now: datetime) -> Job | None:
            started_at = truncate(at or now)
            if before is not None and before.ended_at is None:
                if before.nodes == seats and at in {None, before.started_at}:
                    return None
                raise Rejected("job_runs", f"{job_id} runs since {to_text(before.started_at)}; end it first")
            version = before.version if before else 0
            return Job(cluster, job_id, seats, started_at, name, version=version)

        return self._change(cluster, job_id, revise, _Change("started", f"started on {len(seats)} nodes"))

    def end(
        self, cluster: str, job_id: str, *, outcome: str = "unreported", reason: str = "", at: datetime | None = None
    ) -> Job:
        """Note that a job ended; `unknown_job` when its start was never noted, `bad_outcome` for a foreign word."""
        if outcome not in OUTCOMES:
            raise Rejected("bad_outcome", f"{outcome!r} is none of {', '.join(OUTCOMES)}")

        def revise(before: Job | None, now: datetime) -> Job | None:
            if before is None:
                raise Rejected("unknown_job", f"the start of {job_id} in {cluster} was never noted")
            if before.ended_at is not None:
                return None
            ended_at = truncate(at or now)
            if ended_at < before.started_at:
                raise Rejected("bad_time", f"{job_id} started at {to_text(before.started_at)}, after that")
            return replace(before, ended_at=ended_at, outcome=outcome)

        return self._change(cluster, job_id, revise, _Change("ended", reason or f"ended: {outcome}"))

    def strike(self, cluster: str, struck: Impact) -> tuple[str, ...]:
        """Note for each job that runs on a node what struck it there, once; returns the jobs that it hit."""
        rows = every(self.table, keys.cluster_partition(cluster), prefix=jobs.RUNNING)
        hit = [str(row["job_id"]) for row in rows if struck.node in nodes_of(row)]
        condition = struck.condition

        def revise(before: Job | None, _: datetime) -> Job | None:
            begun_late = before is not None and condition.last_at < before.started_at
            if before is None or not before.runs or begun_late or struck.mark in before.hits:
                return None
            return replace(before, hits=(*before.hits, struck.mark)[-MAX_HITS:])

        reason = f"{struck.node}: {condition.code}, {condition.message}"
        for job_id in hit:
            self._change(cluster, job_id, revise, _Change("hit", reason[:MAX_REASON], struck))
        return tuple(hit)

    def busy(self, cluster: str) -> frozenset[str]:
        """Return the nodes of a cluster on which a job runs."""
        rows = every(self.table, keys.cluster_partition(cluster), prefix=jobs.RUNNING)
        return frozenset(node for row in rows for node in nodes_of(row))

    def find(self, cluster: str, job_id: str) -> Job | None:
        """Return a job, or None when its start was never noted."""
        found = self.table.get(jobs.job_key(cluster, job_id))
        return read_job(found) if found else None

    def _seats(self, cluster: str, nodes: Sequence[str]) -> tuple[str, ...]:
        if self.table.get(keys.cluster_config(cluster)) is None:
            raise Rejected("unknown_cluster", f"{cluster} is not registered (faultbridge cluster add {cluster})")
        if not 0 < len(nodes) <= MAX_NODES:
            raise Rejected("bad_nodes", f"a job runs on 1 to {MAX_NODES} nodes")
        aliases = {name: _alias(cluster, name) for name in nodes}
        found = self.table.get_many(keys.alias(*alias) for alias in aliases.values())
        seats: dict[str, None] = {}
        for name, alias in aliases.items():
            row = found.get(keys.alias(*alias))
            key = items.read_alias(row).key if row else None
            if key is None or key.cluster != cluster:
                raise Rejected("unknown_node", f"{cluster}/{name} is not registered")
            seats[key.node] = None
        return tuple(sorted(seats))

    def _change(self, cluster: str, job_id: str, revise: Revise, change: _Change) -> Job:
        def once() -> Job:
            before, now = self.find(cluster, job_id), truncate(self.clock.now())
            after = revise(before, now)
            if after is None:
                return before or _never()
            after = replace(after, version=after.version + 1)
            self._write(after, before, change, now)
            return after

        return append_to_cluster(once)

    def _write(self, job: Job, before: Job | None, change: _Change, now: datetime) -> None:
        """Write the job and its entry together; the cluster's version keeps its stream without a fork."""
        state = items.read_cluster(job.cluster, self.table.get(keys.cluster_state(job.cluster)))
        struck = change.struck
        at = struck.condition.last_at if struck else job.ended_at or job.started_at
        draft = Draft(EntryType.JOB, at, _data(job, change), case_id=struck.case_id if struck else None)
        severity = struck.condition.severity if struck else None
        actor = Actor.CORRELATE if struck else Actor.CLI
        _, writes = next_writes(self.stack, state, state, (draft,), actor=actor, severity=severity, now=now)
        self.table.transact([*writes, *job_writes(job, before, now)])


def _alias(cluster: str, name: str) -> Alias:
    return Alias("instance", name) if name.startswith("i-") else Alias("name", f"{cluster}/{name}")


def _data(job: Job, change: _Change) -> dict[str, Any]:
    struck = change.struck
    return {
        "job_id": job.id,
        "name": job.name,
        "change": change.name,
        "reason": change.reason,
        "nodes": {"count": len(job.nodes), "listed": list(job.nodes[:MAX_LISTED])},
        "started_at": to_text(job.started_at),
        "ended_at": to_text(job.ended_at) if job.ended_at else None,
        "outcome": job.outcome,
        "hit": _hit(struck) if struck else None,
    }


def _hit(struck: Impact) -> dict[str, Any]:
    about = {"code": struck.condition.code, "component": entry_builder.component_data(struck.condition.component)}
    return {"node": struck.node, "about": about}


def _never() -> Job:
    raise AssertionError
