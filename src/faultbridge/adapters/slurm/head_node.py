"""Run commands on the head node of a Slurm cluster through SSM Run Command."""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.adapters.compute import ssm_commands
from faultbridge.adapters.compute.ssm_commands import RUNNING, UNFINISHED
from faultbridge.adapters.slurm.scontrol import HeadNode, Output
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.errors import FaultbridgeError, Misconfigured, Transient
from faultbridge.log import log_cause

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
        self._retry = replace(ssm_commands.THROTTLE_RETRY, sleep=sleep)

    def __call__(self, command: Sequence[str]) -> Output:
        """Run one command on the head node, with each argument quoted, and return its result.

        Raises Transient if the command does not run to completion. A command without a result after about 20 seconds is
        canceled.
        """
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
        details = ssm_commands.details_of(found)
        if details in UNFINISHED or found["Status"] not in {"Success", "Failed"}:
            raise Transient(f"{command[0]} did not run on head node {self._instance_id}: {details}")
        code = int(found.get("ResponseCode", 0 if found["Status"] == "Success" else 1))
        return Output(code, str(found.get("StandardOutputContent", "")), str(found.get("StandardErrorContent", "")))

    def _send(self, command: Sequence[str]) -> str:
        script = (PATH, shlex.join(command))
        return ssm_commands.send(
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
            found = ssm_commands.invocation(self._clients.ssm, self._instance_id, sent)
            if found is not None and (found["Status"] not in RUNNING or ssm_commands.details_of(found) in UNFINISHED):
                return found
            self._sleep(PAUSE)
        return None

    def _cancel(self, name: str, sent: str) -> None:
        """Cancel a command. A failure is only logged, because SSM also limits the time of the command."""
        try:
            with translated(f"canceling {name} on {self._instance_id}"):
                # The client without retries: after an outage, each further attempt would take more of the
                # function's time.
                ssm_commands.cancel(self._clients.ssm_no_retry, self._instance_id, sent, self._retry)
        except FaultbridgeError as error:
            decision, reason, level = "slurm_command_not_canceled", str(error), logging.WARNING
        else:
            decision, reason, level = "slurm_command_canceled", f"{name} gave no result", logging.INFO
        log_cause(decision, reason=reason, level=level, instance_id=self._instance_id, command=sent)


def connect(clients: Clients) -> Callable[[ClusterConfig], HeadNode]:
    """Return a function that returns the head node of a registered cluster.

    The returned function uses the role that is registered for the cluster. If no head node is registered, the returned
    function raises Misconfigured.
    """

    def of_cluster(config: ClusterConfig) -> HeadNode:
        if not config.slurm_head_node:
            raise Misconfigured(f"no head node is registered for {config.cluster}; run cluster set --slurm-head-node")
        return SsmHeadNode(clients.for_role(config.provider_role), config.slurm_head_node)

    return of_cluster
