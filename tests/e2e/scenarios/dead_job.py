"""A job of 4 nodes and 32 ranks that a lost GPU ends at hour 47, and a later one that its program ends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from faultbridge.local.stack.deployment import JOB_TOPIC
from faultbridge.model.cluster.jobs import LATE_FAULTS
from faultbridge.serve.ingest.send import RawInput
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.queues import PageQueue
from tests.e2e.harness.records import GPU_LOST, healthy_smi
from tests.e2e.scenarios.batch import clock_ahead
from tests.e2e.scenarios.repairs import send_fault
from tests.job_inbox import SECRET, Inbox
from tests.waiting import eventually

NODES, GPUS = 4, 8
HOUR = 47
RANKS = ("--ranks-per-node", str(GPUS))
LOST_BY_GPU = "88213"
DIED_OF_PYTHON = "88214"
AFTER_LATE_FAULTS = LATE_FAULTS + timedelta(minutes=1)


@dataclass(frozen=True)
class DeadJobs:
    """Both jobs: the verdicts as `explain` prints them, the posts that arrived, and the jobs as `job show` prints them.

    `callbacks` are the event ids in the order of the posts, `resumable` the body of each event; `published` are the
    messages of the topic for jobs.
    """

    cluster: str
    node: str
    old_instance: str
    by_gpu: dict[str, Any]
    by_python: dict[str, Any]
    callbacks: list[str]
    resumable: list[dict[str, Any]]
    published: list[Mapping[str, Any]]
    jobs: dict[str, Any]
    timeline: list[dict[str, Any]]


@pytest.fixture(scope="session")
def dead_jobs(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> DeadJobs:
    """Run a job until a GPU of its third node is lost, repair the node, and let a second job die of a Python error."""
    cluster, node = installation.register_cluster(NODES, fleet=NODES), "node-002"
    old_instance = installation.instance_of(cluster, node)
    folder = tmp_path_factory.mktemp("jobs")
    topic = installation.stack.client("sns").create_topic(Name=JOB_TOPIC)["TopicArn"]
    messages = PageQueue(installation.stack, "jobs", topic=topic)
    with Inbox(lambda: datetime.now(UTC) + AFTER_LATE_FAULTS) as inbox:
        _configure(installation, cluster, inbox.url)
        _start(installation, cluster, LOST_BY_GPU, ago=timedelta(hours=HOUR))
        _lose_gpu(installation, cluster, node)
        eventually(lambda: _show(installation, cluster, LOST_BY_GPU)["affected_nodes"] == [node], 60)
        _end(installation, cluster, LOST_BY_GPU)
        installation.wait_until_idle(cluster, 120)
        log = _write(folder / "gpu.err", _hang(datetime.now(UTC)))
        by_gpu = installation.cli_json("explain", str(log), "--job", LOST_BY_GPU, "--cluster", cluster, "--record")
        with clock_ahead(installation, AFTER_LATE_FAULTS / timedelta(days=1), "sweep"):
            installation.run_sweep()
            eventually(lambda: inbox.received, 60)
            installation.run_sweep()
            installation.run_sweep()
        _report(installation, cluster, DIED_OF_PYTHON, "running", change="start", nodes=_nodes(), ranks_per_node=GPUS)
        installation.run_sweep()
        eventually(lambda: _nodes_of(installation, cluster, DIED_OF_PYTHON) == NODES, 60)
        _report(installation, cluster, DIED_OF_PYTHON, "ended", change="end", outcome="failed", reason="exit code 1")
        log = _write(folder / "python.err", _traceback(datetime.now(UTC)))
        by_python = installation.cli_json(
            "explain", str(log), "--job", DIED_OF_PYTHON, "--cluster", cluster, "--record"
        )
        with clock_ahead(installation, AFTER_LATE_FAULTS / timedelta(days=1), "sweep"):
            installation.run_sweep()
    installation.wait_until_idle(cluster)
    jobs = {job: _show(installation, cluster, job) for job in (LOST_BY_GPU, DIED_OF_PYTHON)}
    timeline = installation.cli_json("timeline", "--cluster", cluster, "--job", LOST_BY_GPU)
    events = [json.loads(body) for body in inbox.events.values()]
    published = list(messages.drain())
    return DeadJobs(cluster, node, old_instance, by_gpu, by_python, inbox.received, events, published, jobs, timeline)


def _configure(installation: Installation, cluster: str, url: str) -> None:
    """Configure the webhook of the cluster as an operator does: the secret, then the callback."""
    document = json.dumps({cluster: {"url": url, "secret": SECRET}})
    secrets = installation.stack.client("secretsmanager")
    secrets.put_secret_value(SecretId="faultbridge-job-callbacks", SecretString=document)
    installation.cli_json("cluster", "set", cluster, "--job-callback", "webhook", "--job-callback", "sns")


def _lose_gpu(installation: Installation, cluster: str, node: str) -> None:
    """Report the GPUs of a node, then that its sixth one is lost."""
    installation.send([RawInput("nvidia-smi-xml", cluster, healthy_smi().encode(), node=node)])
    eventually(lambda: len(installation.states(cluster)[node].devices) == GPUS, 60)
    send_fault(installation, cluster, node, GPU_LOST.replace("c1", "51"))


def _start(installation: Installation, cluster: str, job: str, *, ago: timedelta = timedelta()) -> None:
    at = (datetime.now(UTC) - ago).isoformat()
    installation.cli_json("job", "start", job, "--cluster", cluster, "--node", *_nodes(), "--at", at, *RANKS)


def _nodes() -> list[str]:
    return [f"node-[000-{NODES - 1:03}]"]


def _report(installation: Installation, cluster: str, job: str, state: str, **report: Any) -> None:
    """Report a job as a scheduler does, by an event on the default bus, and wait until `job list` shows its state."""
    detail = {"cluster": cluster, "job_id": job, **report}
    entry = {"Source": "example.slurm", "DetailType": "Faultbridge Job Report", "Detail": json.dumps(detail)}
    assert installation.stack.client("events").put_events(Entries=[entry])["FailedEntryCount"] == 0
    eventually(lambda: (job, state) in _states(installation, cluster), 60, lambda: _states(installation, cluster))


def _states(installation: Installation, cluster: str) -> list[tuple[str, str]]:
    return [(one["job_id"], one["state"]) for one in installation.cli_json("job", "list", "--cluster", cluster)]


def _nodes_of(installation: Installation, cluster: str, job: str) -> int:
    """Return the number of nodes whose states name a job: the sweep updates those of a job that an event reports."""
    return sum(job in state.jobs for state in installation.states(cluster).values())


def _end(installation: Installation, cluster: str, job: str) -> None:
    installation.cli_json("job", "end", job, "--cluster", cluster, "--outcome", "failed", "--reason", "exit code 1")


def _show(installation: Installation, cluster: str, job: str) -> dict[str, Any]:
    shown: dict[str, Any] = installation.cli_json("job", "show", job, "--cluster", cluster)
    return shown


def _write(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _progress(end: datetime) -> list[str]:
    """Return an hour of steps up to a minute before the end."""
    start = end - timedelta(minutes=60)
    return [
        f"[{start + timedelta(seconds=20 * step):%Y-%m-%d %H:%M:%S},000] step {step} loss=2.{step:03d} lr=3e-4"
        for step in range(177)
    ]


def _hang(end: datetime) -> list[str]:
    """Return the log of a job of which the ranks of other nodes wait for the lost one."""
    watchdog = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, Timeout(ms)=600000)"
    waiting = (rank for rank in range(NODES * GPUS) if rank // GPUS != 2)
    stamp = f"[{end:%Y-%m-%d %H:%M:%S},000]"
    return [
        *_progress(end),
        *(f"{stamp} [rank{rank}]:[E203 ProcessGroupNCCL.cpp:607] [Rank {rank}] {watchdog}" for rank in waiting),
        f"{stamp} torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    ]


def _traceback(end: datetime) -> list[str]:
    """Return the log of a job whose program indexes a list beyond its end."""
    stamp = f"[{end:%Y-%m-%d %H:%M:%S},000]"
    return [
        *_progress(end),
        f"{stamp} [rank9]: Traceback (most recent call last):",
        f'{stamp} [rank9]:   File "train.py", line 214, in collate',
        f"{stamp} [rank9]: IndexError: list index out of range",
        f"{stamp} torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    ]
