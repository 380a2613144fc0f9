"""Jobs: which of them run where, so that a trouble can name the job that it hit.

A job's start and end are entries of its cluster's stream; what runs where is kept beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from faultbridge.domain.aliases import Alias
from faultbridge.domain.edges import Actor
from faultbridge.domain.entries import Draft, EntryType, seal
from faultbridge.domain.times import from_text, to_text, truncate
from faultbridge.errors import Conflict, Rejected
from faultbridge.ports import Clock, Table
from faultbridge.services.append import Stack
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Absent, Equals, Put, Write

MOST_TRIES = 20
MOST_NODES = 5000
MOST_LISTED = 50
OUTCOMES = ("succeeded", "failed", "cancelled", "unreported")
_LONGEST_ID = 128


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is known: `ended_at` and `outcome` are None while it runs."""

    cluster: str
    id: str
    nodes: tuple[str, ...]
    started_at: datetime
    name: str | None = None
    ended_at: datetime | None = None
    outcome: str | None = None
    version: int = 0


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

        return self._change(cluster, job_id, revise, "started", f"started on {len(seats)} nodes")

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

        return self._change(cluster, job_id, revise, "ended", reason or f"ended: {outcome}")

    def find(self, cluster: str, job_id: str) -> Job | None:
        """Return a job, or None when its start was never noted."""
        found = self.table.get(keys.job(cluster, job_id))
        return _read(found) if found else None

    def _seats(self, cluster: str, nodes: Sequence[str]) -> tuple[str, ...]:
        if self.table.get(keys.cluster_config(cluster)) is None:
            raise Rejected("unknown_cluster", f"{cluster} is not registered (faultbridge cluster add {cluster})")
        if not 0 < len(nodes) <= MOST_NODES:
            raise Rejected("bad_nodes", f"a job runs on 1 to {MOST_NODES} nodes")
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

    def _change(
        self,
        cluster: str,
        job_id: str,
        revise: Callable[[Job | None, datetime], Job | None],
        change: str,
        reason: str,
    ) -> Job:
        for attempt in range(MOST_TRIES):
            before, now = self.find(cluster, job_id), truncate(self.clock.now())
            after = revise(before, now)
            if after is None:
                return before or _never()
            try:
                self._write(replace(after, version=after.version + 1), before, _data(after, change, reason), now)
            except Conflict:
                if attempt == MOST_TRIES - 1:
                    raise
                continue
            return replace(after, version=after.version + 1)
        return _never()  # pragma: no cover - the last try returns or raises

    def _write(self, job: Job, before: Job | None, data: Mapping[str, Any], now: datetime) -> None:
        """Write the job and its entry together; the cluster's version keeps its stream without a fork."""
        state = items.read_cluster(job.cluster, self.table.get(keys.cluster_state(job.cluster)))
        at = job.ended_at or job.started_at
        head = replace(state.head, version=state.head.version + 1)
        drafts = (Draft(EntryType.JOB, at, data),)
        stream = self.stack.stream(job.cluster)
        entries, head = seal(stream, head, drafts, actor=Actor.CLI, severity=None, recorded_at=now)
        unchanged = Equals("version", state.head.version) if state.head.version else Absent()
        mine = Equals("version", before.version) if before else Absent()
        writes: list[Write] = [
            Put(items.cluster_item(replace(state, head=head), now), when=unchanged),
            Put(items.item(keys.job(job.cluster, job.id), now, _stored(job)), when=mine),
        ]
        partition = keys.cluster_partition(job.cluster)
        writes += [Put(items.entry_item(entry, partition, shard=0), when=Absent()) for entry in entries]
        self.table.transact(writes)


def _alias(cluster: str, name: str) -> Alias:
    return Alias("instance", name) if name.startswith("i-") else Alias("name", f"{cluster}/{name}")


def _data(job: Job, change: str, reason: str) -> dict[str, Any]:
    return {
        "job_id": job.id,
        "name": job.name,
        "change": change,
        "reason": reason,
        "nodes": {"count": len(job.nodes), "listed": list(job.nodes[:MOST_LISTED])},
        "started_at": to_text(job.started_at),
        "ended_at": to_text(job.ended_at) if job.ended_at else None,
        "outcome": job.outcome,
        "hit": None,
    }


def _stored(job: Job) -> dict[str, Any]:
    return {
        "cluster": job.cluster,
        "job_id": job.id,
        "name": job.name,
        "nodes": list(job.nodes),
        "started_at": to_text(job.started_at),
        "ended_at": to_text(job.ended_at) if job.ended_at else None,
        "outcome": job.outcome,
        "version": job.version,
    }


def _read(found: Mapping[str, Any]) -> Job:
    ended_at = found["ended_at"]
    return Job(
        cluster=found["cluster"],
        id=found["job_id"],
        nodes=tuple(found["nodes"]),
        started_at=from_text(found["started_at"]),
        name=found["name"],
        ended_at=from_text(ended_at) if ended_at else None,
        outcome=found["outcome"],
        version=int(found["version"]),
    )


def _never() -> Job:
    raise AssertionError
