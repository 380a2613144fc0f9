"""Job mix: computes the losses of jobs of several sizes when nodes of their fleet fail.

Jobs restart from checkpoints.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.lab.fleet_log import Outage
from tests.lab.trace import HOUR

MINUTE = 60.0
GPUS = 8


@dataclass(frozen=True, slots=True)
class JobMix:
    """The jobs of a fleet: each job's share of the nodes, and how checkpoints and restarts work.

    `checkpoint` is the interval between checkpoints and `restart` the duration of a restart, both in seconds. Nodes
    that no job uses replace failed nodes. A job that has too few nodes waits; a larger job gets free nodes first.
    A job has at least one node, so a small fleet has no nodes for the smallest jobs. These jobs are left out.
    """

    shares: tuple[float, ...] = (0.5, 0.2, 0.1, 0.05, 0.05, 0.02, 0.02, 0.01)
    checkpoint: float = HOUR
    restart: float = 10 * MINUTE

    def sizes(self, nodes: int) -> list[int]:
        """Return the number of nodes of each job, the largest job first; together at most `nodes`."""
        found: list[int] = []
        for size in sorted((max(1, int(share * nodes)) for share in self.shares), reverse=True):
            if sum(found) + size <= nodes:
                found.append(size)
        return found


@dataclass(slots=True)
class _Job:
    """One job: the number of nodes that it needs, and the nodes that it has.

    `runs_since` is None while the job waits. `waits_since` is the time up to which the losses of a wait are counted.
    """

    size: int
    nodes: set[int] = field(default_factory=set)
    runs_since: float | None = 0.0
    waits_since: float = 0.0


class JobLosses:
    """Adds up the GPU-hours that the outages of a fleet cost its jobs, by cause."""

    def __init__(self, nodes: int, mix: JobMix) -> None:
        """Start every job at time 0, on the first nodes that are free."""
        self._mix = mix
        self._free = set(range(nodes))
        self._jobs = [_Job(size) for size in mix.sizes(nodes)]
        self._job_of: dict[int, _Job] = {}
        self._down_since: dict[int, float] = {}
        self.lost: dict[str, float] = defaultdict(float)
        self.counts: Counter[str] = Counter()
        for job in self._jobs:
            self._fill(job)

    def follow(self, outages: Iterable[Outage], end: float) -> None:
        """Add up the losses from outages; an outage that has not ended counts until the time `end`."""
        for outage in sorted(outages):
            self._up(outage) if outage.up else self._down(outage)
        for node, since in self._down_since.items():
            self._lose("node_down", 1, end - since)
            self._job_of.pop(node, None)
        for job in self._jobs:
            if job.runs_since is None:
                self._lose("waiting_for_nodes", len(job.nodes), end - job.waits_since)

    @property
    def job_nodes(self) -> int:
        """Return the number of nodes that all jobs together need."""
        return sum(job.size for job in self._jobs)

    def _down(self, outage: Outage) -> None:
        self._down_since[outage.node] = outage.at
        self._free.discard(outage.node)
        job = self._job_of.pop(outage.node, None)
        if job is None:
            return
        job.nodes.discard(outage.node)
        if job.runs_since is not None:
            self._interrupt(job, outage)
        else:
            self._lose("waiting_for_nodes", len(job.nodes) + 1, outage.at - job.waits_since)
            job.waits_since = outage.at
        self._start_if_complete(job, outage.at)

    def _interrupt(self, job: _Job, outage: Outage) -> None:
        """Interrupt a job: it loses the work since its last checkpoint and the time of the restart.

        The losses count for all nodes of the job. If the job was still restarting, the rest of this earlier restart is
        not lost, so it is subtracted.
        """
        ran = outage.at - (job.runs_since or 0.0)
        cause = "false_alarm" if outage.needless else "rollback"
        self._lose(cause, job.size, min(ran, ran % self._mix.checkpoint if ran > 0 else 0.0))
        self._lose("restart", job.size, self._mix.restart + min(0.0, ran))
        self.counts["interruptions"] += 1
        job.runs_since, job.waits_since = None, outage.at

    def _up(self, outage: Outage) -> None:
        since = self._down_since.pop(outage.node, None)
        if since is not None:
            self._lose("node_down", 1, outage.at - since)
        self._free.add(outage.node)
        for job in self._jobs:
            if job.runs_since is None:
                self._start_if_complete(job, outage.at)

    def _start_if_complete(self, job: _Job, at: float) -> None:
        had = len(job.nodes)
        self._fill(job)
        if job.runs_since is None and len(job.nodes) > had and len(job.nodes) < job.size:
            self._lose("waiting_for_nodes", had, at - job.waits_since)
            job.waits_since = at
        if job.runs_since is None and len(job.nodes) == job.size:
            self._lose("waiting_for_nodes", had, at - job.waits_since)
            job.runs_since = at + self._mix.restart

    def _fill(self, job: _Job) -> None:
        for node in sorted(self._free)[: job.size - len(job.nodes)] if len(job.nodes) < job.size else ():
            self._free.discard(node)
            job.nodes.add(node)
            self._job_of[node] = job

    def _lose(self, cause: str, nodes: int, seconds: float) -> None:
        self.lost[cause] += nodes * GPUS * max(0.0, seconds) / HOUR
