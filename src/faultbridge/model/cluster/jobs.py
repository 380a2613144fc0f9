"""Jobs: training jobs on a cluster, and the nodes on which they run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from msgspec import Struct, field

from faultbridge.model.enums import JobOutcome, Outlook
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component
from faultbridge.model.stored import Stored
from faultbridge.model.values import replace

STALL_AFTER = timedelta(minutes=30)
"""A job whose heartbeats stop advancing is stalled after this time, unless its start report states another time."""

MAX_LOSSES, MIN_LOSSES = 32, 16
SPIKE = 2.0
"""A loss is a spike if it is more than this many times the median of the last ones, of at least 16."""

NOT_FINITE, LOSS_SPIKE = "not_finite", "spike"


class Progress(Struct, frozen=True):
    """The training progress that the heartbeats of one run of a job reported.

    `run` is the start time of the run. `losses` holds only finite numbers. `step_ms` is how long each rank worked on
    its last step, in the order of ranks.
    """

    run: datetime
    step: int
    advanced_at: datetime
    seen_at: datetime
    losses: tuple[float, ...] = ()
    version: int = 0
    step_ms: tuple[int, ...] = ()
    rollback: tuple[int, int] | None = None
    """The lowest and the highest step reported below `step` since it was reached."""

    @property
    def last_step(self) -> int:
        """Return the latest step that the job has reached.

        While the job repeats steps after a restart from an earlier step, the result is the highest repeated step.
        """
        return self.rollback[1] if self.rollback else self.step

    def reported(self, step: int, now: datetime) -> tuple[Progress, bool]:
        """Return the progress after a heartbeat, and whether the training step advanced.

        A job that continues from an earlier step (a rollback) repeats steps.

        - A step above the highest step of the run is an advance, and ends a rollback.
        - Outside a rollback, a step below the highest step of the run starts a rollback. It is no advance.
        - During a rollback, a step below the lowest step of the rollback starts a new rollback. It is no advance.
        - During a rollback, a step above the highest step of the rollback, but below the highest step of the run, is
          an advance.
        - Any other step was reported before, or lies between such steps. It is no advance, because processes that hang
          at different steps report the same steps again and again.
        """
        seen = replace(self, seen_at=now)
        if step > self.step:
            return replace(seen, step=step, advanced_at=now, rollback=None), True
        low, high = self.rollback or (self.step, self.step)
        if step < low:
            return replace(seen, rollback=(step, step)), False
        if high < step < self.step:
            return replace(seen, rollback=(low, step), advanced_at=now), True
        return seen, False

    def is_old(self, now: datetime, stall_after: timedelta) -> bool:
        """Return whether the last stored heartbeat is at least a quarter of `stall_after` old.

        Before that time, a heartbeat without an advance of the step need not be stored.
        """
        return now - self.seen_at >= stall_after / 4

    def is_stalled(self, now: datetime, stall_after: timedelta) -> bool:
        """Return whether the step has not advanced for the whole stall limit `stall_after`."""
        return now >= self.advanced_at + stall_after


def loss_alarm(before: tuple[float, ...], loss: float, alarm: str | None = None) -> str | None:
    """Return the alarm for a training loss: `not_finite`, `spike`, or None for an ordinary loss.

    `before` holds the earlier losses. `alarm` is the current alarm, or None.

    - A loss that is infinite or no number is `not_finite`.
    - Without a current alarm, a loss is a `spike` if it is above all earlier losses and above twice the absolute value
      of their median.
    - During an alarm, a loss is a `spike` if it is above twice the absolute value of the median.
    - There is no `spike` with fewer than `MIN_LOSSES` earlier losses.
    """
    if not math.isfinite(loss):
        return NOT_FINITE
    from statistics import median  # a slow import, which only jobs need

    is_high = len(before) >= MIN_LOSSES and loss > SPIKE * abs(median(before))
    return LOSS_SPIKE if is_high and (alarm is not None or loss > max(before)) else None


SUCCEEDED = JobOutcome.SUCCEEDED.value
OUTCOMES = tuple(one.value for one in JobOutcome)
RESUMABLE_OUTCOMES = frozenset({JobOutcome.FAILED.value, JobOutcome.UNREPORTED.value})
LATE_FAULTS = timedelta(minutes=5)
"""A fault that begins up to this long after a job ended may have ended it: reports of faults arrive late."""

RESUME_WITHIN = timedelta(days=7)
"""An ended job whose nodes do not return within this time is not followed any longer."""


STOP = Outlook.STOP.value
"""The verdict that a restart would fail in the same way."""


class JobVerdict(Stored, frozen=True):
    """The recorded verdict on a job: whether it may restart, why, and without which nodes.

    `outlook` is `RESTART`, `RESTART_WITHOUT` or `STOP`. `nodes` are the nodes that a restart must not use. `mechanism`
    is the way in which the job failed, or None if it is unknown. `hardware` states whether a fault of a node ended the
    job: `blamed`, `acquitted` (no fault did) or `undetermined`. `error` identifies the first error of the job, without
    its numbers, where the mechanism is unknown.
    """

    outlook: str
    nodes: tuple[str, ...]
    mechanism: str | None
    hardware: str
    error: str | None = None


SIGNALS = ("USR1", "USR2", "TERM", "INT", "HUP", "URG", "CONT")
"""The signals that a job may name. Others, such as STOP and KILL, never reach a handler."""


def checked_signal(name: object) -> str:
    """Return the name of a signal without `SIG`; raises ValueError for a signal that no job may name."""
    found = str(name).upper().removeprefix("SIG")
    if found not in SIGNALS:
        raise ValueError
    return found


CHECKPOINT_INTERVAL = timedelta(minutes=10)
"""A job is asked once in this time, and has it to answer, unless a provider's deadline is earlier."""


