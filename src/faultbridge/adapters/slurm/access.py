"""Select the access to Slurm for a cluster: slurmrestd if it is registered, else the head node."""

from __future__ import annotations

import json
import logging
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.adapters.ec2 import commands
from faultbridge.adapters.ec2.commands import UNFINISHED
from faultbridge.adapters.slurm.rest import Access, RestClient, SlurmJob, SlurmRest, checked_address
from faultbridge.decode.slurm import SlurmNode, slurm_nodes
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.errors import FaultbridgeError, Misconfigured, Transient
from faultbridge.model.log import log_cause
from faultbridge.model.values import replace

# A command is a list of arguments, never one text for a shell; `HeadNode` must quote each argument. Unexpected output
# raises Transient, because it shows nothing about the state of the node or job.

_NOT_FOUND = re.compile(r"^Node (\S+) not found$", re.MULTILINE)
_JOB = re.compile(r"(\d+(?:_\d+)?(?:\+\d+)?)\|([A-Z_]+)")
_FACT = re.compile(r"(?:^|\s)(JobState|Reason)=(\S+)")
MAX_OUTPUT = 24_000
"""How many characters of a command's output SSM returns."""

_UNKNOWN_JOB = "invalid job id"
_DENIED = ("access/permission denied", "invalid user", "not permitted")
# Slurm refuses to requeue some jobs, and those that have just ended; neither is a failure of the command.
_NOT_REQUEUED = ("requested operation is presently disabled", "invalid job id", "job/step already completing")


class Output(Struct, frozen=True):
    """The exit code, standard output and standard error of a command on the head node."""

    code: int
    stdout: str
    stderr: str = ""


HeadNode = Callable[[Sequence[str]], Output]
"""Runs one command on the head node; raises Transient when the head node gives no result."""


class Scontrol(Struct, frozen=True):
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

    def comment(self, job_id: str) -> str:
        """Return the comment of a job, empty without one."""
        answer = self.run(("squeue", "--noheader", f"--jobs={job_id}", "--format=%k"))
        if answer.code != 0:
            raise _failure(answer, f"reading the comment of job {job_id}")
        return answer.stdout.strip()

    def signal(self, job_id: str, signal: str) -> None:
        """Send a signal to the steps of a job, not to its batch shell; this cancels nothing."""
        answer = self.run(("scancel", f"--signal={signal}", job_id))
        if answer.code != 0:
            raise _failure(answer, f"signaling job {job_id}")

    def release(self, job_id: str) -> None:
        """Release a held job, so that Slurm can start it."""
        answer = self.run(("scontrol", "release", job_id))
        if answer.code != 0:
            raise _failure(answer, f"releasing job {job_id}")

    def addresses(self) -> dict[str, str]:
        """Return the names of all nodes, by the address at which Slurm reaches each of them.

        Raises Misconfigured if the cluster has too many nodes for the output of one SSM command.
        """
        answer = self.run(("sinfo", "--noheader", "--Node", "--format=%o %N"))
        if answer.code != 0:
            raise _failure(answer, "listing the addresses of the nodes")
        if len(answer.stdout) >= MAX_OUTPUT:
            raise Misconfigured("too many Slurm nodes for one command on the head node; register slurmrestd too")
        rows = (line.partition(" ") for line in answer.stdout.splitlines())
        return {address: name.strip() for address, space, name in rows if space}

    def drain(self, name: str, reason: str, state: str = "DRAIN") -> None:
        """Keep new jobs off a node by a state, and store the reason in Slurm."""
        self._change(f"draining {name}", f"NodeName={name}", f"State={state}", f"Reason={reason}")

    def reboot(self, name: str, reason: str) -> None:
        """Reboot a node as soon as no job runs there; it returns in the state that it has now."""
        answer = self.run(("scontrol", "reboot", "ASAP", "nextstate=RESUME", f"reason={reason}", name))
        if answer.code != 0:
            raise _failure(answer, f"rebooting {name}")

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


# The caller repeats a command that gave no result, so a late run could undo what was decided since. 30 seconds is the
# shortest time that SSM accepts for the delivery.
DELIVERY_SECONDS = 30
SECONDS = 15
POLLS, PAUSE = 40, 0.5
COMMENT = "faultbridge slurm"
# Slurm is not always on the path of the SSM agent: ParallelCluster and PCS install it under /opt.
PATH = 'for folder in /opt/slurm/bin /opt/aws/pcs/scheduler/slurm-*/bin; do PATH="$PATH:$folder"; done'


