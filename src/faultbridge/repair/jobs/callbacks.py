"""Job callbacks: notifies receivers that a job may resume or must save a checkpoint, and records each result."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.model.cluster.config import SLURM_SIGNAL, ClusterConfig
from faultbridge.model.cluster.jobs import Checkpoint, Job
from faultbridge.model.enums import JobChangeKind, ProviderFailure
from faultbridge.model.errors import Conflict
from faultbridge.model.events.wire import EventDocument
from faultbridge.model.log import log_cause
from faultbridge.model.storage import items, jobs, keys
from faultbridge.model.storage.writes import Absent, Equals, Key, Put
from faultbridge.model.times import from_text, to_text
from faultbridge.model.values import replace
from faultbridge.record.ports.callbacks import JobCallback, JobNotice
from faultbridge.record.ports.compute import CallResult
from faultbridge.record.queries import cluster_config, query_all
from faultbridge.repair.jobs.changes import CallbackResult, JobChange
from faultbridge.repair.jobs.jobs import MAX_REASON, Jobs

RETRY_FOR = timedelta(hours=6)
"""How long after a job became resumable its callbacks are tried. The sweep tries once a minute."""

LEASE = timedelta(seconds=55)
"""How long one sweep reserves the callbacks of a cluster. This is the timeout of the sweep function."""

NO_EVENT = CallResult(
    ProviderFailure.NOT_FOUND, "the event of the job is no longer in the table; resume the job yourself"
)


class DeliverCallbacks(Struct, frozen=True):
    """Notifies receivers that jobs may resume: at least once, always with the same event."""

    jobs: Jobs
    callbacks: Mapping[str, JobCallback]

    def has_waiting(self, cluster: str) -> bool:
        """Return whether any followed job of a cluster has callbacks to deliver."""
        return any(one.callbacks for one in self.jobs.rows(cluster))

    def deliver(self, cluster: str, until: datetime | None = None) -> None:
        """Deliver the waiting callbacks of a cluster. At the time `until`, leave the rest to the next sweep.

        Nothing is delivered in the 55 seconds after another run started to deliver callbacks of the cluster. A receiver
        can require callbacks in order (`JobCallback.ordered`). If a delivery to such a receiver must be tried again,
        the callbacks of later jobs to the same receiver wait too.
        """
        waiting = [one for one in self.jobs.rows(cluster) if one.callbacks]
        found = self.jobs.table.get(keys.cluster_config(cluster)) if waiting else None
        if found is None or not self._lease(cluster):
            return
        config, held = items.read_config(found), set[str]()
        pending = self.jobs.read(cluster, waiting)
        for job in sorted(pending, key=lambda one: (to_text(one.resumable_at or one.started_at), one.id)):
            for name in job.callbacks:
                if until is not None and self.jobs.clock.now() >= until:
                    return
                if name not in held and not self._deliver(job, name, config) and self.callbacks[name].ordered:
                    held.add(name)

    def deliver_now(self, job: Job) -> None:
        """Deliver the waiting callbacks of one job; the sweep delivers again those that fail."""
        for name in job.callbacks:
            self._deliver(job, name, cluster_config(self.jobs.table, job.cluster))

    def _lease(self, cluster: str) -> bool:
        key, now = Key(keys.cluster_partition(cluster), "CALLBACKS"), self.jobs.clock.now()
        found = self.jobs.table.get(key)
        if found is not None and now < from_text(str(found["until"])):
            return False
        version = int(str(found["version"])) if found else 0
        row = items.item(key, now, {"version": version + 1, "until": to_text(now + LEASE)})
        try:
            self.jobs.table.write(Put(row, when=Equals("version", version) if version else Absent()))
        except Conflict as conflict:
            log_cause("job_callbacks_leased_elsewhere", reason=str(conflict), cluster=cluster)
            return False
        return True

    def _deliver(self, job: Job, name: str, config: ClusterConfig) -> bool:
        """Deliver one callback and record its result; False if it must be tried again within six hours."""
        notice = self._notice(job, config)
        result = self._refusal(job, name, config) or (self.callbacks[name].deliver(notice) if notice else NO_EVENT)
        asked = job.requested_checkpoint
        until = asked.deadline if asked is not None else (job.resumable_at or job.started_at) + RETRY_FOR
        is_late = self.jobs.clock.now() >= until
        if result.failure is not None and result.failure.retriable and not is_late:
            log_cause("job callback failed; it is retried", reason=result.reason, cluster=job.cluster, job_id=job.id)
            return False
        change = CallbackResult(name, result.ok, notice.event_id if notice else None)
        reason = f"{name}: {result.reason}"[:MAX_REASON]

        def update(before: Job | None, _: datetime) -> Job | None:
            if before is None or name not in before.callbacks or before.requested_checkpoint != asked:
                return None
            if before.resumable_at != job.resumable_at:
                return None
            return replace(before, callbacks=tuple(one for one in before.callbacks if one != name))

        self.jobs.writer.change(job.cluster, job.id, update, JobChange(JobChangeKind.NOTIFIED, reason, callback=change))
        return True

    def _refusal(self, job: Job, name: str, config: ClusterConfig) -> CallResult | None:
        if name not in {*config.job_callbacks, SLURM_SIGNAL}:
            return CallResult(ProviderFailure.NOT_FOUND, "no longer a callback of the cluster")
        if job.must_stop:
            return CallResult(ProviderFailure.PERMISSION_DENIED, "the recorded verdict on the job is STOP")
        return None

    def _notice(self, job: Job, config: ClusterConfig) -> JobNotice | None:
        """Return the published event of the request or of the change `resumable`, or None if it is not stored."""
        asked = job.requested_checkpoint
        at = to_text(asked.requested_at if asked else job.resumable_at or job.started_at)
        partition = jobs.job_partition(job.cluster, job.id)
        links = query_all(self.jobs.table, partition, prefix=f"{at}#")
        entries = self.jobs.table.get_many([Key(str(row["entry_pk"]), str(row["entry_sk"])) for row in links])
        bodies = [str(row["body"]) for row in entries.values()]
        event = next((one for one in bodies if _is_wanted(json.loads(one), asked)), None)
        if event is None:
            facts = {"cluster": job.cluster, "job_id": job.id, "at": at}
            log_cause("job_callback_without_event", reason="no such entry", level=logging.WARNING, **facts)
            return None
        event_id, signal = str(json.loads(event)["metadata"]["event_id"]), job.checkpoint_signal
        return JobNotice(config, job.id, event_id, event, asked is not None, signal)


def _is_wanted(event: EventDocument, asked: Checkpoint | None) -> bool:
    data = event["data"]
    return bool(data.get("change") == "resumable" if asked is None else data.get("checkpoint_id") == asked.id)