class Checkpoint(Stored, frozen=True):
    """A request to a run of a job to save a checkpoint; `requested_by` names the node and the fault."""

    id: str
    requested_by: str
    requested_at: datetime
    deadline: datetime
    answered_at: datetime | None = None

    def covers(self, since: datetime) -> bool:
        """Return whether no request is needed for a suspicion, because of this request or of its answer."""
        return self.requested_at >= since or self.is_answered(since)

    def is_answered(self, since: datetime) -> bool:
        """Return whether the job saved a checkpoint after a suspicion began, or shortly before."""
        return self.answered_at is not None and since <= self.answered_at + CHECKPOINT_INTERVAL


WORKED = timedelta(hours=1)


class Attempts(Stored, frozen=True):
    """The runs of a job up to the present one.

    `number` counts them all. `repeated` counts the last ended runs that ended for the same reason `root`, without a
    step above `step`, the highest one that a run before them had reached, if heartbeats reported it.
    """

    number: int = 1
    repeated: int = 0
    root: str | None = None
    step: int | None = None

    def after(self, root: str | None, step: int | None, ran: timedelta) -> Attempts:
        """Return the attempts once a run has ended for a reason at a step; None is a reason that does not repeat.

        `ran` is how long the run lasted: without heartbeats, which report steps, an hour of work counts as progress.
        """
        best = max((one for one in (self.step, step) if one is not None), default=None)
        has_advanced = ran >= WORKED if step is None else self.step is None or step > self.step
        is_same = root is not None and root == self.root and not has_advanced
        repeated = self.repeated + 1 if is_same else 1 if root is not None else 0
        return Attempts(number=self.number + 1, repeated=repeated, root=root, step=best)


