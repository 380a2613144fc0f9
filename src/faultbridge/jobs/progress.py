"""Job progress: stores heartbeats of jobs, and records a stall, new progress, and a loss that is wrong.

A heartbeat states a step. If the step does not advance for the limit of the job, the sweep records the change
`stalled`, whether heartbeats still arrive or not. Nothing is repaired for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from faultbridge.domain.cluster.jobs import Job
from faultbridge.domain.cluster.progress import MAX_LOSSES, NOT_FINITE, Progress, loss_alarm
from faultbridge.domain.times import to_text, truncate
from faultbridge.errors import Conflict, Rejected
from faultbridge.jobs.changes import JobChange
from faultbridge.jobs.jobs import Jobs
from faultbridge.log import log_cause
from faultbridge.storage import jobs as stored
from faultbridge.storage.writes import Key

MAX_STEP = 10**12


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Stores heartbeats of jobs, and finds the jobs whose step does not advance."""

    jobs: Jobs

    def heartbeat(self, cluster: str, job_id: str, step: int, loss: float | None = None) -> Job:
        """Record a step, and the loss if it is given. A step that is not new is stored at most each quarter limit.

        Raises Rejected `unknown_job`, `job_ended`, and `bad_step`.
        """
        if not 0 <= step <= MAX_STEP:
            raise Rejected("bad_step", f"the step is {step}; allowed: 0 to {MAX_STEP}")
        job, now = self.jobs.show(cluster, job_id), truncate(self.jobs.clock.now())
        if not job.runs:
            raise Rejected("job_ended", f"job {job_id} has ended; start it with `faultbridge job start`")
        before = self._progress(job)
        if before is not None and step <= before.step:
            if now - before.seen_at >= job.stall_after / 4:
                self._store(job, before, replace(before, seen_at=now))
            return job
        losses = before.losses if before else ()
        alarm = loss_alarm(losses, loss) if loss is not None else job.alarm
        if alarm != job.alarm:
            job = self._record_alarm(job, alarm, step, loss)
        if job.stalled_at is not None:
            job = self._record_advance(job, step)
        kept = losses if loss is None or alarm else (*losses, loss)[-MAX_LOSSES:]
        self._store(job, before, Progress(job.started_at, step, now, now, kept))
        return job

    def check(self, key: Key) -> None:
        """Record that a job is stalled, if the timer of its progress is due and its step has not advanced since."""
        cluster, job_id = stored.job_of(key.pk)
        job = self.jobs.find(cluster, job_id)
        progress = self._progress(job) if job is not None and job.runs else None
        if job is None or progress is None:
            self.jobs.table.write(stored.without_timer(key))
            return
        if not progress.is_stalled(truncate(self.jobs.clock.now()), job.stall_after):
            return

        def update(before: Job | None, now: datetime) -> Job | None:
            current = self._progress(before) if before is not None and before.runs else None
            if before is None or current is None or before.stalled_at is not None:
                return None
            return replace(before, stalled_at=now) if current.is_stalled(now, before.stall_after) else None

        self.jobs.writer.change(cluster, job_id, update, JobChange("stalled", _stall(progress, job.stall_after)))
        self.jobs.table.write(stored.without_timer(key))

    def _record_alarm(self, job: Job, alarm: str | None, step: int, loss: float | None) -> Job:
        """Record a wrong loss once; the next ordinary loss ends it."""

        def update(before: Job | None, _: datetime) -> Job | None:
            return None if before is None or not before.runs or before.alarm == alarm else replace(before, alarm=alarm)

        what = "is ordinary again" if alarm is None else "is not finite" if alarm == NOT_FINITE else "rose suddenly"
        change = JobChange("loss", f"the loss {what} at step {step}: {loss}")
        return self.jobs.writer.change(job.cluster, job.id, update, change)

    def _record_advance(self, job: Job, step: int) -> Job:
        def update(before: Job | None, _: datetime) -> Job | None:
            return None if before is None or before.stalled_at is None else replace(before, stalled_at=None)

        change = JobChange("advanced", f"the job makes progress again: step {step}")
        return self.jobs.writer.change(job.cluster, job.id, update, change)

    def _progress(self, job: Job) -> Progress | None:
        """Return the progress of the current run of a job, or None."""
        found = self.jobs.table.get(stored.progress_key(job.cluster, job.id))
        progress = stored.read_progress(found) if found else None
        return progress if progress is not None and progress.run == job.started_at else None

    def _store(self, job: Job, before: Progress | None, after: Progress) -> None:
        """Store progress. Of two heartbeats at the same time, one is stored."""
        due_at = None if job.stalled_at is not None else after.advanced_at + job.stall_after
        try:
            self.jobs.table.write(stored.progress_write(job, before, after, due_at, truncate(self.jobs.clock.now())))
        except Conflict as conflict:
            log_cause("job_heartbeat_not_stored", reason=str(conflict), cluster=job.cluster, job_id=job.id)


def _stall(progress: Progress, limit: timedelta) -> str:
    is_received = progress.seen_at > progress.advanced_at
    how = "heartbeats still arrive" if is_received else f"the last heartbeat was at {to_text(progress.seen_at)}"
    return f"step {progress.step} has not advanced for {int(limit.total_seconds())} s; {how}"