class SsmHeadNode:
    """Runs commands on the head node of one Slurm cluster. `instance_id` identifies the head node."""

    def __init__(self, clients: Clients, instance_id: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self._clients, self._instance_id, self._sleep = clients, instance_id, sleep
        self._retry = replace(commands.THROTTLE_RETRY, sleep=sleep)

    def __call__(self, command: Sequence[str]) -> Output:
        """Run one command with quoted arguments; raises Transient without a result in about 20 seconds."""
        found = None
        with translated(f"running {command[0]} on {self._instance_id}"):
            sent = self._send(command)
            try:
                found = self._result(sent)
            finally:
                if found is None:
                    self._cancel(command[0], sent)
        if found is None:
            raise Transient(f"{command[0]} gave no result on head node {self._instance_id} in time")
        details = commands.details_of(found)
        if details in UNFINISHED or found["Status"] not in {"Success", "Failed"}:
            raise Transient(f"{command[0]} did not run on head node {self._instance_id}: {details}")
        code = int(found.get("ResponseCode", 0 if found["Status"] == "Success" else 1))
        return Output(code, str(found.get("StandardOutputContent", "")), str(found.get("StandardErrorContent", "")))

    def _send(self, command: Sequence[str]) -> str:
        script = (PATH, shlex.join(command))
        return commands.send(
            self._clients.ssm_no_retry,
            self._instance_id,
            COMMENT,
            script,
            seconds=SECONDS,
            delivery_seconds=DELIVERY_SECONDS,
            retry=self._retry,
        )

    def _result(self, sent: str) -> Mapping[str, Any] | None:
        for _ in range(POLLS):
            found = commands.invocation(self._clients.ssm, self._instance_id, sent)
            if found is not None and not commands.is_running(found):
                return found
            self._sleep(PAUSE)
        return None

    def _cancel(self, name: str, sent: str) -> None:
        """Cancel a command. A failure is only logged, because SSM also limits the time of the command."""
        try:
            with translated(f"canceling {name} on {self._instance_id}"):
                # The client without retries: after an outage, each further attempt would take more of the
                # function's time.
                commands.cancel(self._clients.ssm_no_retry, self._instance_id, sent, self._retry)
        except FaultbridgeError as error:
            decision, reason, level = "slurm_command_not_canceled", str(error), logging.WARNING
        else:
            decision, reason, level = "slurm_command_canceled", f"{name} gave no result", logging.INFO
        log_cause(decision, reason=reason, level=level, instance_id=self._instance_id, command=sent)


def connect(clients: Clients) -> Callable[[ClusterConfig], HeadNode]:
    """Return a function that returns the head node of a cluster; it raises Misconfigured without one."""

    def of_cluster(config: ClusterConfig) -> HeadNode:
        if not config.slurm_head_node:
            raise Misconfigured(f"no head node is registered for {config.cluster}; run cluster set --slurm-head-node")
        return SsmHeadNode(clients.for_role(config.provider_role), config.slurm_head_node)

    return of_cluster


SlurmOperations = Scontrol | SlurmRest
"""Operations on a cluster: Transient without a usable answer, Misconfigured without permission."""

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_TOKEN = re.compile(r"[A-Za-z0-9_.~+/=-]{1,8192}")


def connections(clients: Clients, read_tokens: Callable[[], bytes]) -> Callable[[ClusterConfig], SlurmOperations]:
    """Return a function for the Slurm operations of a cluster; it raises Misconfigured without any access."""
    head_node = connect(clients)
    known: dict[str, RestClient] = {}

    def of_cluster(config: ClusterConfig) -> SlurmOperations:
        url = config.slurm_rest
        if not url:
            return Scontrol(head_node(config))
        client = known.setdefault(url, RestClient(lambda: access_of(read_tokens(), url)))
        if not config.slurm_head_node:
            return SlurmRest(client)
        scontrol = Scontrol(head_node(config))
        return SlurmRest(client, scontrol.requeue, scontrol.reboot)

    return of_cluster


def access_of(document: bytes, url: str) -> Access:
    """Return the access to a slurmrestd from `{"URL": {"user": NAME, "token": JWT, "ca": PEM}}`.

    Raises Misconfigured without a valid entry, or for an address that is neither https nor on loopback. No error
    contains a value of the document.
    """
    checked_address(url)
    try:
        entries = json.loads(document)
        given = entries.get(url)
        user, token, authority = (given["user"], given["token"], given.get("ca")) if given else (None, None, None)
    except (ValueError, AttributeError, KeyError, TypeError):
        raise Misconfigured("the tokens of slurmrestd cannot be read; correct the JSON in the secret") from None
    if token is None:
        raise Misconfigured(f"no token is configured for {url}; add it to the secret of SlurmTokens")
    if not isinstance(user, str) or not _USER.fullmatch(user):
        raise Misconfigured(f"the user for {url} is not a user name; correct it in the secret of SlurmTokens")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise Misconfigured(f"the token for {url} is not a JSON Web Token; correct it in the secret of SlurmTokens")
    if authority is not None and not isinstance(authority, str):
        raise Misconfigured(f"the authority for {url} is not PEM; correct it in the secret of SlurmTokens")
    return Access(url, user, token, authority)
