"""Job progress: stores heartbeats of jobs, and records stalls, new progress and abnormal losses.

A stall is a training step that does not advance within the limit. After a rollback to a checkpoint, a step counts as an
advance if it is higher than every step since the rollback. No repair starts because of a stall.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from msgspec import Struct

from faultbridge.model.cluster.jobs import MAX_LOSSES, NOT_FINITE, Job, Progress, loss_alarm, ranks_on_gpus
from faultbridge.model.conditions import Condition, condition_key
from faultbridge.model.enums import JobChangeKind
from faultbridge.model.errors import Conflict, Rejected
from faultbridge.model.faults import NODE_COMPONENT
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import jobs as stored
from faultbridge.model.storage.writes import Key
from faultbridge.model.times import to_text, truncate
from faultbridge.model.values import replace
from faultbridge.repair.jobs.changes import JobChange
from faultbridge.repair.jobs.jobs import Jobs

MAX_STEP = 10**12
NO_TRAFFIC = condition_key("app.no_traffic", NODE_COMPONENT)
GPUS_STOPPED = condition_key("app.gpus_stopped", NODE_COMPONENT)
NODES_READ_AT_ONCE = 32
MAX_BEHIND = 16
_NUMBER = re.compile(r"\d{1,3}\Z", re.ASCII)


class JobProgress(Struct, frozen=True):
    """Stores heartbeats of jobs, records abnormal losses, and finds the jobs whose step does not advance."""

    jobs: Jobs

    def heartbeat(
        self, cluster: str, job_id: str, step: int, loss: float | None = None, step_seconds: Sequence[float] = ()
    ) -> Job:
        """Record the training step that a job reports, its loss, and the time of each rank if given; return the job.

        To limit writes, a step that does not advance is stored at most once in a quarter of the stall limit, unless it
        shows a rollback. Raises Rejected `unknown_job`, `job_ended`, and `bad_step` for a step out of range.
        """
        if not 0 <= step <= MAX_STEP:
            raise Rejected("bad_step", f"the step is {step}; allowed: 0 to {MAX_STEP}")
        job, now = self.jobs.show(cluster, job_id), truncate(self.jobs.clock.now())
        if not job.runs:
            raise Rejected("job_ended", f"job {job_id} has ended; start it with `faultbridge job start`")
        stored_before = self._stored(job.cluster, job.id)
        before = _of_run(stored_before, job)
        after, advanced = before.reported(step, now) if before else (Progress(job.started_at, step, now, now), True)
        if loss is not None:
            job = self._judge_loss(job, after, step, loss, advanced=advanced)
        if advanced:
            after = replace(after, step_ms=tuple(round(1000 * one) for one in step_seconds))
            if job.stalled_at is not None:
                job = self._record_advance(job, step)
            if loss is not None and math.isfinite(loss):
                after = replace(after, losses=(*after.losses, loss)[-MAX_LOSSES:])
        if before is None or advanced or after.rollback != before.rollback or before.is_old(now, job.stall_after):
            self._store(job, stored_before, after)
        return job

    def check_traffic(self, state: NodeState) -> None:
        """Record for the jobs of a node, which has a new entry, whether its nodes still work.

        A job stalls without heartbeats if all its nodes have stopped sending, or, on one node, if the node's GPUs have
        stopped. It makes progress again with the first node that works. A job with heartbeats is judged by its steps
        only.
        """
        judged = {NO_TRAFFIC, GPUS_STOPPED} & (state.conditions.keys() | state.tombstones.keys())
        for job_id in state.jobs if judged else ():
            job = self.jobs.find(state.key.cluster, job_id)
            if job is None or not job.runs or _of_run(self._stored(job.cluster, job.id), job) is not None:
                continue
            stops = self._stops(job) if stop_of(state, job) is not None else {}
            if not stops and job.stalled_at is not None:
                text = f"the job makes progress again: {state.key.node} works"
                self._change_stall(job, None, JobChange(JobChangeKind.ADVANCED, text))
            elif stops and job.stalled_at is None:
                now = truncate(self.jobs.clock.now())
                self._change_stall(job, now, JobChange(JobChangeKind.STALLED, _stopped(job, stops)))

    def _stops(self, job: Job, *, must_all: bool = True) -> dict[str, Condition]:
        """Return the condition of each node of a job that has stopped; if all must, empty if one has not."""
        found: dict[str, Condition] = {}
        for at in range(0, len(job.nodes), NODES_READ_AT_ONCE):  # usually one of the first nodes still sends
            keys = [NodeKey(job.cluster, node) for node in job.nodes[at : at + NODES_READ_AT_ONCE]]
            for state in self.jobs.append.read_many(keys):
                stop = stop_of(state, job)
                if stop is None and must_all:
                    return {}
                found |= {state.key.node: stop} if stop is not None else {}
        return found

    def _change_stall(self, job: Job, stalled_at: datetime | None, change: JobChange) -> None:
        def update(before: Job | None, _: datetime) -> Job | None:
            same = before is None or not before.runs or (before.stalled_at is None) == (stalled_at is None)
            return None if before is None or same else replace(before, stalled_at=stalled_at)

        self.jobs.writer.change(job.cluster, job.id, update, change)

    def check(self, key: Key) -> None:
        """Record that a job is stalled if its step has not advanced within its stall limit.

        `key` is the key of the job's timer, which is due.

        - If the job is stalled, the stall is recorded and the timer is deleted.
        - If the job runs and is not stalled, nothing is recorded and the timer stays.
        - If the job has ended, or if the timer belongs to an earlier run, nothing is recorded and the timer is deleted.

        Without stored progress of the job, nothing happens. If a heartbeat arrives meanwhile, the timer stays.
        """
        cluster, job_id = stored.job_of(key.pk)
        job = self.jobs.find(cluster, job_id)
        stored_before = self._stored(cluster, job_id)
        if stored_before is None:
            return
        progress = _of_run(stored_before, job)
        if job is not None and progress is not None:
            if not progress.is_stalled(truncate(self.jobs.clock.now()), job.stall_after):
                return
            self._record_stall(job, progress)
        try:
            self.jobs.table.write(stored.without_timer(key, stored_before.version))
        except Conflict as conflict:  # a heartbeat arrived meanwhile; its timer stays
            log_cause("job_timer_kept", reason=str(conflict), cluster=cluster, job_id=job_id)

    def _record_stall(self, job: Job, progress: Progress) -> None:
        def update(before: Job | None, now: datetime) -> Job | None:
            current = _of_run(self._stored(job.cluster, job.id), before)
            if before is None or current is None or before.stalled_at is not None:
                return None
            return replace(before, stalled_at=now) if current.is_stalled(now, before.stall_after) else None

        text = _stall(progress, job.stall_after) + _behind(job, self._stops(job, must_all=False))
        self.jobs.writer.change(job.cluster, job.id, update, JobChange(JobChangeKind.STALLED, text))

    def _judge_loss(self, job: Job, progress: Progress, step: int, loss: float, *, advanced: bool) -> Job:
        """Record that the loss becomes abnormal or, at a new step, normal again; return the job."""
        alarm = loss_alarm(progress.losses, loss, job.alarm)
        if alarm == job.alarm or (alarm is None and not advanced):
            return job

        def update(before: Job | None, _: datetime) -> Job | None:
            return None if before is None or not before.runs or before.alarm == alarm else replace(before, alarm=alarm)

        what = "is ordinary again" if alarm is None else "is not finite" if alarm == NOT_FINITE else "rose suddenly"
        change = JobChange(JobChangeKind.LOSS, f"the loss {what} at step {step}: {loss}")
        return self.jobs.writer.change(job.cluster, job.id, update, change)

    def _record_advance(self, job: Job, step: int) -> Job:
        def update(before: Job | None, _: datetime) -> Job | None:
            return None if before is None or before.stalled_at is None else replace(before, stalled_at=None)

        change = JobChange(JobChangeKind.ADVANCED, f"the job makes progress again: step {step}")
        return self.jobs.writer.change(job.cluster, job.id, update, change)

    def _stored(self, cluster: str, job_id: str) -> Progress | None:
        """Return the stored progress of a job, or None. It may belong to an earlier run of the job."""
        found = self.jobs.table.get(stored.progress_key(cluster, job_id))
        return stored.read_progress(found) if found else None

    def _store(self, job: Job, before: Progress | None, after: Progress) -> None:
        """Store the progress of a job. If two heartbeats arrive at the same time, only one is stored."""
        due_at = None if job.stalled_at is not None else after.advanced_at + job.stall_after
        try:
            self.jobs.table.write(stored.progress_write(job, before, after, due_at, truncate(self.jobs.clock.now())))
        except Conflict as conflict:
            log_cause("job_heartbeat_not_stored", reason=str(conflict), cluster=job.cluster, job_id=job.id)


def stop_of(state: NodeState, job: Job) -> Condition | None:
    """Return the condition that a node has stopped to work for its job; None if that began before this job."""
    condition = state.conditions.get(NO_TRAFFIC if len(job.nodes) > 1 else GPUS_STOPPED)
    is_own = condition is not None and condition.active and condition.since >= job.started_at
    return condition if is_own else None


def _stopped(job: Job, stops: Mapping[str, Condition]) -> str:
    since = to_text(max(one.since for one in stops.values()))
    what = f"no data has moved between its {len(stops)} nodes" if len(stops) > 1 else "the GPUs of its node did nothing"
    return f"{what} since {since}{_behind(job, stops)}"


def _behind(job: Job, stops: Mapping[str, Condition]) -> str:
    """Return the GPUs and ranks of a stalled job that are behind as text, if the counters of its GPUs show them."""
    found = {node: one.attributes.get("behind", "").split(",") for node, one in stops.items()}
    behind = {node: own for node, numbers in found.items() if (own := [one for one in numbers if _NUMBER.match(one)])}
    if not behind or len(behind) == len(stops) > 1:
        return ""
    named = (f"{node} GPU {number}{_rank(job, node, number)}" for node in sorted(behind) for number in behind[node])
    return f"; behind, without a running kernel: {', '.join(islice(named, MAX_BEHIND))}"


def _rank(job: Job, node: str, number: str) -> str:
    return "".join(f" (rank {rank})" for rank in ranks_on_gpus(job.ranks.get(node, ""), (int(number),)))


def _of_run(progress: Progress | None, job: Job | None) -> Progress | None:
    if progress is None or job is None or not job.runs:
        return None
    return progress if progress.run == job.started_at else None


def _stall(progress: Progress, limit: timedelta) -> str:
    is_received = progress.seen_at > progress.advanced_at
    how = "heartbeats still arrive" if is_received else f"the last heartbeat was at {to_text(progress.seen_at)}"
    return f"step {progress.last_step} has not advanced for {int(limit.total_seconds())} s; {how}"
