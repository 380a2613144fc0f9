"""Job nodes: stores the ids of running jobs in the states of their nodes.

Therefore, an event of a node can name the jobs on the node without a read of the jobs. The nodes of a job are updated
after the job's start or end is recorded. The sweep completes an interrupted update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from faultbridge.dataclass import dataclass
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cluster.jobs import MAX_JOBS_OF_NODE, Job
from faultbridge.domain.edges import Actor
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.domain.times import truncate
from faultbridge.errors import Conflict
from faultbridge.jobs.job_writer import JobWriter
from faultbridge.ledger.append import MAX_TRIES, Append
from faultbridge.log import log_cause
from faultbridge.storage import jobs
from faultbridge.storage.writes import Check, Equals, Write

NODES_PER_TRANSACTION = 24


@dataclass(frozen=True, slots=True)
class MarkNodes:
    """Stores the id of a running job in the states of its nodes, and removes the id after the job's end."""

    append: Append
    writer: JobWriter

    def __call__(self, cluster: str, job_id: str) -> Job | None:
        """Update those nodes of a job that are not updated yet, and return the job as stored afterwards.

        Returns None for an unknown job. After 20 conflicts with other writers, the next sweep continues.
        """
        marked, version, job = set[str](), None, self.writer.find(cluster, job_id)
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
                job = self.writer.find(cluster, job_id)
        return job

    def _mark(self, job: Job, marked: set[str]) -> Job:
        left = [node for node in job.to_mark if node not in marked]
        for first in range(0, len(left), NODES_PER_TRANSACTION):
            group = left[first : first + NODES_PER_TRANSACTION]
            self._mark_group(job, group)
            marked.update(group)
        return self.writer.store(job, replace(job, to_mark=()))

    def _mark_group(self, job: Job, nodes: Sequence[str]) -> None:
        now = truncate(self.append.clock.now())
        writes: list[Write] = []
        for before in self.append.read_many(NodeKey(job.cluster, node) for node in nodes):
            after = replace(before, jobs=jobs_after(before, job))
            if before.registered and after != before:
                transition = Transition(after, ())
                _, added = self.append.prepare(before, transition, actor=Actor.CLI, now=now)
                writes += added
        if writes:
            unchanged = Check(jobs.job_key(job.cluster, job.id), Equals("version", job.version))
            self.append.commit([unchanged, *writes])


def jobs_after(state: NodeState, job: Job) -> tuple[str, ...]:
    """Return the ids of a node's jobs after `job` started or ended.

    A node has at most 16 ids. The id of a further job is not added.
    """
    if not job.runs or state.key.node not in job.nodes:
        return tuple(one for one in state.jobs if one != job.id)
    return state.jobs if job.id in state.jobs else (*state.jobs, job.id)[:MAX_JOBS_OF_NODE]
