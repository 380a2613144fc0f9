"""Reboot a node of a SageMaker HyperPod cluster; HyperPod has no call that resets GPUs.

SageMaker reports no result of a reboot. A reboot counts as done when the node has the status `Running` and one of these
conditions is met:

- An earlier call found the node in a status other than `Running` and `Failure`.
- SageMaker accepted the request, and the request is more than 10 minutes old (`SETTLE`).

The verification after the reboot shows whether the node is healthy.
"""

from __future__ import annotations

from datetime import timedelta

from faultbridge.adapters.compute.hyperpod_cluster import FAILURE, RUNNING, HyperPodCluster, message_of, status_of
from faultbridge.adapters.compute.request_log import Progress, Request, RequestLog
from faultbridge.domain.cases import RepairAction
from faultbridge.errors import Transient
from faultbridge.ports import CallResult, ProviderFailure, Restart, RestartState

SETTLE = timedelta(minutes=10)
"""How long an accepted reboot may take until a running node counts as rebooted; a reboot takes one to three minutes."""

# After these failures SageMaker may have started the reboot, so the request is not sent again.
MAYBE_SENT = frozenset({ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT})


class HyperPodRestarter:
    """A Restarter for nodes of a HyperPod cluster; each token starts at most one reboot."""

    def __init__(self, cluster: HyperPodCluster, requests: RequestLog) -> None:
        self._cluster, self._requests = cluster, requests

    def restart(self, repair_action: RepairAction, instance_id: str, token: str) -> CallResult:
        """Request a reboot of the node, unless one was already requested with this token.

        Returns CONFLICT if HyperPod is set to recover nodes itself, and PROVIDER_ERROR for any other repair action than
        a reboot.
        """
        if repair_action is not RepairAction.REBOOT_NODE:
            return CallResult(ProviderFailure.PROVIDER_ERROR, f"HyperPod has no call for {repair_action.value}")
        request = _request_token(repair_action, token)
        operation = f"rebooting {instance_id} for {token}"
        if self._requests.find(request) is not None:
            return CallResult(operation=operation)
        if self._cluster.recovers_nodes():
            return CallResult(ProviderFailure.CONFLICT, f"HyperPod recovers the nodes of {self._cluster.name} itself")
        if not self._requests.record(request):
            return CallResult(operation=operation)
        answer = self._cluster.reboot(instance_id)
        if answer.ok:
            self._requests.advance(request, Progress.ACCEPTED)
            return CallResult(operation=operation)
        if answer.failure not in MAYBE_SENT:
            self._requests.withdraw(request)
        return answer

    def status(self, repair_action: RepairAction, instance_id: str, token: str) -> Restart:
        """Return the status of the reboot that was requested with this token.

        - `absent`: no reboot was requested with this token.
        - `running`: the node does not run now, or it is not proven yet that it rebooted.
        - `done`: the node runs, and an earlier call found it in a status other than `Running` and `Failure`.
        - `done` also if the node runs, and the request was accepted and is more than 10 minutes old (`SETTLE`).
        - `failed`: HyperPod reports the status `Failure` for the node.
        - `unknown`: SageMaker did not describe the node, or the node is shutting down or gone.
        """
        request_token = _request_token(repair_action, token)
        request = self._requests.find(request_token)
        if request is None:
            return Restart(RestartState.ABSENT)
        operation = f"rebooting {instance_id} for {token}"
        try:
            node = self._cluster.find_node(instance_id)
        except Transient as error:
            return Restart(RestartState.UNKNOWN, str(error), operation)
        if node is None:
            return Restart(RestartState.UNKNOWN, "the cluster no longer lists the instance", operation)
        if status_of(node) == RUNNING:
            return Restart(*self._state_of_running_node(request), operation=operation)
        if status_of(node) == FAILURE:
            return Restart(RestartState.FAILED, f"HyperPod reports {FAILURE}: {message_of(node)}", operation)
        self._requests.advance(request_token, Progress.OBSERVED)
        return Restart(RestartState.RUNNING, f"the node has the status {status_of(node)}", operation)

    def _state_of_running_node(self, request: Request) -> tuple[RestartState, str]:
        settled = request.recorded_at + SETTLE <= self._requests.clock.now()
        if request.progress is Progress.OBSERVED or (request.progress is Progress.ACCEPTED and settled):
            return RestartState.DONE, ""
        return RestartState.RUNNING, "the end of the reboot is not proven yet"


def _request_token(repair_action: RepairAction, token: str) -> str:
    return f"{token} {repair_action.value}"
