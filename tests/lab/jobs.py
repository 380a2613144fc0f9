"""Jobs: the work of a fleet, node by node, and the GPU-hours that it loses, by cause.

Jobs restart from checkpoints, and have lengths: when a job ends, the next one takes its place on nodes that take work.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from random import Random

from tests.lab.trace import DAY, HOUR

MINUTE = 60.0
GPUS = 8
CAUSES = ("node_down", "rollback", "saves", "false_alarm", "restart", "waiting_for_nodes")
"""Why GPU-hours are lost; all but `node_down` are losses of jobs."""


@dataclass(frozen=True, slots=True)
class JobMix:
    """The jobs of a fleet: each job's share of the nodes, its length, and how checkpoints and restarts work.

    All times are in seconds. Lengths are exponential, with the mean `long` for a job of at least a tenth of the nodes
    and `short` for smaller ones. A job saves each `checkpoint`, at no cost, because all systems pay the same for it.
    A save that was requested stops the job for `save`; a job saves on request at most once in `between`. Nodes without
    a job replace failed nodes. A job that has too few nodes waits; a larger job gets free nodes first. A job has at
    least one node, so a small fleet has no nodes for the smallest jobs. These jobs are left out.
    """

    shares: tuple[float, ...] = (0.5, 0.2, 0.1, 0.05, 0.05, 0.02, 0.02, 0.01)
    long: float = 14 * DAY
    short: float = 2 * DAY
    checkpoint: float = HOUR
    restart: float = 10 * MINUTE
    save: float = 30.0
    between: float = 10 * MINUTE

    def sizes(self, nodes: int) -> list[int]:
        """Return the number of nodes of each job, the largest job first; together at most `nodes`."""
        found: list[int] = []
        for size in sorted((max(1, int(share * nodes)) for share in self.shares), reverse=True):
            if sum(found) + size <= nodes:
                found.append(size)
        return found


@dataclass(slots=True, eq=False)
class _Job:
    """The current job of a place: the nodes that it needs and has, and the work that is left when it starts.

    It prefers the nodes in `home`, and saves at times that depend only on its place, so that systems can be compared
    run by run. `runs_since` is None while the job waits; a restart is a start in the future. `saved` is the time of the
    last save on request, `asked` that of the last request. `waits_since` is the time up to which a wait is counted.
    """

    size: int
    home: range
    lengths: Random
    mean: float
    left: float = 0.0
    nodes: set[int] = field(default_factory=set)
    runs_since: float | None = None
    saved: float = -math.inf
    asked: float = -math.inf
    waits_since: float = 0.0
    number: int = 0


class Jobs:
    """The jobs of one run. Calls must be in the order of their times."""

    def __init__(self, nodes: int, mix: JobMix, seed: int) -> None:
        """Start every job at time 0, on the first nodes that are free."""
        self._mix, self._nodes = mix, nodes
        self._free, self._closed = set(range(nodes)), set[int]()
        self._blocked: dict[int, float] = {}
        self._job_of: dict[int, _Job] = {}
        self._ends: list[tuple[float, int, int]] = []
        self.lost: dict[str, float] = defaultdict(float)
        self.counts: Counter[str] = Counter()
        self.waited: dict[str, float] = defaultdict(float)
        self.idled = 0
        self._jobs: list[_Job] = []
        for place, size in enumerate(mix.sizes(nodes)):
            mean, first = mix.long if size * 10 >= nodes else mix.short, self.job_nodes
            self._jobs.append(_Job(size, range(first, first + size), Random(f"jobs-{seed}-{place}"), mean))
        for job in self._jobs:
            job.left = job.lengths.expovariate(1 / job.mean)
            self._start_if_complete(job, 0.0, restarts=False)

    @property
    def job_nodes(self) -> int:
        """Return the number of nodes that all jobs together need."""
        return sum(job.size for job in self._jobs)

    def runs_on(self, node: int) -> bool:
        """Return whether a job has the node."""
        return node in self._job_of

    # ------------------------------------------------------------------ what happens to nodes

    def close(self, node: int, at: float) -> None:
        """Keep new work off a node, which a job that has the node may continue to use."""
        self._closed.add(node)
        self._free.discard(node)
        if node not in self._job_of:
            self._blocked.setdefault(node, at)

    def open(self, node: int, at: float) -> None:
        """Let a node take new work again."""
        self._closed.discard(node)
        self._unblock(node, at)
        if node in self._job_of or node in self._free:
            return
        self._free.add(node)
        for job in self._jobs:
            if job.runs_since is None:
                self._start_if_complete(job, at)

    def fail(self, node: int, at: float) -> None:
        """Let a node fail: its job loses the work since its last save."""
        self.close(node, at)
        self._take(node, at, "rollback")

    def evict(self, node: int, at: float, *, faulty: bool) -> None:
        """Take a node from its job, if it has one; `faulty` states whether the node's host has a fault."""
        if self._take(node, at, "rollback" if faulty else "false_alarm"):
            self.counts["evictions"] += 1
            self.counts["needless_evictions"] += not faulty

    def request_save(self, node: int, at: float) -> float | None:
        """Ask the job of a node for a checkpoint; returns when it will have answered, or None if it does not run.

        A job that was asked shortly before answers for its former save.
        """
        job = self._job_of.get(node)
        if job is None or job.runs_since is None or job.runs_since > at:
            return None
        if at >= job.asked + self._mix.between:
            job.asked, job.saved = at, at + self._mix.save
            job.left += self._mix.save
            self._lose("saves", job.size, self._mix.save)
            self._push_end(job)
        return max(at, job.saved)

    # ------------------------------------------------------------------ time

    def next_end(self) -> float:
        """Return when the next job ends."""
        while self._ends and self._jobs[self._ends[0][1]].number != self._ends[0][2]:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else math.inf

    def end_next(self) -> None:
        """End the next job, and start the job that takes its place; `idled` rises if a closed node has no job now."""
        at = self.next_end()
        job = self._jobs[heapq.heappop(self._ends)[1]]
        for node in job.nodes:
            del self._job_of[node]
        closed = job.nodes & self._closed
        self._free |= job.nodes - closed
        self._blocked.update(dict.fromkeys(closed, at))
        self.idled += bool(closed)
        job.nodes = set()
        job.runs_since, job.waits_since, job.saved, job.asked = None, at, -math.inf, -math.inf
        job.left = job.lengths.expovariate(1 / job.mean)
        self._start_if_complete(job, at, restarts=False)
        for other in self._jobs:
            if other.runs_since is None:
                self._start_if_complete(other, at)

    def finish(self, at: float) -> None:
        """Count what nodes and waiting jobs have lost until the time `at`, the end of the run."""
        for node in list(self._blocked):
            self._unblock(node, at)
        for job in self._jobs:
            if job.runs_since is None:
                self._lose("waiting_for_nodes", len(job.nodes), at - job.waits_since)

    # ------------------------------------------------------------------ jobs

    def _take(self, node: int, at: float, cause: str) -> bool:
        """Take a node from its job, which stops; returns whether the node had a job."""
        job = self._job_of.pop(node, None)
        if job is None:
            return False
        if job.runs_since is not None:
            self._interrupt(job, at, cause)
        else:
            self._lose("waiting_for_nodes", len(job.nodes), at - job.waits_since)
            job.waits_since = at
        leaving = {node} | (job.nodes & self._closed)  # a job starts on no closed node
        job.nodes -= leaving
        for one in leaving:
            self._job_of.pop(one, None)
            if one in self._closed:
                self._blocked.setdefault(one, at)
            else:
                self._free.add(one)
        self.idled += 1
        self._start_if_complete(job, at)
        return True

    def _interrupt(self, job: _Job, at: float, cause: str) -> None:
        """Stop a job: it loses the work since its last save and the time of the restart.

        The losses count for all nodes of the job. If the job was still restarting, the rest of this earlier restart is
        not lost, so it is subtracted.
        """
        begun = job.runs_since if job.runs_since is not None else at
        saved = max(begun, at - (at - job.home.start) % self._mix.checkpoint)
        if job.saved > at:  # the save has not ended
            self._lose("saves", job.size, at - job.saved)
            job.left -= job.saved - at
        elif job.saved > saved:
            saved = job.saved
        self._lose(cause, job.size, max(0.0, at - saved))
        self._lose("restart", job.size, self._mix.restart + min(0.0, at - begun))
        self.counts["interruptions"] += 1
        job.left -= max(0.0, saved - begun)
        job.number += 1
        job.runs_since, job.waits_since, job.saved = None, at, -math.inf

    def _start_if_complete(self, job: _Job, at: float, *, restarts: bool = True) -> None:
        had = len(job.nodes)
        self._fill(job)
        if len(job.nodes) == job.size or len(job.nodes) > had:
            self._lose("waiting_for_nodes", had, at - job.waits_since)
            job.waits_since = at
        if len(job.nodes) == job.size:
            job.runs_since = at + (self._mix.restart if restarts else 0.0)
            self._push_end(job)

    def _push_end(self, job: _Job) -> None:
        job.number += 1
        heapq.heappush(self._ends, ((job.runs_since or 0.0) + max(0.0, job.left), self._jobs.index(job), job.number))

    def _fill(self, job: _Job) -> None:
        wanted = job.size - len(job.nodes)
        for node in heapq.nsmallest(wanted, self._free, lambda one: (one not in job.home, one)) if wanted else ():
            self._free.discard(node)
            job.nodes.add(node)
            self._job_of[node] = job

    def _unblock(self, node: int, at: float) -> None:
        since = self._blocked.pop(node, None)
        if since is not None:
            self._lose("node_down", 1, at - since)

    def _lose(self, cause: str, nodes: int, seconds: float) -> None:
        self.lost[cause] += nodes * GPUS * seconds / HOUR