class Job(Stored, frozen=True):
    """A training job as its scheduler reported it; `ended_at` and `outcome` are None while it runs.

    - `hits` identifies the latest faults of the job's nodes that were already published for the job.
    - `affected` maps each node of the job that had a fault of severity `error` or `fatal` to the id of its instance at
      the first such fault.
    - `verdict` is the latest recorded verdict.
    - `callbacks` names the callbacks that have not been delivered since the job became resumable.
    - `to_mark` lists the nodes whose stored job list must still be updated.
    - `ranks` maps nodes to their global ranks, such as `0-7`, if they are known.
    - `stalled_at` is when a running job was recorded as stalled: its step had not advanced for `stall_after`.
    - `alarm` is the problem with the latest loss: `not_finite`, `spike`, or None.
    - `attempts` counts the runs of the job.
    - `checkpoint` is the latest request of this run to save a checkpoint. `checkpoint_signal` is the signal that asks
      the job too, such as `USR1`; without it, the job is never signaled.
    """

    cluster: str
    id: str
    nodes: tuple[str, ...]
    started_at: datetime
    name: str | None = None
    ended_at: datetime | None = None
    outcome: str | None = None
    version: int = 0
    hits: tuple[str, ...] = ()
    affected: Mapping[str, str | None] = field(default_factory=dict)
    resumable_at: datetime | None = None
    verdict: JobVerdict | None = None
    callbacks: tuple[str, ...] = ()
    to_mark: tuple[str, ...] = ()
    ranks: Mapping[str, str] = field(default_factory=dict)
    stall_after: timedelta = STALL_AFTER
    stalled_at: datetime | None = None
    alarm: str | None = None
    checkpoint: Checkpoint | None = None
    checkpoint_signal: str | None = None
    attempts: Attempts = Attempts()

    @property
    def ran(self) -> timedelta:
        """Return how long the run lasted; zero while it runs."""
        return self.ended_at - self.started_at if self.ended_at else timedelta()

    @property
    def root(self) -> str | None:
        """Return why the run ended: by its verdict, its faults, or no known reason; None if it succeeded."""
        if self.verdict is not None and (self.verdict.mechanism or self.verdict.error):
            return self.verdict.mechanism or self.verdict.error
        if self.outcome not in RESUMABLE_OUTCOMES:
            return None
        return " ".join(sorted({key.split(" ")[1].partition("@")[0] for key in self.hits})) or "unknown"

    @property
    def requested_checkpoint(self) -> Checkpoint | None:
        """Return the request for a checkpoint that the running job has not answered, or None."""
        asked = self.checkpoint if self.runs else None
        return asked if asked is not None and asked.answered_at is None else None

    @property
    def runs(self) -> bool:
        """Return whether the job has not ended."""
        return self.ended_at is None

    @property
    def may_resume(self) -> bool:
        """Return whether the job may still be reported as resumable.

        The result is True if the job ended with the outcome `failed` or `unreported`, and was not reported as resumable
        before. A job that succeeded, or that a user ended, cannot resume.
        """
        return self.ended_at is not None and self.resumable_at is None and self.outcome in RESUMABLE_OUTCOMES

    def state_at(self, now: datetime) -> str:
        """Return `running`, `stalled`, `ended`, `waiting` or `resumable`.

        An ended job is `waiting` for seven days if it has affected nodes and may still be reported as resumable
        (`may_resume`), unless its verdict is STOP.
        """
        if self.ended_at is None:
            return "stalled" if self.stalled_at is not None else "running"
        if self.resumable_at is not None:
            return "resumable"
        waits = self.may_resume and self.affected and not self.must_stop and now < self.ended_at + RESUME_WITHIN
        return "waiting" if waits else "ended"

    @property
    def must_stop(self) -> bool:
        """Return whether the recorded verdict is that a restart would fail in the same way."""
        return self.verdict is not None and self.verdict.outlook == STOP

    def takes_hit(self, since: datetime, *, ordered: bool = False) -> bool:
        """Return whether a fault that started at `since` can have affected the job.

        If `ordered` is True, the fault is an operator's order for a node.

        - A job that runs can be affected by any fault or order.
        - A job that may still resume can be affected by a fault that started at most `LATE_FAULTS` after the job ended,
          because monitoring can report a fault late. An order must not have started after the end of the job.
        - No other job can be affected.
        """
        late = timedelta() if ordered else LATE_FAULTS
        return self.runs or (self.may_resume and self.ended_at is not None and since <= self.ended_at + late)


MAX_RANKS = 100_000


def ranks_in_order(nodes: Sequence[str], per_node: int) -> dict[str, str]:
    """Return the ranks of each node as text, such as `0-7`: `per_node` consecutive ranks, in node order."""
    return {node: rank_text(range(number * per_node, (number + 1) * per_node)) for number, node in enumerate(nodes)}


def rank_text(ranks: Iterable[int]) -> str:
    """Return ranks as short text, sorted and without duplicates, such as `0,2-3`."""
    parts: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if parts and parts[-1][-1] == rank - 1:
            parts[-1][1:] = [rank]
        else:
            parts.append([rank])
    return ",".join("-".join(map(str, part)) for part in parts)


def ranks_of(text: str) -> tuple[int, ...]:
    """Return the global ranks in a text such as `0,2-3`, in the order of the text.

    The position of a rank in the result is its local rank on the node. A range with more than `MAX_RANKS` ranks is cut
    to `MAX_RANKS + 1`.
    """
    return tuple(_ranks_of(text))


def node_of_rank(ranks: Mapping[str, str]) -> dict[int, str]:
    """Return a map from each global rank to the node on which it runs."""
    return {rank: node for node, text in ranks.items() for rank in ranks_of(text)}


def ranks_on_gpus(text: str, gpus: Iterable[int]) -> tuple[int, ...]:
    """Return the ranks of GPUs by their numbers; launchers give the ranks of a node (`text`) to its GPUs in order."""
    ranks = ranks_of(text)
    return tuple(ranks[number] for number in gpus if number < len(ranks))


def _ranks_of(text: str) -> Iterator[int]:
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from islice(range(int(first), int(last or first) + 1), MAX_RANKS + 1)


def gpu_of(devices: Iterable[Component], index: int) -> Component | None:
    """Return the GPU with this `index` among the devices of a node, or None if there is none.

    If each rank of the job uses one GPU, in PCI bus order, `index` is also the local rank that uses the GPU.
    """
    return next((one for one in devices if one.type is ComponentType.GPU and one.index == index), None)


def gpu_like(devices: Iterable[Component], wanted: Component) -> Component | None:
    """Return the GPU with the UUID of `wanted`, else the GPU with the PCI address of `wanted`, else None."""
    gpus = [one for one in devices if one.type is ComponentType.GPU]
    by_uuid = (one for one in gpus if wanted.uuid is not None and one.uuid == wanted.uuid)
    by_pci = (one for one in gpus if wanted.pci is not None and one.pci == wanted.pci)
    return next(by_uuid, None) or next(by_pci, None)
