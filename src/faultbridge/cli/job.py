"""`faultbridge job`: when a job starts and ends, and where it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from faultbridge.cli.output import Columns, Document
from faultbridge.cli.session import Session, on_stack
from faultbridge.cli.times import HELP, instant, text_of
from faultbridge.domain.host_lists import expand

if TYPE_CHECKING:
    from faultbridge.domain.jobs import Job
    from faultbridge.jobs.jobs import Jobs

app = typer.Typer(rich_markup_mode=None)

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The scheduler's id of the job.")]
Cluster = Annotated[str, typer.Option("--cluster", help="The cluster that it runs on.")]
At = Annotated[str | None, typer.Option("--at", help=f"When, if not now. {HELP}")]
JOB: Columns = {
    "Job": lambda one: one["job_id"] + (f" ({one['name']})" if one["name"] else ""),
    "Cluster": lambda one: one["cluster"],
    "Nodes": lambda one: f"{len(one['nodes'])}: {', '.join(one['nodes'][:8])}",
    "Started": lambda one: one["started_at"],
    "Ended": lambda one: one["ended_at"],
    "Outcome": lambda one: one["outcome"],
}


@app.command("start", epilog="Example: faultbridge job start 88213 --cluster train-a --node gpu-[001-004,007]")
@on_stack
def start_job(
    session: Session,
    job: JobId,
    cluster: Cluster,
    node: Annotated[
        list[str],
        typer.Option("--node", help="A node that it runs on, or a host list as Slurm writes it: gpu-[001-004,007]."),
    ],
    name: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    at: At = None,
) -> None:
    """Note that a job starts; noting it again changes nothing."""
    nodes = [one for given in node for one in expand(given.replace(" ", "").strip(","))]
    if not nodes:
        raise typer.BadParameter("--node names no node")
    started = _jobs(session).start(cluster, job, nodes, name=name, at=instant(at, session.now()))
    session.show_one(_document(started), JOB)


@app.command("end", epilog="Example: faultbridge job end 88213 --cluster train-a --outcome failed --reason 'exit 1'")
@on_stack
def end_job(
    session: Session,
    job: JobId,
    cluster: Cluster,
    outcome: Annotated[str, typer.Option(help="succeeded, failed, cancelled or unreported.")] = "unreported",
    reason: Annotated[str, typer.Option(help="Why, in a few words.")] = "",
    at: At = None,
) -> None:
    """Note that a job ended; noting it again changes nothing."""
    from faultbridge.jobs.jobs import OUTCOMES

    if outcome not in OUTCOMES:
        raise typer.BadParameter(f"--outcome {outcome!r} is none of {', '.join(OUTCOMES)}")
    ended = _jobs(session).end(cluster, job, outcome=outcome, reason=reason, at=instant(at, session.now()))
    session.show_one(_document(ended), JOB)


def _jobs(session: Session) -> Jobs:
    from faultbridge.jobs.jobs import Jobs

    return Jobs(session.ports.table, session.ports.clock, session.application.stack)


def _document(job: Job) -> Document:
    return {
        "cluster": job.cluster,
        "job_id": job.id,
        "name": job.name,
        "nodes": list(job.nodes),
        "started_at": text_of(job.started_at),
        "ended_at": text_of(job.ended_at),
        "outcome": job.outcome,
    }
