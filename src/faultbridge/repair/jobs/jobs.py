"""Jobs: records which jobs run on which nodes, so that a fault can name the jobs that it affects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

from msgspec import Struct

from faultbridge.model.cluster.jobs import MAX_RANKS, OUTCOMES, Job, rank_text, ranks_of
from faultbridge.model.entries import Transition
from faultbridge.model.enums import MAX_JOBS_OF_NODE, Actor, JobChangeKind
from faultbridge.model.errors import Conflict, Rejected, UnknownName
from faultbridge.model.isolation import ORDERED
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import Alias, NodeKey, NodeState
from faultbridge.model.storage import items, jobs, keys
from faultbridge.model.storage.jobs import FollowedJob, read_job
from faultbridge.model.storage.writes import Check, Equals, Write
from faultbridge.model.times import to_text, truncate
from faultbridge.model.values import replace
from faultbridge.record.append import MAX_TRIES, Append
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import cluster_config, query_all, recorded_job
from faultbridge.repair.jobs.changes import Impact, JobChange, JobWriter, Resume, step_of

# Job nodes: stores the ids of running jobs in the states of their nodes.
#
# Therefore, an event of a node can name the jobs on the node without a read of the jobs. The nodes of a job are updated
# after the job's start or end is recorded. The sweep completes an interrupted update.

NODES_PER_TRANSACTION = 24


def jobs_after(state: NodeState, job: Job) -> tuple[str, ...]:
    """Return the ids of a node's jobs, at most 16, after `job` started or ended."""
    if not job.runs or state.key.node not in job.nodes:
        return tuple(one for one in state.jobs if one != job.id)
    return state.jobs if job.id in state.jobs else (*state.jobs, job.id)[:MAX_JOBS_OF_NODE]


MAX_NODES = 5000


def resolved_nodes(table: Table, cluster: str, names: Sequence[str]) -> dict[str, str]:
    """Return the node of each name that a scheduler gave; raises `unknown_node` and `bad_nodes`."""
    cluster_config(table, cluster)  # rejects an unregistered cluster
    if not 0 < len(names) <= MAX_NODES:
        raise Rejected("bad_nodes", f"the job has {len(names)} nodes; 1 to {MAX_NODES} are allowed")
    aliases = {
        name: Alias("instance", name) if name.startswith("i-") else Alias("name", f"{cluster}/{name}") for name in names
    }
    found = table.get_many(keys.alias(*alias) for alias in aliases.values())
    nodes: dict[str, str] = {}
    for name, alias in aliases.items():
        row = found.get(keys.alias(*alias))
        key = items.read_alias(row).key if row else None
        if key is None or key.cluster != cluster:
            raise UnknownName("node", name, cluster)
        nodes[name] = key.node
    return nodes


def ranks_by_node(names: Mapping[str, str], ranks: Mapping[str, str]) -> dict[str, str]:
    """Return the ranks of each node as text, such as `0-7`; raises Rejected `bad_ranks`."""
    try:
        listed = [(names[name], rank) for name, text in ranks.items() for rank in ranks_of(text)]
    except KeyError as error:
        raise Rejected("bad_ranks", f"the ranks name {error.args[0]}, which is no node of the job") from error
    except ValueError as error:
        raise Rejected("bad_ranks", "the ranks are not numbers; allowed: such as 0-7 or 0,2,4") from error
    if len(listed) > MAX_RANKS or len({rank for _, rank in listed}) != len(listed):
        raise Rejected("bad_ranks", f"a rank is on two nodes, or there are more than {MAX_RANKS} ranks")
    by_node: dict[str, list[int]] = {}
    for node, rank in listed:
        by_node.setdefault(node, []).append(rank)
    return {node: rank_text(found) for node, found in by_node.items()}


MAX_HITS = 64
MAX_REASON = 512
MAX_ID_LENGTH = 128
END_NOT_OBSERVED = "the job started again; its end was not observed"


