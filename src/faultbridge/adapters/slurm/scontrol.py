"""Run Slurm's commands on the head node: read a node and its jobs, drain, resume, requeue.

A command is a list of arguments, never one text for a shell; `HeadNode` must quote each argument. Unexpected output
raises Transient, because it shows nothing about the state of the node or job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from faultbridge.adapters.slurm.operations import SlurmJob
from faultbridge.dataclass import dataclass
from faultbridge.decoders.slurm.node_listing import SlurmNode, slurm_nodes
from faultbridge.errors import Misconfigured, Transient

_NOT_FOUND = re.compile(r"^Node (\S+) not found$", re.MULTILINE)
_JOB = re.compile(r"(\d+(?:_\d+)?(?:\+\d+)?)\|([A-Z_]+)")
_FACT = re.compile(r"(?:^|\s)(JobState|Reason)=(\S+)")
_UNKNOWN_JOB = "invalid job id"
_DENIED = ("access/permission denied", "invalid user", "not permitted")
# Slurm refuses to requeue some jobs, and those that have just ended; neither is a failure of the command.
_NOT_REQUEUED = ("requested operation is presently disabled", "invalid job id", "job/step already completing")


@dataclass(frozen=True, slots=True)
class Output:
    """The exit code, standard output and standard error of a command on the head node."""

    code: int
    stdout: str
    stderr: str = ""


HeadNode = Callable[[Sequence[str]], Output]
"""Runs one command on the head node; raises Transient when the head node gives no result."""


@dataclass(frozen=True, slots=True)
class Scontrol:
    """Runs Slurm's commands on one head node."""

    run: HeadNode

    def node(self, name: str) -> SlurmNode | None:
        """Return a node by its exact name, or None if Slurm reports that it has no such node."""
        answer = self.run(("scontrol", "show", "node", name, "--oneliner"))
        found = [one for one in slurm_nodes(answer.stdout) if one.name == name]
        if answer.code == 0 and len(found) == 1:
            return found[0]
        missing = _NOT_FOUND.search(f"{answer.stdout}\n{answer.stderr}")
        if missing is not None and missing[1] == name:
            return None
        raise _failure(answer, f"looking up Slurm node {name}")

    def jobs(self, name: str) -> tuple[SlurmJob, ...]:
        """Return the jobs that use resources of a node."""
        answer = self.run(("squeue", "--noheader", "--array", f"--nodelist={name}", "--format=%i|%T"))
        lines = [line.strip() for line in answer.stdout.splitlines() if line.strip()]
        jobs = [_JOB.fullmatch(line) for line in lines]
        if answer.code != 0 or None in jobs:
            raise _failure(answer, f"listing the jobs of {name}")
        return tuple(SlurmJob(job[1], job[2]) for job in jobs if job is not None)

    def job(self, job_id: str) -> SlurmJob | None:
        """Return a job by its id, or None if Slurm no longer has the job."""
        answer = self.run(("scontrol", "show", "job", job_id, "--oneliner"))
        if answer.code != 0 and _UNKNOWN_JOB in f"{answer.stdout}\n{answer.stderr}".lower():
            return None
        facts = dict(_FACT.findall(answer.stdout.partition("\n")[0]))
        if answer.code != 0 or not facts.keys() >= {"JobState", "Reason"}:
            raise _failure(answer, f"looking up Slurm job {job_id}")
        return SlurmJob(job_id, facts["JobState"], facts["Reason"])

    def release(self, job_id: str) -> None:
        """Release a held job, so that Slurm can start it."""
        answer = self.run(("scontrol", "release", job_id))
        if answer.code != 0:
            raise _failure(answer, f"releasing job {job_id}")

    def drain(self, name: str, reason: str) -> None:
        """Drain a node, and store the reason in Slurm."""
        self._change(f"draining {name}", f"NodeName={name}", "State=DRAIN", f"Reason={reason}")

    def resume(self, name: str) -> None:
        """Resume a drained node, so that it runs jobs again."""
        self._change(f"resuming {name}", f"NodeName={name}", "State=RESUME")

    def requeue(self, job: SlurmJob) -> bool:
        """Requeue a job; returns False, and changes nothing, if the job cannot be requeued."""
        answer = self.run(("scontrol", "requeue", job.id))
        text = f"{answer.stdout}\n{answer.stderr}".lower()
        if answer.code != 0 and not any(fragment in text for fragment in _NOT_REQUEUED):
            raise _failure(answer, f"requeuing job {job.id}")
        return answer.code == 0

    def _change(self, action: str, *words: str) -> None:
        answer = self.run(("scontrol", "update", *words))
        if answer.code != 0:
            raise _failure(answer, action)


def _failure(answer: Output, action: str) -> Transient | Misconfigured:
    message = (answer.stderr.strip() or answer.stdout.strip() or f"exit code {answer.code}")[:300]
    denied = any(fragment in message.lower() for fragment in _DENIED)
    return Misconfigured(f"{action}: {message}") if denied else Transient(f"{action}: {message}")
