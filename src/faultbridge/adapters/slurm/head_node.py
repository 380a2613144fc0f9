"""Run commands on the head node of a Slurm cluster through SSM Run Command."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.adapters.compute import ssm_commands
from faultbridge.adapters.compute.ssm_commands import RUNNING, UNFINISHED
from faultbridge.adapters.slurm.scontrol import HeadNode, Output
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.errors import Misconfigured, Transient

SECONDS = 30
POLLS, PAUSE = 40, 0.5
COMMENT = "faultbridge slurm"
# Slurm is not always on the path of the SSM agent: ParallelCluster and PCS install it under /opt.
PATH = 'for folder in /opt/slurm/bin /opt/aws/pcs/scheduler/slurm-*/bin; do PATH="$PATH:$folder"; done'


class SsmHeadNode:
    """Runs commands on the head node of one Slurm cluster, which is given by its instance id."""

    def __init__(self, clients: Clients, instance_id: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self._clients, self._instance_id, self._sleep = clients, instance_id, sleep

    def __call__(self, command: Sequence[str]) -> Output:
        """Run one command on the head node, with each argument quoted, and return its result.

        Raises Transient if there is no result after about 20 seconds.
        """
        ssm = self._clients.ssm
        with translated(f"running {command[0]} on {self._instance_id}"):
            script = (PATH, shlex.join(command))
            sent = ssm_commands.send(ssm, self._instance_id, COMMENT, script, seconds=SECONDS)
            for _ in range(POLLS):
                found = ssm_commands.invocation(ssm, self._instance_id, sent)
                details = ssm_commands.details_of(found) if found else ""
                if found is not None and (found["Status"] not in RUNNING or details in UNFINISHED):
                    break
                self._sleep(PAUSE)
            else:
                raise Transient(f"{command[0]} gave no result on head node {self._instance_id} in time")
        if details in UNFINISHED or found["Status"] not in {"Success", "Failed"}:
            raise Transient(f"{command[0]} did not run on head node {self._instance_id}: {details}")
        code = int(found.get("ResponseCode", 0 if found["Status"] == "Success" else 1))
        return Output(code, str(found.get("StandardOutputContent", "")), str(found.get("StandardErrorContent", "")))


def connect(clients: Clients) -> Callable[[ClusterConfig], HeadNode]:
    """Return a function that returns the head node of a registered cluster.

    The function uses the role that is registered for the cluster. It raises Misconfigured if no head node is
    registered.
    """

    def of_cluster(config: ClusterConfig) -> HeadNode:
        if not config.slurm_head_node:
            raise Misconfigured(f"no head node is registered for {config.cluster}; run cluster set --slurm-head-node")
        return SsmHeadNode(clients.for_role(config.provider_role), config.slurm_head_node)

    return of_cluster