class Jobs(Struct, frozen=True):
    """Records jobs, each fact once; without `marks_nodes`, the sweep stores the ids in the nodes."""

    append: Append
    marks_nodes: bool = True

    @property
    def table(self) -> Table:
        """Return the table in which jobs are stored."""
        return self.append.table

    @property
    def clock(self) -> Clock:
        """Return the clock from which the current time is read."""
        return self.append.clock

    @property
    def writer(self) -> JobWriter:
        """Return the writer of job items and their entries."""
        return JobWriter(self.table, self.clock, self.append.stack)

    def start(
        self,
        cluster: str,
        job_id: str,
        nodes: Sequence[str],
        *,
        name: str | None = None,
        at: datetime | None = None,
        ranks: Mapping[str, str] = MappingProxyType({}),
        stall_after: timedelta | None = None,
        checkpoint_signal: str | None = None,
        again: bool = False,
    ) -> Job:
        """Record that a job starts on nodes, which are given by node name, other alias or instance id.

        `ranks` maps these names to global ranks, such as `0-7`. `at` is the start; None means now. An ended job starts
        again if `at` is None or later than its last start; otherwise nothing changes. If the job already runs on these
        nodes since `at` (or `at` is None), only the given name, ranks, stall limit and signal are stored. If it runs on
        other nodes and `again` is True, that run is ended first. Otherwise, a job that already runs raises Rejected
        `job_runs`. Raises `bad_job` for an invalid id, and the errors of `end`, `resolved_nodes` and `ranks_by_node`.
        """
        at, names = at and truncate(at), resolved_nodes(self.table, cluster, nodes)
        placed, placed_ranks = tuple(sorted(set(names.values()))), ranks_by_node(names, ranks)
        if not 0 < len(job_id) <= MAX_ID_LENGTH:
            raise Rejected("bad_job", f"the job id has {len(job_id)} characters; 1 to {MAX_ID_LENGTH} are allowed")
        found = self.find(cluster, job_id) if again else None
        if found is not None and found.ended_at is None and found.nodes != placed:
            self.end(cluster, job_id, reason=END_NOT_OBSERVED, at=at)
        given: dict[str, object] = {"name": name, "ranks": placed_ranks, "stall_after": stall_after}
        given = {field: value for field, value in (given | {"checkpoint_signal": checkpoint_signal}).items() if value}

        def described(job: Job) -> Job:
            return replace(job, **given)

        def update(before: Job | None, now: datetime) -> Job | None:
            started_at = at or truncate(now)
            if before is not None and before.ended_at is None:
                if before.nodes == placed and at in {None, before.started_at}:
                    return None
                since = to_text(before.started_at)
                raise Rejected("job_runs", f"job {job_id} has run since {since}; end it with `faultbridge job end`")
            if before is not None and at is not None and started_at <= before.started_at:
                return None  # a start that was delivered again, after the end
            return described(_new_run(before, Job(cluster, job_id, placed, started_at), step_of(self.table, before)))

        job = self.writer.change(
            cluster, job_id, update, JobChange(JobChangeKind.STARTED, f"started on {len(placed)} nodes")
        )
        return self._marked(self.writer.describe(job, described) if job.runs else job)

    def end(
        self, cluster: str, job_id: str, *, outcome: str = "unreported", reason: str = "", at: datetime | None = None
    ) -> Job:
        """Record that a job ended, and return the job. A job that has already ended is not changed.

        Raises Rejected `unknown_job` if the job's start was not recorded, `bad_outcome` for an unknown outcome, and
        `bad_time` for an end before the start.
        """
        if outcome not in OUTCOMES:
            raise Rejected("bad_outcome", f"unknown outcome: {outcome!r}; allowed: {', '.join(OUTCOMES)}")

        def update(before: Job | None, now: datetime) -> Job | None:
            if before is None:
                raise UnknownName("job", job_id, cluster)
            if before.ended_at is not None:
                return None
            ended_at = truncate(at or now)
            if ended_at < before.started_at:
                text = f"the end {to_text(ended_at)} is before the start of job {job_id}: {to_text(before.started_at)}"
                raise Rejected("bad_time", text)
            to_mark = tuple(sorted({*before.to_mark, *before.nodes}))
            return replace(before, ended_at=ended_at, outcome=outcome, to_mark=to_mark, stalled_at=None, callbacks=())

        return self._marked(
            self.writer.change(cluster, job_id, update, JobChange(JobChangeKind.ENDED, reason or f"ended: {outcome}"))
        )

    def record_impact(self, cluster: str, job_ids: Iterable[str], impact: Impact) -> None:
        """Record that a node's condition affects these jobs, once on each job.

        A job keeps its first 64 conditions. After these, only the first condition of each further node is recorded.
        A job is not changed in these cases:

        - The condition was last observed before the job started.
        - The job has ended, and it can no longer be reported as resumable (`Job.may_resume`).
        - The job ended more than five minutes before the condition began.
        - An operator's order opened the condition, and the job ended before the order.
        """
        condition = impact.condition

        def update(before: Job | None, _: datetime) -> Job | None:
            if before is None or condition.last_at < before.started_at or impact.key in before.hits:
                return None
            if not before.takes_hit(condition.since, ordered=condition.code.startswith(ORDERED)):
                return None
            own = {impact.node: impact.instance_id} if impact.is_of_node else {}
            if len(before.hits) >= MAX_HITS and own.keys() <= before.affected.keys():
                return None  # without its key, it would be recorded again by each sweep
            hits = (*before.hits, impact.key)[:MAX_HITS]
            return replace(before, hits=hits, affected={**own, **before.affected})

        reason = f"{impact.node}: {condition.code}, {condition.message}"
        for job_id in job_ids:
            self.writer.change(cluster, job_id, update, JobChange(JobChangeKind.HIT, reason[:MAX_REASON], impact))

    def record_resumable(self, job: Job, resume: Resume, callbacks: tuple[str, ...] = ()) -> Job:
        """Record that an ended job may resume, unless this is recorded or the job has started again."""

        def update(before: Job | None, now: datetime) -> Job | None:
            if before is None or not before.may_resume:
                return None
            return replace(before, resumable_at=now, callbacks=callbacks)

        return self.writer.change(
            job.cluster, job.id, update, JobChange(JobChangeKind.RESUMABLE, resume.reason, resume=resume)
        )

    def _marked(self, job: Job) -> Job:
        if not job.to_mark or not self.marks_nodes:
            return job
        return self.mark_nodes(job.cluster, job.id) or job

    def mark_nodes(self, cluster: str, job_id: str) -> Job | None:
        """Store a job's id in its nodes, or remove it after the end; the sweep continues after conflicts."""
        marked, version, job = set[str](), None, self.find(cluster, job_id)
        for _ in range(MAX_TRIES):
            if job is None or not job.to_mark:
                return job
            if job.version != version:
                marked, version = set[str](), job.version
            try:
                return self._mark(job, marked)
            except Conflict as conflict:
                log_cause("job_nodes_conflict", reason=str(conflict), cluster=cluster, job_id=job_id)
                self.append.pause(self.append.random.uniform(0, 0.2))
                job = self.find(cluster, job_id)
        return job

    def _mark(self, job: Job, marked: set[str]) -> Job:
        left = [node for node in job.to_mark if node not in marked]
        for first in range(0, len(left), NODES_PER_TRANSACTION):
            group = left[first : first + NODES_PER_TRANSACTION]
            self._mark_group(job, group)
            marked.update(group)
        return self.writer.store(job, replace(job, to_mark=()))

    def _mark_group(self, job: Job, nodes: Sequence[str]) -> None:
        now = truncate(self.clock.now())
        writes: list[Write] = []
        for before in self.append.read_many(NodeKey(job.cluster, node) for node in nodes):
            after = replace(before, jobs=jobs_after(before, job))
            if before.registered and after != before:
                _, added = self.append.prepare(before, Transition(after, ()), actor=Actor.CLI, now=now)
                writes += added
        if writes:
            unchanged = Check(jobs.job_key(job.cluster, job.id), Equals("version", job.version))
            self.append.commit([unchanged, *writes])

    def rows(self, cluster: str) -> tuple[FollowedJob, ...]:
        """Return the index rows of the followed jobs: those that run or ended recently."""
        found = query_all(self.table, jobs.followed_partition(cluster), prefix=jobs.FOLLOWED)
        return tuple(map(jobs.read_followed, found))

    def read(self, cluster: str, rows: Iterable[FollowedJob]) -> tuple[Job, ...]:
        """Return the complete stored jobs for index rows that the method `rows` returned."""
        found = self.table.get_many([jobs.job_key(cluster, one.id) for one in rows])
        return tuple(map(read_job, found.values()))

    def stop_following(self, cluster: str, followed: FollowedJob) -> None:
        """Delete the index row of an ended job, unless the job has changed since it was read."""
        try:
            self.table.write(jobs.unfollow(cluster, followed))
        except Conflict as conflict:
            log_cause("job_still_followed", reason=str(conflict), cluster=cluster, job_id=followed.id)

    def find(self, cluster: str, job_id: str) -> Job | None:
        """Return a job, or None if its start was not recorded."""
        return self.writer.find(cluster, job_id)

    def show(self, cluster: str, job_id: str) -> Job:
        """Return a job. Raises Rejected `unknown_job` if its start was not recorded."""
        return recorded_job(self.table, cluster, job_id)


def _new_run(before: Job | None, started: Job, step: int | None) -> Job:
    """Return a job at the start of a new run, with the version and the unmarked nodes of the stored job."""
    if before is None:
        return replace(started, to_mark=started.nodes)
    attempts = before.attempts.after(before.root, step, before.ran)
    to_mark = tuple(sorted({*before.to_mark, *started.nodes}))
    return replace(started, version=before.version, to_mark=to_mark, attempts=attempts)
