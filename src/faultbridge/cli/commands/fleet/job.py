"""`faultbridge job`: records the start, end and nodes of jobs, and shows which jobs may resume."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Annotated

from faultbridge.cli.commands.options import AnyClusterOption, ClusterOption, checked_reason
from faultbridge.cli.declare import Argument, BadParameter, Exit, Option, Text, command
from faultbridge.cli.errors import failure_of
from faultbridge.cli.render.output import Columns, Document, fields, notice
from faultbridge.cli.render.times import PAST_HELP, parse_age, parse_time, stated_time
from faultbridge.cli.stack.session import ChangingSession, StackSession
from faultbridge.model.cluster.jobs import OUTCOMES, SIGNALS, Job, checked_signal, gpu_of, ranks_in_order, ranks_of
from faultbridge.model.faults import Component
from faultbridge.model.names import expand_host_list
from faultbridge.repair.jobs import checkpoints
from faultbridge.repair.jobs.jobs import MAX_REASON
from faultbridge.repair.registry.gpus import gpus_of
from faultbridge.repair.registry.job_views import job_document
from faultbridge.serve.wiring.services import wire_job_progress, wire_jobs

RANKS: Columns = fields("RANK, NODE, LOCAL RANK, PCI, UUID, SERIAL")


def rank_rows(job: Job, devices: Mapping[str, Iterable[Component]]) -> Iterator[Document]:
    """Yield a row for each rank, with its node and the GPU whose index is the local rank, if it is known."""
    for node, text in sorted(job.ranks.items(), key=lambda each: ranks_of(each[1])[:1]):
        for local_rank, rank in enumerate(ranks_of(text)):
            gpu = gpu_of(devices.get(node, ()), local_rank)
            facts = {name: getattr(gpu, name, None) for name in ("pci", "uuid", "serial")}
            yield {"rank": rank, "node": node, "local_rank": local_rank, **facts}


def given_ranks(nodes: list[str], file: Path | None, per_node: int | None) -> dict[str, str]:
    """Return the ranks of each node, such as `0-7`, from `--ranks` or `--ranks-per-node`; empty without both."""
    from faultbridge.cli.commands.offline.explain import read_rank_map

    if file is not None and per_node is not None:
        raise BadParameter("give --ranks or --ranks-per-node, not both")
    if per_node is not None:
        return ranks_in_order(nodes, per_node)
    return read_rank_map(file) if file else {}


JobArgument = Annotated[str, Argument("JOB", "Job id of the scheduler.")]
AtOption = Annotated[Text, Option("--at TIME", f"Time of the event; default: now. {PAST_HELP}")]
NodesOption = Annotated[
    list[str], Option("--node NODE", "Node, or Slurm host list such as gpu-[001-004,007]. Repeatable.")
]
PerNodeOption = Annotated[
    int | None,
    Option("--ranks-per-node N", "Number of ranks on each node, numbered in the order of --node.", min=1, max=64),
]
NameOption = Annotated[Text, Option("TEXT", "Name of the job for people.")]
JOB: Columns = fields(
    "Job, Cluster, Nodes, Ranks, Started=started_at, Ended=ended_at, Outcome, Stalled since=stalled_at, "
    "Loss=loss_alarm, Attempt, Faulty nodes=affected_nodes:list, Resumable since=resumable_at, "
    "Checkpoint requested, Verdict, Cause"
) | {
    "Job": lambda one: one.job_id + (f" ({one.name})" if one.name else ""),
    "Nodes": lambda one: f"{len(one.nodes)}: {', '.join(one.nodes[:8])}",
    "Ranks": lambda one: ", ".join(f"{node}: {ranks}" for node, ranks in list(one.ranks.items())[:8]),
    "Attempt": lambda one: f"{one.attempt}, after {one.repeated_attempts} that ended alike without progress",
    "Checkpoint requested": lambda one: (
        one.checkpoint
        and (f"{one.checkpoint.id} by {stated_time(one.checkpoint.deadline)}: {one.checkpoint.requested_by}")
    ),
    "Verdict": lambda one: " ".join([one.verdict.outlook, *one.verdict.nodes]) if one.verdict else None,
    "Cause": lambda one: (one.verdict.mechanism or "unknown") if one.verdict else None,
}
JOBS: Columns = fields(
    "JOB=job_id, CLUSTER, STATE, NODES:len, RUN=attempt, FAULTY NODES=affected_nodes:list, "
    "STARTED=started_at:time, NAME"
)


@command("job start", "88213 --cluster train-a --node 'gpu-[001-004,007]'")
def start_job(
    session: ChangingSession,
    job: JobArgument,
    cluster: ClusterOption,
    node: NodesOption,
    name: NameOption = None,
    at: AtOption = None,
    ranks: Annotated[Path | None, Option("MAP", 'JSON file with the ranks of each node: {"gpu-1": [0, 1]}.')] = None,
    ranks_per_node: PerNodeOption = None,
    stall_after: Annotated[Text, Option("AGE", "How long a step may take; default: 30m.")] = None,
    checkpoint_signal: Annotated[
        Text, Option("SIGNAL", "Signal on which the job saves a checkpoint, such as USR1; default: none.")
    ] = None,
    again: Annotated[
        bool, Option(help="The scheduler started the job again: also record the end of its run on other nodes.")
    ] = False,
) -> None:
    """Record that a job started.

    If the job already runs on these nodes, the command only stores the given name, ranks or time limit.
    """
    nodes = _nodes(node)
    placed, started_at = given_ranks(nodes, ranks, ranks_per_node), parse_time(at, session.now(), "--at")
    now = session.now()
    since = parse_age(stall_after, now) if stall_after else None
    if stall_after and (since is None or now - since < timedelta(minutes=1)):
        raise BadParameter(f"invalid --stall-after: {stall_after!r}; allowed: an age of a minute or more, such as 30m")
    if checkpoint_signal:
        try:
            checkpoint_signal = checked_signal(checkpoint_signal)
        except ValueError:
            allowed = ", ".join(SIGNALS)
            raise BadParameter(f"unknown --checkpoint-signal: {checkpoint_signal!r}; allowed: {allowed}") from None
    started = wire_jobs(session.application).start(
        cluster,
        job,
        nodes,
        name=name,
        at=started_at,
        ranks=placed,
        stall_after=now - since if since else None,
        checkpoint_signal=checkpoint_signal or None,
        again=again,
    )
    session.show_one(job_document(started, session.now()), JOB)


@command("job end", "88213 --cluster train-a --outcome failed")
def end_job(
    session: ChangingSession,
    job: JobArgument,
    cluster: ClusterOption,
    outcome: Annotated[str, Option("OUTCOME", "succeeded, failed, cancelled or unreported.")] = "unreported",
    reason: Annotated[str, Option("TEXT", "Reason, a few words.")] = "",
    at: AtOption = None,
) -> None:
    """Record that a job ended. If the job has already ended, the command changes nothing."""
    if outcome not in OUTCOMES:
        raise BadParameter(f"unknown --outcome: {outcome!r}; allowed: {', '.join(OUTCOMES)}")
    checked_reason(reason, MAX_REASON)
    ended_at = parse_time(at, session.now(), "--at")
    ended = wire_jobs(session.application).end(cluster, job, outcome=outcome, reason=reason, at=ended_at)
    session.show_one(job_document(ended, session.now()), JOB)


@command("job heartbeat", "88213 --cluster train-a --step 1200 --loss 2.31")
def record_heartbeat(
    session: ChangingSession,
    job: JobArgument,
    cluster: ClusterOption,
    step: Annotated[int, Option("N", "Last step that the job completed.", min=0)],
    loss: Annotated[float | None, Option("X", "Loss of the step; nan and inf are allowed.")] = None,
) -> None:
    """Record the last step of a job. A job whose step does not advance within its time limit is stalled.

    A stalled job or an invalid loss, such as nan, starts no repair. The event `Job Change` reports both.
    """
    reported = wire_job_progress(session.application).heartbeat(cluster, job, step, loss)
    session.show_one(job_document(reported, session.now()), JOB)


@command("job checkpoint", "88213 --cluster train-a")
def answer_checkpoint(
    session: ChangingSession,
    job: JobArgument,
    cluster: ClusterOption,
    checkpoint_id: Annotated[Text, Option("--id ID", "Id of the request; default: the latest.")] = None,
) -> None:
    """Answer that a job saved the checkpoint that was requested. A repeated answer changes nothing.

    `job show`, the answer to `job heartbeat`, and the event `Job Checkpoint Requested` have the request.
    """
    saved = checkpoints.answer_checkpoint(wire_jobs(session.application), cluster, job, checkpoint_id)
    session.show_one(job_document(saved, session.now()), JOB)


@command("job run", "88213 --cluster train-a --node 'gpu-[1-4]' -- srun a.sh")
def run_job(
    session: ChangingSession,
    job: JobArgument,
    cluster: ClusterOption,
    node: NodesOption,
    command: Annotated[list[str], Argument("COMMAND", "Launcher of the job, after `--`.")],
    name: NameOption = None,
    ranks_per_node: PerNodeOption = None,
) -> None:
    """Run the launcher of a job, and record its start and its end. The exit code is the launcher's.

    The launcher runs even if nothing can be recorded. Use the command once for each job, not once for each node. If the
    launcher exits with 0, the job has succeeded; with another code, it has failed. If this command received a signal
    and the launcher then fails, the outcome is unreported.
    """
    nodes = _nodes(node)
    ranks = given_ranks(nodes, None, ranks_per_node)

    def start() -> None:
        wire_jobs(session.application).start(cluster, job, nodes, name=name, ranks=ranks, again=True)

    def end(outcome: str, reason: str) -> None:
        wire_jobs(session.application).end(cluster, job, outcome=outcome, reason=reason)

    raise Exit(run_recorded(command, start, end))


@command("job list", "", "--cluster train-a")
def list_jobs(session: StackSession, cluster: AnyClusterOption = None) -> None:
    """List the running jobs, and the ended jobs that Faultbridge still follows.

    Faultbridge follows an ended job while the job may become resumable, or while a callback for the job is not
    delivered.
    """
    clusters = session.cluster_names(cluster)
    followed = (job for name in clusters for job in session.jobs.all(name))
    session.show((job_document(job, session.now()) for job in followed), JOBS)


@command("job show", "88213 --cluster train-a")
def show_job(session: StackSession, job: JobArgument, cluster: ClusterOption) -> None:
    """Show a job, its nodes with faults, and whether it may resume.

    `faultbridge timeline --job` shows the history of the job.
    """
    session.show_one(job_document(session.jobs.job(cluster, job), session.now()), JOB)


@command("job ranks", "88213 --cluster train-a --rank 17")
def show_ranks(
    session: StackSession,
    job: JobArgument,
    cluster: ClusterOption,
    rank: Annotated[list[int] | None, Option("RANK", "Only this rank. Repeatable.")] = None,
    node: Annotated[Text, Option("NODE", "Only the ranks on this node.")] = None,
) -> None:
    """List the ranks of a job with their nodes and GPUs.

    Each local rank is assumed to use the GPU with the same index.
    """
    found = session.jobs.job(cluster, job)
    until = found.ended_at or session.now()
    devices = gpus_of(session.application.append, cluster, found.ranks, until)
    rows = (row for row in rank_rows(found, devices) if not rank or row["rank"] in rank)
    session.show((row for row in rows if node in {None, row["node"]}), RANKS)


def _nodes(given: list[str]) -> list[str]:
    nodes = [one for text in given for one in expand_host_list(text.replace(" ", "").strip(","))]
    if not nodes:
        raise BadParameter("no node in --node; give a node or a host list")
    return nodes


FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
SIGNAL_EXIT = 128
"""If a signal ends a program, the exit code is this value plus the number of the signal, as in a shell."""


def run_recorded(command: Sequence[str], start: Callable[[], object], end: Callable[[str, str], object]) -> int:
    """Record a job, run its command, and return its exit code; a failed record is only printed."""
    _recorded("the start of the job", start)
    try:
        code, received = _run(command)
    except OSError as error:
        reason = f"{command[0]}: {error.strerror or error}"
        _recorded("the end of the job", lambda: end("failed", reason))
        raise
    outcome = "unreported" if received and code else "succeeded" if code == 0 else "failed"
    reason = f"exit code {code}" + (f" after {signal.Signals(received[-1]).name}" if received else "")
    _recorded("the end of the job", lambda: end(outcome, reason))
    return code


def _recorded(what: str, record: Callable[[], object]) -> None:
    try:
        record()
    except Exception as error:  # noqa: BLE001 - recording a job must never stop it
        notice(f"{what} was not recorded: {failure_of(error).message}")


def _run(command: Sequence[str]) -> tuple[int, list[int]]:
    received: list[int] = []
    started: list[subprocess.Popen[bytes]] = []
    with _forwarding(started, received):
        process = subprocess.Popen(command)  # noqa: S603 - the user's own command, without a shell
        started.append(process)
        for number in received:
            process.send_signal(number)
        code = process.wait()
    return (code if code >= 0 else SIGNAL_EXIT - code), received


@contextmanager
def _forwarding(started: Sequence[subprocess.Popen[bytes]], received: list[int]) -> Iterator[None]:
    """Forward signals to the started process, and store them; they do not end this program."""

    def forward(number: int, _: FrameType | None) -> None:
        received.append(number)
        for process in started:
            process.send_signal(number)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
